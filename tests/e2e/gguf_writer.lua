-- gguf_writer.lua -- a GGUF file from rows of bytes: keys, tensors, orders of rows.
--
-- A tensor is { rows..., cols = n }, all F32; vectors are one row.

local M = {}

function M.rows(t, from, count, step)
  local r = { cols = t.cols }
  for i = 0, count - 1 do r[i + 1] = t[from + i * (step or 1) + 1] end
  return r
end

function M.transposed(t)
  local r = { cols = #t }
  for c = 0, t.cols - 1 do
    local cells = {}
    for i = 1, #t do cells[i] = t[i]:sub(4 * c + 1, 4 * c + 4) end
    r[c + 1] = table.concat(cells)
  end
  return r
end

-- Halves of each head to pairs: the row order of Llama's converter.
function M.permuted(t, heads)
  local r, hd = { cols = t.cols }, #t // heads
  for h = 0, heads - 1 do
    for i = 0, hd - 1 do r[h * hd + i + 1] = t[h * hd + i // 2 + i % 2 * (hd // 2) + 1] end
  end
  return r
end

local list, kv = {}, {}
function M.add(name, t, outer)
  local dims = { t.cols }
  if outer then dims[2], dims[3] = #t // outer, outer elseif #t > 1 then dims[2] = #t end
  list[#list + 1] = { name = name, dims = dims, data = table.concat(t) }
end

function M.u32(k, v) if v then kv[#kv + 1] = ("<s8I4I4"):pack(k, 4, v) end end

function M.f32(k, v) if v then kv[#kv + 1] = ("<s8I4f"):pack(k, 6, v) end end

function M.bool(k, v) if v ~= nil then kv[#kv + 1] = ("<s8I4B"):pack(k, 7, v and 1 or 0) end end

function M.str(k, v) kv[#kv + 1] = ("<s8I4s8"):pack(k, 8, v) end

function M.joined(parts)
  local t = { cols = parts[1].cols }
  for _, p in ipairs(parts) do table.move(p, 1, #p, #t + 1, t) end
  return t
end

-- The tensors called `names` become one: each outer part's rows after each other.
function M.fuse(names, into)
  local found, kept = {}, {}
  for _, t in ipairs(list) do
    for i, name in ipairs(names) do if t.name == name then found[i] = t end end
  end
  if #found < #names then return end
  local first, data = found[1], {}
  local axis, outer = #first.dims == 1 and 1 or 2, first.dims[3] or 1
  for e = 0, outer - 1 do
    for _, t in ipairs(found) do
      local n = #t.data // outer
      data[#data + 1] = t.data:sub(e * n + 1, (e + 1) * n)
    end
  end
  local dims = table.move(first.dims, 1, #first.dims, 1, {})
  for i = 2, #found do dims[axis] = dims[axis] + found[i].dims[axis] end
  for _, t in ipairs(list) do
    if t == first then kept[#kept + 1] = { name = into, dims = dims, data = table.concat(data) }
    elseif not table.concat(names, " "):find(t.name, 1, true) then kept[#kept + 1] = t end
  end
  list = kept
end

function M.write(path)
  local infos, blobs, at = {}, {}, 0
  for i, t in ipairs(list) do
    local dims = {}
    for k, d in ipairs(t.dims) do dims[k] = ("<I8"):pack(d) end
    infos[i] = ("<s8I4"):pack(t.name, #t.dims) .. table.concat(dims) .. ("<I4I8"):pack(0, at)
    local pad = -#t.data % 32
    blobs[i] = t.data .. ("\0"):rep(pad)
    at = at + #t.data + pad
  end
  local header = "GGUF" .. ("<I4I8I8"):pack(3, #list, #kv) .. table.concat(kv) .. table.concat(infos)
  local file = assert(io.open(path, "wb"))
  file:write(header, ("\0"):rep(-#header % 32), table.concat(blobs))
  file:close()
end

return M

-- gen/gguf_tensors.lua -- do the tensor infos of a GGUF file tell the truth?

local types = require "gen.gguf_types"

local M = {}

local MOST = math.maxinteger

--- A u64 as a person reads it: Lua holds those from 2^63 on as negative.
function M.u64_text(n)
  if n >= 0 then return ("%d"):format(n) end
  local tenth = (n >> 1) // 5
  return ("%d%d"):format(tenth, n - tenth * 10)
end

-- Elements, or nil where they would not fit 63 bits.
local function elements(dims)
  local n = 1
  for _, d in ipairs(dims) do
    if d < 0 or d > 0 and n > MOST // d then return nil end
    n = n * d
  end
  return n
end

-- The tensor's bytes, or nil and what is wrong with its info: field, want, got.
local function measure(t, alignment, room)
  local kind = types.tensor[t.kind]
  if not kind then return nil, "type", "a known tensor type", ("id %d"):format(t.kind) end
  local n = elements(t.dims)
  if not n or n > MOST // kind.bytes then
    return nil, "dimensions", "a product below 2^63 bytes", "one that wraps"
  end
  local row = t.dims[1] or 1
  if row % kind.block ~= 0 then
    return nil, "dimensions", ("rows of whole %s blocks of %d"):format(kind.name, kind.block), M.u64_text(row)
  end
  if t.offset < 0 or t.offset % alignment ~= 0 then
    return nil, "offset", ("a multiple of %d below 2^63"):format(alignment), M.u64_text(t.offset)
  end
  local bytes = n // kind.block * kind.bytes
  if t.offset > room or bytes > room - t.offset then
    return nil, "offset", ("%d bytes inside the %d of tensor data"):format(bytes, room), M.u64_text(t.offset)
  end
  return bytes
end

local function check_overlap(tensors, complain)
  local by_offset, last = table.move(tensors, 1, #tensors, 1, {}), nil
  table.sort(by_offset, function(a, b)
    if a.offset ~= b.offset then return a.offset < b.offset end
    return a.name < b.name
  end)
  for _, t in ipairs(by_offset) do
    if t.bytes > 0 then
      if last and t.offset < last.offset + last.bytes then
        complain(t.name .. ": offset", ("at least %d, the end of %s"):format(last.offset + last.bytes, last.name),
          M.u64_text(t.offset))
      end
      last = t
    end
  end
end

--- Set every tensor's `bytes`; complain of each whose info lies.
--- @param tensors   table     list of { name, dims, kind, offset }
--- @param alignment integer   of offsets
--- @param room      integer   bytes of tensor data in the file
--- @param complain  function  (field, want, got)
function M.check(tensors, alignment, room, complain)
  local sound = true
  for _, t in ipairs(tensors) do
    local bytes, field, want, got = measure(t, alignment, room)
    t.bytes = bytes
    if not bytes then
      sound = false
      complain(t.name .. ": " .. field, want, got)
    end
  end
  if sound then check_overlap(tensors, complain) end
end

return M

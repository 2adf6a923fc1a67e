-- gen/dump.lua -- a table as text, keys sorted: for --dump, for goldens, for the plan hash.

local M = {}

local function key_order(a, b)
  if type(a) == type(b) then return a < b end
  return type(a) == "number"
end

local function scalar(v)
  if type(v) == "string" then return ("%q"):format(v) end
  if math.type(v) == "float" then return ("%.17g"):format(v) end
  return tostring(v)
end

local function walk(t, prefix, out)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys, key_order)
  for _, k in ipairs(keys) do
    local path = type(k) == "number" and ("%s[%d]"):format(prefix, k)
      or prefix == "" and k or prefix .. "." .. k
    if type(t[k]) == "table" then
      walk(t[k], path, out)
    else
      out[#out + 1] = path .. " = " .. scalar(t[k])
    end
  end
end

--- @return string one `path = value` a line
function M.text(t)
  local out = {}
  walk(t, "", out)
  return table.concat(out, "\n") .. "\n"
end

return M

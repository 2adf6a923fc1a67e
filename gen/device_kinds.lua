-- gen/device_kinds.lua -- what the device's kernels know of a model; all the rest is refused.
--
-- One entry for each field of gen/model.lua that changes arithmetic: a field that is not
-- here is a size.  tests/gen/device.lua sees to it that none is forgotten.


local M = {}

-- { field, the values that kernels/cuda/ has, as a list or a test, in words }
M.KNOWN = {
  { "act", { "swiglu", "swiglu_oai" } },
  { "n_route_group", { 1 } },
  { "n_layer_enc", { 0 } },
  { "n_rel_bucket", { 0 } },
  { "kv_lora", {} },
}

local function listed(values, v)
  for _, known in ipairs(values) do
    if known == v then return true end
  end
  return false
end

local function show(values)
  local words = {}
  for i, v in ipairs(values) do words[i] = tostring(v) end
  return #words > 0 and table.concat(words, " or ") or "none"
end

local function only(list, what)
  return #list > 0 and ("%s (%s)"):format(what, table.concat(list, "; ")) or nil
end

--- @return string? why   the kernels cannot run this model
function M.refusal(m)
  local bad = {}
  local function refuse(...) bad[#bad + 1] = string.format(...) end
  for _, known in ipairs(M.KNOWN) do
    local field, values = known[1], known[2]
    local v = m[field]
    if v ~= nil and not listed(values, v) then
      refuse("%s: want %s, got %s", field, show(values), tostring(v))
    end
  end
  if m.n_expert == 0 then refuse("n_expert: want at least 1, got 0") end
  return only(bad, "gpu: the device's kernels do not know this model; a profile without a GPU has all that it needs")
end

return M

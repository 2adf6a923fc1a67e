-- gen/device_kinds.lua -- what the device's kernels know of a model; all the rest is refused.
--
-- One entry for each field of gen/model.lua that changes arithmetic: a field that is not
-- here is a size.  tests/gen/device.lua sees to it that none is forgotten.

local plan_rope = require "gen.plan_rope"
local shape = require "gen.shape"

local M = {}

M.FORMATS = { f32 = true, f16 = true, bf16 = true, q8_0 = true, q4_0 = true }

-- { field, the values that kernels/cuda/ has, as a list or a test, in words }
M.KNOWN = {
  { "norm", { "rms" } },
  { "norm_bias", { false } },
  { "qk_norm", { "none" } },
  { "attn_bias", { "none" } },
  { "output_bias", { false } },
  { "expert_bias", { false } },
  { "sinks", { false } },
  { "act", { "swiglu" } },
  { "qkv_clip", { 0.0 } },
  { "embd_scale", { 1.0 } },
  { "residual_scale", { 1.0 } },
  { "logit_scale", { 1.0 } },
  { "router", { "softmax" } },
  { "route_norm", { true } },
  { "route_scale", { 1.0 } },
  { "route_bias", { false } },
  { "n_route_group", { 1 } },
  { "n_layer_dense", { 0 } },
  { "n_ff_shared", { 0 } },
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

-- Every matrix and its format, in file order.
local function matrices(m, formats)
  local list = {}
  for _, mat in ipairs(shape.outer_matrices(m)) do list[#list + 1] = { mat.role, formats[mat.role] } end
  for i = 1, m.n_layer do
    for _, mat in ipairs(shape.layer_matrices(m, i)) do
      list[#list + 1] = { ("layer %d %s"):format(i - 1, mat.role), formats.layers[i][mat.role] }
    end
  end
  return list
end

local function only(list, what)
  return #list > 0 and ("%s (%s)"):format(what, table.concat(list, "; ")) or nil
end

--- @return string? why   the kernels cannot run this model
function M.refusal(m, formats)
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
  if m.rope_dim ~= m.head_dim then
    refuse("rope_dim: want head_dim (%d), got %d", m.head_dim, m.rope_dim)
  end
  if #plan_rope.plan(m).tables > 1 then refuse("rope: want one set of frequencies, got 2") end
  for _, mat in ipairs(matrices(m, formats)) do
    if not M.FORMATS[mat[2]] then
      refuse("weights: want f32, f16, bf16, q8_0 or q4_0, got %s for %s", mat[2], mat[1])
      break
    end
  end
  return only(bad, "gpu: the device's kernels do not know this model; a profile without a GPU has all that it needs")
end

return M

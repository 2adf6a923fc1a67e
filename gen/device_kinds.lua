-- gen/device_kinds.lua -- what the device's kernels know of a model, and what its memory must hold; all the
-- rest is refused.
--
-- KNOWN has the fields of gen/model.lua that have values which the kernels do not know; with
-- the fields of ANY they can do whatever a model says.  A new field is in neither, and the
-- tests fail until somebody has decided.

local num = require "gen.num"

local M = {}

-- { field, the values that kernels/cuda/ has }
M.KNOWN = {
  { "act", { "swiglu", "swiglu_oai", "relu" } },
}

M.ANY = {
  "family", "n_layer", "n_embd", "n_head", "n_head_kv", "head_dim", "n_ff", "n_expert", "n_expert_used", "n_vocab",
  "n_ctx_train", "norm_eps", "rope_theta", "window", "tied", "weights", "norm", "norm_bias", "qk_norm", "attn_bias",
  "output_bias", "expert_bias", "sinks", "window_every", "act_limit", "qkv_clip", "embd_scale", "residual_scale",
  "logit_scale", "attn_scale", "router", "route_norm", "route_scale", "route_bias", "router_jitter", "n_layer_dense",
  "n_ff_dense", "n_ff_shared", "shared_gate", "rope_dim", "rope",
  "n_route_group", "n_route_group_used", "route_group_top", "kv_lora", "q_lora", "nope_dim", "v_dim", "latent_eps",
  "n_layer_enc", "n_rel_bucket", "sparse_step", "sparse_step_enc", "rel_distance", "start_token",
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
  return only(bad, "gpu: the device's kernels do not know this model; a profile without a GPU has all that it needs")
end

-- One memory holds the weights once: what does not fit has no other place.
function M.not_unified(device, opts)
  if device.mapped == 0 then return nil end
  if opts.vram_ways then return "--set: vram_ways: want a GPU with memory of its own, got a unified one" end
  local need = device.mapped + device.bytes
  if need <= device.usable then return nil end
  return ("memory: want at most %s (unified: RAM is the GPU's), got %s: weights %s, KV and work %s"):format(
    num.human(device.usable), num.human(need), num.human(device.mapped), num.human(device.bytes))
end

-- An encoder's layers pass through the slots' memory, half of it each in turn.
function M.no_passage(layout, cache)
  local most = 0
  for _, layer in ipairs(layout.layers) do
    if layer.encoder then most = math.max(most, layer.expert_stride * layer.n_expert) end
  end
  if cache.bytes // 2 // 4096 * 4096 >= most then return nil end
  return ("vram: want slots of %s for two of the encoder's layers, got %s in %d sets of %d"):format(
    num.human(2 * most), num.human(cache.bytes), cache.sets, cache.ways)
end

-- What kernels/cuda/place.cu replaces, or nothing at all, where there is a cache.
function M.not_policy(device, opts)
  local policy = opts.policy
  if policy and policy ~= "decay" and policy ~= "static" then
    return ("--set: policy: want decay or static for a cache in VRAM, got %s"):format(policy)
  end
  if policy and not device.cached then
    return "--set: policy: want experts that do not all fit VRAM (vram=, vram_ways=), got a plan in which they do"
  end
end

-- A model without experts has nothing that could stay outside.
function M.not_dense(m, device, opts)
  if m.n_expert > 0 then return nil end
  if opts.vram_ways then return "--set: vram_ways: want a model with experts, got a dense one" end
  if device.bytes + device.mapped <= device.usable then return nil end
  return ("vram: want at most %s, got %s: a model without experts is there as a whole"):format(
    num.human(device.usable), num.human(device.bytes + device.mapped))
end

return M

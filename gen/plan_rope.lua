-- gen/plan_rope.lua -- rotary frequencies, one a pair of dimensions.
--
-- theta_i = base^(-2i / d) (Su et al. 2021, RoFormer, section 3.2.2), stretched
-- as the model's `rope` says.  longrope has two tables, one for sequences
-- within the original context and one for longer ones.

local M = {}

--- Before any stretching.
function M.plain(m)
  local freq = {}
  for i = 0, m.rope_dim // 2 - 1 do freq[i + 1] = m.rope_theta ^ (-2 * i / m.rope_dim) end
  return freq
end

-- 0.1 ln(factor) + 1: the growth of attention's logits (Peng et al. 2023, YaRN, equation 22).
function M.mscale(factor, weight)
  return factor <= 1 and 1.0 or 0.1 * weight * math.log(factor) + 1.0
end

-- YaRN, "NTK-by-parts" (section 3.2): pairs that turn less than beta_slow times in the
-- original context are interpolated, more than beta_fast times are kept, a ramp between.
local function yarn(m, freq)
  local r, dim = m.rope, m.rope_dim
  local function pair_of(turns)
    return dim * math.log(r.orig_ctx / (turns * 2 * math.pi)) / (2 * math.log(m.rope_theta))
  end
  local low, high = pair_of(r.beta_fast), pair_of(r.beta_slow)
  if r.truncate then low, high = math.floor(low), math.ceil(high) end
  low, high = math.max(low, 0), math.min(high, dim - 1)
  if low == high then high = high + 0.001 end
  for i = 1, #freq do
    local ramp = math.max(0.0, math.min(1.0, (i - 1 - low) / (high - low)))
    freq[i] = freq[i] / r.factor * ramp + freq[i] * (1 - ramp)
  end
end

-- Llama 3.1's scheme: low frequencies divided by the factor, high ones kept, a ramp by wavelength.
local function llama3(m, freq)
  local r = m.rope
  for i, f in ipairs(freq) do
    local turns = r.orig_ctx * f / (2 * math.pi)
    local smooth = math.max(0.0, math.min(1.0, (turns - r.low_freq) / (r.high_freq - r.low_freq)))
    freq[i] = (1 - smooth) * f / r.factor + smooth * f
  end
end

-- Lists of divisors are floats, as published code and GGUF files have them.
local function divided(freq, by)
  local out = {}
  for i, f in ipairs(freq) do
    out[i] = f / (type(by) == "table" and string.unpack("<f", string.pack("<f", by[i])) or by)
  end
  return out
end

-- cos and sin are scaled by this.
local function yarn_scale(r)
  if r.attn_factor then return r.attn_factor end
  if r.mscale and r.mscale_all then
    return M.mscale(r.factor, r.mscale) / M.mscale(r.factor, r.mscale_all)
  end
  return M.mscale(r.factor, 1.0)
end

--- @return table { tables = { {freq...}, ... }, scales = { ... }, switch = positions }
function M.plan(m)
  local freq, r = M.plain(m), m.rope
  local plan = { tables = { freq }, scales = { 1.0 }, switch = m.n_ctx_train }
  if not r then return plan end
  if r.type == "linear" then
    plan.tables = { divided(freq, r.factor) }
  elseif r.type == "factors" then
    plan.tables = { divided(freq, r.short_factor) }
  elseif r.type == "llama3" then
    llama3(m, freq)
  elseif r.type == "yarn" then
    yarn(m, freq)
    plan.scales = { yarn_scale(r) }
  else
    plan.tables = { divided(freq, r.short_factor), divided(freq, r.long_factor) }
    plan.scales, plan.switch = { r.short_mscale, r.long_mscale }, r.orig_ctx
  end
  return plan
end

--- The factor of attention's scores.
function M.attn_scale(m)
  if m.attn_scale then return m.attn_scale end
  local scale = 1 / math.sqrt(m.nope_dim and m.nope_dim + m.rope_dim or m.head_dim)
  if m.kv_lora and m.rope and m.rope.mscale_all then
    scale = scale * M.mscale(m.rope.factor, m.rope.mscale_all) ^ 2 -- DeepSeek-V2's published code
  end
  return scale
end

return M

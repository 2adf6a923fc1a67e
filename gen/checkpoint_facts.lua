-- gen/checkpoint_facts.lua -- what a checkpoint's metadata says of its model, for pack to compare.
--
-- Three kinds: numbers, words, lists of numbers.  A family's own keys state the numbers;
-- how rotation is stretched is spelled the same for all (gen/rope.lua, gen/gguf_rope.lua).
-- And what must not be stated otherwise, since it would be other arithmetic (a family's `only`).

local gguf_rope = require "gen.gguf_rope"
local plan_rope = require "gen.plan_rope"
local schema = require "gen.schema"

local M = {}

-- Facts that tensors' shapes need not show.  `less`: GGUF counts layers for predicting
-- several tokens at once, which no plan has.
local FACTS = {
  { "n_layer", less = "nextn_predict_layers" }, { "n_embd" }, { "n_head" }, { "n_head_kv" }, { "head_dim" },
  { "rope_dim" }, { "n_expert" }, { "n_expert_used" }, { "norm_eps" }, { "rope_theta" }, { "window" },
  { "route_norm" }, { "route_scale" }, { "router_jitter" }, { "qkv_clip" }, { "act_limit" }, { "embd_scale" },
  { "residual_scale" }, { "attn_scale" }, { "logit_scale" }, { "q_lora" }, { "kv_lora" }, { "v_dim" },
  { "n_layer_dense" }, { "n_route_group" }, { "n_route_group_used" },
  { "n_layer_enc" }, { "n_rel_bucket" }, { "rel_distance" }, { "start_token" },
}

local function keys_of(list, field, prefix)
  for _, k in ipairs(list) do
    if k.field == field then return { prefix .. k.key, k.or_key and prefix .. k.or_key } end
  end
  return {}
end

local function number(v) return type(v) == "boolean" and (v and 1 or 0) or v end

-- The keys of config.json where one of rope's may stand.
local function rope_keys(key) return { "rope_scaling." .. key, "rope_parameters." .. key } end

-- Field, key in config.json, key in GGUF.  A field that the model does not state must be absent: of YaRN's,
-- each of these would change the arithmetic.
local ROPE = {
  linear = { { "factor", "factor", "factor" } },
  llama3 = { { "factor", "factor" }, { "orig_ctx", "original_max_position_embeddings" },
             { "low_freq", "low_freq_factor" }, { "high_freq", "high_freq_factor" } },
  yarn = { { "factor", "factor", "factor" },
           { "orig_ctx", "original_max_position_embeddings", "original_context_length" },
           { "beta_fast", "beta_fast", "yarn_beta_fast" }, { "beta_slow", "beta_slow", "yarn_beta_slow" },
           { "truncate", "truncate" }, { "mscale", "mscale" }, { "mscale_all", "mscale_all_dim" },
           { "attn_factor", "attention_factor" } },
  longrope = { { "orig_ctx", "original_max_position_embeddings", "original_context_length" },
               { "short_mscale", "short_mscale" }, { "long_mscale", "long_mscale" } },
  factors = {},
}

local function rope_numbers(rows, r, arch)
  local function gguf(key, value)
    if arch then rows[#rows + 1] = { hf = {}, gguf = { arch .. "rope.scaling." .. key }, value = value } end
  end
  for _, k in ipairs(ROPE[r.type]) do
    local value, keys = number(r[k[1]]), rope_keys(k[2])
    if k[1] == "orig_ctx" then keys[3] = k[2] end
    rows[#rows + 1] = { hf = keys, gguf = {}, value = value or 0, none = value == nil }
    if k[3] and value then gguf(k[3], value) end
  end
  if r.type ~= "yarn" then return end
  gguf("yarn_log_multiplier", 0.1 * (r.mscale_all or 0)) -- as the format's writers spell mscale_all
  gguf("yarn_attn_factor", r.attn_factor or 1)           -- 1: none
end

--- @return table  rows { hf = { keys }, gguf = { keys }, less?, value, none? }
function M.numbers(family, m)
  local rows, arch = {}, family.gguf and family.gguf.arch .. "."
  for _, fact in ipairs(FACTS) do
    local value, field = number(m[fact[1]]), fact[1]
    local row = { hf = keys_of(family.hf.keys, field, ""), gguf = arch and keys_of(family.gguf.keys, field, arch) or {},
                  value = value }
    row.less = row.gguf[1] and fact.less and arch .. fact.less
    if value and (row.hf[1] or row.gguf[1]) then rows[#rows + 1] = row end
  end
  -- Families whose whole heads turn read no key for it, yet a GGUF file may state another number.
  if arch and m.rope_dim and not m.kv_lora and #keys_of(family.gguf.keys, "rope_dim", arch) == 0 then
    rows[#rows + 1] = { hf = {}, gguf = { arch .. "rope.dimension_count" }, value = m.rope_dim }
  end
  if arch then -- as gen/gguf_model.lua compares them
    rows[#rows + 1] = { hf = {}, gguf = { arch .. "vocab_size" }, value = m.n_vocab }
    if not m.kv_lora then
      rows[#rows + 1] = { hf = {}, gguf = { arch .. "attention.value_length" }, value = m.head_dim }
    end
  end
  if m.rope then rope_numbers(rows, m.rope, arch) end
  return rows
end

--- @return table  rows { hf = { key }, gguf = key?, want = { values, as messages show them } }
function M.only(family, m)
  local rows, compared = {}, {}
  for _, row in ipairs(M.numbers(family, m)) do
    for _, key in ipairs(row.hf) do compared[key] = true end
    for _, key in ipairs(row.gguf) do compared[key] = true end
  end
  local function add(rule, key, row)
    if compared[key] then return end
    row.want = {}
    for i, v in ipairs(rule.values) do row.want[i] = schema.show(v) end
    rows[#rows + 1] = row
  end
  for _, rule in ipairs(family.hf.only) do add(rule, rule.key, { hf = { rule.key } }) end
  for _, rule in ipairs(family.gguf and family.gguf.only or {}) do
    local key = family.gguf.arch .. "." .. rule.key
    add(rule, key, { hf = {}, gguf = key })
  end
  return rows
end

-- How a file spells the type of stretching; GGUF's divisors are tensors and need no word.
local HF_WORD = { factors = "llama3" }
local GGUF_WORDS = { linear = { "linear" }, yarn = { "yarn" }, longrope = { "none", "longrope" } }

--- @return table  rows { hf = { keys }, gguf = key?, want = { words }, absent = word? }
---   absent: what a file means that has none of the keys; without it nothing is compared then
function M.words(family, m)
  local rows, kind = { { hf = { "model_type" }, want = family.hf.model_types } }, m.rope and m.rope.type
  if family.hf.rope then
    rows[#rows + 1] = { hf = { "rope_scaling.rope_type", "rope_scaling.type", "rope_parameters.rope_type",
                               "rope_parameters.type" },
                        want = { kind and (HF_WORD[kind] or kind) or "default" }, absent = "default" }
  end
  if family.gguf then
    rows[#rows + 1] = { hf = {}, gguf = "general.architecture", want = { family.gguf.arch } }
    rows[#rows + 1] = { hf = {}, gguf = family.gguf.arch .. ".rope.scaling.type",
                        want = GGUF_WORDS[kind] or { "none" }, absent = "none" }
  end
  return rows
end

-- Divisors of the plain frequencies, of a scheme that has no list of its own.
local function divisors(m)
  local freq, list = plan_rope.plan(m).tables[1], {}
  for i, f in ipairs(plan_rope.plain(m)) do list[i] = f / freq[i] end
  return list
end

--- @return table  rows { hf = { keys }, gguf = tensor?, list = { numbers } }; an empty list must be absent
function M.lists(family, m)
  local rows, allowed = {}, {}
  local kind = m.rope and m.rope.type
  for _, side in ipairs { family.hf, family.gguf or {} } do
    for _, name in ipairs(side.rope or {}) do allowed[name] = true end
  end
  if allowed.longrope then
    local long = kind == "longrope"
    rows[1] = { hf = rope_keys "short_factor", gguf = gguf_rope.SHORT, list = long and m.rope.short_factor or {} }
    rows[2] = { hf = rope_keys "long_factor", gguf = gguf_rope.LONG, list = long and m.rope.long_factor or {} }
  end
  if allowed.factors then
    rows[#rows + 1] = { hf = {}, gguf = gguf_rope.FREQS, list = kind == "factors" and m.rope.short_factor
                        or kind == "llama3" and divisors(m) or {} }
  end
  return rows
end

return M

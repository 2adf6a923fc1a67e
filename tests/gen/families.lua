-- Families: what each may state, what each refuses by name, and the numbers that follow.

local lu = require "luaunit"
local json = require "dkjson"
local families = require "gen.families"
local hf = require "gen.hf"
local plan_bias = require "gen.plan_bias"
local plan_kinds = require "gen.plan_kinds"
local plan_mem = require "gen.plan_mem"
local plan_rope = require "gen.plan_rope"
local shape = require "gen.shape"

local eq = lu.assertEquals
local T = {}

local function describe(config)
  local problems = {}
  local m = hf.describe(json.encode(config), json, "m/config.json", problems)
  return m, table.concat(problems, "\n")
end

local function with(base, changes)
  local out = {}
  for k, v in pairs(base) do out[k] = v end
  for k, v in pairs(changes) do out[k] = v end
  return out
end

local BASE = {
  torch_dtype = "bfloat16", hidden_size = 64, num_attention_heads = 4, num_hidden_layers = 3, vocab_size = 512,
  max_position_embeddings = 256, rms_norm_eps = 1e-5, rope_theta = 1e4, intermediate_size = 80,
  num_experts_per_tok = 2, hidden_act = "silu",
}

local GPT_OSS = with(BASE, {
  model_type = "gpt_oss", num_key_value_heads = 2, num_local_experts = 6, sliding_window = 8, attention_bias = true,
  layer_types = { "sliding_attention", "full_attention", "sliding_attention" },
  rope_scaling = { rope_type = "yarn", factor = 32, original_max_position_embeddings = 64, truncate = false },
})

local DEEPSEEK = with(BASE, {
  model_type = "deepseek_v3", n_routed_experts = 8, n_shared_experts = 2, moe_intermediate_size = 24,
  first_k_dense_replace = 1, q_lora_rank = 24, kv_lora_rank = 32, qk_nope_head_dim = 16, qk_rope_head_dim = 8,
  v_head_dim = 16, n_group = 4, topk_group = 2, routed_scaling_factor = 2.5,
  rope_scaling = { type = "yarn", factor = 40, original_max_position_embeddings = 64, mscale = 1.0,
                   mscale_all_dim = 1.0 },
})

function T.test_every_family_names_what_it_needs()
  for _, family in ipairs(families.list) do
    for _, role in ipairs { "TOKEN_EMBD", "OUTPUT_NORM", "OUTPUT", "ATTN_NORM", "FFN_NORM", "ATTN_O" } do
      lu.assertNotNil(family.sources[role].hf[1], family.name .. " " .. role)
    end
  end
end

function T.test_gpt_oss()
  local m, why = describe(GPT_OSS)
  eq(why, "")
  eq({ m.sinks, m.expert_bias, m.attn_bias, m.act, m.act_limit, m.window, m.window_every },
    { true, true, "qkvo", "swiglu_oai", 7.0, 8, 2 })
  m, why = describe(with(GPT_OSS, { quantization_config = { quant_method = "mxfp4" }, torch_dtype = false }))
  eq({ m ~= nil, why }, { true, 'm/config.json: torch_dtype: want float32, float16 or bfloat16, got false' })
  local two = with(GPT_OSS, { quantization_config = { quant_method = "mxfp4" } })
  two.torch_dtype = nil
  m, why = describe(two)
  eq({ why, m.weights.expert, m.weights.attn }, { "", "mxfp4", "bf16" })
end

function T.test_layers_that_do_not_alternate()
  local _, why = describe(with(GPT_OSS, { layer_types = { "full_attention", "full_attention", "full_attention" } }))
  eq(why, 'm/config.json: layer_types.1: want sliding_attention (they alternate), got "full_attention"')
end

function T.test_latent_attention()
  local m, why = describe(DEEPSEEK)
  eq(why, "")
  eq({ m.n_head_kv, m.head_dim, m.rope_dim, m.n_ff_shared, m.n_layer_dense }, { 1, 40, 8, 48, 1 })
  -- (16 + 8)^-0.5 * (0.1 ln 40 + 1)^2
  lu.assertAlmostEquals(plan_rope.attn_scale(m), (0.1 * math.log(40) + 1) ^ 2 / math.sqrt(24), 1e-12)
  local rope = plan_rope.plan(m)
  eq({ #rope.tables, #rope.tables[1], rope.scales[1] }, { 1, 4, 1.0 })
end

function T.test_refused_by_name()
  local _, why = describe(with(DEEPSEEK, { topk_method = "greedy", scoring_func = "softmax" }))
  eq(why, 'm/config.json: scoring_func: want "sigmoid" (all that this engine computes), got "softmax"\n'
    .. 'm/config.json: topk_method: want "noaux_tc" (all that this engine computes), got "greedy"')
  _, why = describe(with(DEEPSEEK, { v_head_dim = 20 }))
  eq(why, "m/config.json: v_head_dim: want a multiple of 16, got 20")
  _, why = describe(with(DEEPSEEK, { n_group = 8, topk_group = 8 }))
  eq(why, "m/config.json: n_group: want groups of at least 2 experts, got 8")
  _, why = describe(with(DEEPSEEK, { rope_scaling = { type = "dynamic", factor = 2 } }))
  eq(why, 'm/config.json: rope_scaling.type: want "default" or "yarn" (all that this engine computes), got "dynamic"')
  _, why = describe(with(DEEPSEEK, { rope_scaling = { type = "yarn" } }))
  eq(why, "m/config.json: rope_scaling.factor: want a value (yarn), got nothing")
end

local SWITCH = {
  model_type = "switch_transformers", torch_dtype = "float32", d_model = 64, d_kv = 16, d_ff = 32, num_heads = 4,
  num_layers = 4, num_decoder_layers = 6, num_sparse_encoder_layers = 2, num_sparse_decoder_layers = 2,
  num_experts = 4, vocab_size = 512, feed_forward_proj = "relu", layer_norm_epsilon = 1e-6,
}

-- The published code's count: layer k (from 0) of a stack is sparse when k leaves 1 over the step.
local function sparse(m)
  local out = {}
  for i = 1, m.n_layer do out[i] = shape.is_dense(m, i) and "." or "s" end
  return table.concat(out)
end

function T.test_switch()
  local m, why = describe(SWITCH)
  eq(why, "")
  eq({ m.n_layer, m.n_layer_enc, m.head_dim, m.n_expert_used, m.tied, m.logit_scale, m.act, m.attn_scale },
    { 10, 4, 16, 1, true, 8.0, "relu", 1.0 })
  eq({ sparse(m), plan_mem.kv_layers(m) }, { ".s.s" .. ".s..s.", 1 + 2 * 6 })
  eq(sparse(describe(with(SWITCH, { num_sparse_encoder_layers = 4, num_sparse_decoder_layers = 0 }))), "ssss......")
  eq(describe(with(SWITCH, { tie_word_embeddings = false })).logit_scale, 1.0)
  why = select(2, describe(with(SWITCH, { feed_forward_proj = "gated-gelu", router_bias = true })))
  eq(why, 'm/config.json: feed_forward_proj: want "relu" (all that this engine computes), got "gated-gelu"\n'
    .. 'm/config.json: router_bias: want false (all that this engine computes), got true')
  why = select(2, describe(with(SWITCH, { relative_attention_num_buckets = 30 })))
  eq(why, "m/config.json: relative_attention_num_buckets: want a multiple of 4 "
    .. "(two directions, two kinds of bucket), got 30")
end

-- T5's published sizes: 32 buckets up to 128; boundaries where the logarithm is whole, too.
function T.test_relative_buckets()
  local b = plan_bias.buckets(16, 128)
  local got = {}
  for i, d in ipairs { 0, 7, 8, 11, 12, 15, 16, 31, 32, 64, 127, 128 } do got[i] = b[d + 1] end
  eq(got, { 0, 7, 8, 8, 9, 9, 10, 11, 12, 14, 15, 15 })
  b = plan_bias.buckets(8, 24)
  eq({ b[4], b[5], b[6], b[7], b[11], b[25] }, { 3, 4, 4, 4, 6, 7 })
end

-- The rule for unequal experts: small, or often called.
function T.test_cacheable()
  eq({ plan_kinds.cacheable(199e6, 0.01), plan_kinds.cacheable(200e6, 0.2), plan_kinds.cacheable(336 << 20, 0.25) },
    { true, false, true })
  local layout = { layers = { { expert_stride = 100e6, encoder = true }, { expert_stride = 0 },
                              { expert_stride = 150e6 }, { expert_stride = 300e6 } } }
  local m = { n_expert = 8, n_expert_used = 1 }
  eq({ plan_kinds.for_cache(m, layout) }, { 150e6, 2, 1 })
  eq(#plan_kinds.of(m, layout), 3)
end

-- Divisors are floats, as GGUF files and the published code have them.
function T.test_longrope_divisors_are_floats()
  local PHI = with(BASE, { model_type = "phimoe", head_dim = 4, num_attention_heads = 16, num_local_experts = 8,
    attention_bias = true, lm_head_bias = true, num_experts_per_tok = 2, rope_theta = 10000.0,
    rope_scaling = { type = "longrope", short_factor = { 1.0, 1.1 }, long_factor = { 1.5, 2.3 }, short_mscale = 1.2,
                     long_mscale = 1.3, original_max_position_embeddings = 24 } })
  local m, why = describe(PHI)
  eq(why, "")
  local rope = plan_rope.plan(m)
  local function f32(x) return string.unpack("<f", string.pack("<f", x)) end
  eq({ rope.tables, rope.scales, rope.switch },
    { { { 1.0, 0.01 / f32(1.1) }, { 1 / 1.5, 0.01 / f32(2.3) } }, { 1.2, 1.3 }, 24 })
end

-- Llama 3.1's published case: the highest frequency stays, the lowest is divided by the factor.
function T.test_llama3_frequencies()
  local m = describe(with(BASE, { model_type = "llama", head_dim = 128, rope_theta = 500000,
    rope_scaling = { rope_type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4,
                     original_max_position_embeddings = 8192 } }))
  local freq = plan_rope.plan(m).tables[1]
  eq({ m.n_expert, m.n_layer_dense, freq[1] }, { 0, 3, 1.0 })
  lu.assertAlmostEquals(freq[64], 500000 ^ (-126 / 128) / 8, 1e-15)
end

return T

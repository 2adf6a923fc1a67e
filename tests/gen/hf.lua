-- config.json: what is read, and every complaint.

local lu = require "luaunit"
local json = require "dkjson"
local hf = require "gen.hf"

local eq = lu.assertEquals
local T = {}

local GOOD = {
  model_type = "mixtral", vocab_size = 512, torch_dtype = "float32", hidden_act = "silu", hidden_size = 64,
  intermediate_size = 24, max_position_embeddings = 256, num_attention_heads = 4, num_key_value_heads = 2,
  num_hidden_layers = 3, num_local_experts = 8, num_experts_per_tok = 2, rms_norm_eps = 1e-5, rope_theta = 1e6,
  sliding_window = json.null, tie_word_embeddings = false, use_cache = true,
}

-- GOOD with changes; `false` as {} drops a key.
local DROP = {}
local function config(changes)
  local t = {}
  for k, v in pairs(GOOD) do t[k] = v end
  for k, v in pairs(changes or {}) do
    if v == DROP then t[k] = nil else t[k] = v end
  end
  return json.encode(t)
end

local function describe(text)
  local problems = {}
  local m = hf.describe(text, json, "m/config.json", problems)
  return m, table.concat(problems, "\n")
end

local function problem(changes) return select(2, describe(config(changes))) end

function T.test_reads()
  local m, why = describe(config())
  eq(why, "")
  eq({ m.family, m.n_layer, m.n_embd, m.n_head, m.n_head_kv, m.head_dim, m.n_ff, m.n_expert, m.n_expert_used },
    { "mixtral", 3, 64, 4, 2, 16, 24, 8, 2 })
  eq({ m.n_vocab, m.n_ctx_train, m.norm_eps, m.rope_theta, m.window, m.tied }, { 512, 256, 1e-5, 1e6, 0, false })
  eq(m.weights, { expert = "f32", attn = "f32", embed = "f32", output = "f32", router = "f32" })
end

function T.test_newer_keys()
  local m, why = describe(config { torch_dtype = DROP, dtype = "bfloat16", rope_theta = DROP,
    rope_parameters = { rope_theta = 1e4, rope_type = "default" }, head_dim = 32, sliding_window = 10 })
  eq(why, "")
  eq({ m.rope_theta, m.weights.attn, m.head_dim, m.window }, { 1e4, "bf16", 32, 10 })
end

function T.test_not_json()
  local function why(text) return select(2, describe(text)) end
  lu.assertStrContains(why("{"), "m/config.json: text: want a JSON object, got ")
  lu.assertStrContains(why(""), "m/config.json: text: want a JSON object, got ")
  eq(why("[1]"), "m/config.json: text: want a JSON object, got no object")
  eq(why("3"), "m/config.json: text: want a JSON object, got no object")
  lu.assertStrContains(why(config() .. "}"), "want a JSON object, got more text at byte")
  lu.assertStrContains(why(("["):rep(300000)), "m/config.json: text: want a JSON object, got ")
  lu.assertStrContains(why(config():sub(1, -5)), "m/config.json: text: want a JSON object, got ")
end

function T.test_family()
  eq(problem { model_type = "gpt2" }, 'm/config.json: model_type: want mixtral, got "gpt2"')
  eq(problem { model_type = DROP }, "m/config.json: model_type: want mixtral, got nothing")
  eq(problem { model_type = { 1 } }, "m/config.json: model_type: want mixtral, got a table")
end

function T.test_all_problems_at_once()
  eq(problem { hidden_size = "64", num_local_experts = DROP, num_experts_per_tok = -1, vocab_size = 1.5,
    rms_norm_eps = json.null, hidden_act = "gelu", rope_scaling = { type = "yarn" }, attention_bias = true,
    torch_dtype = "float8", head_dim = 16, tie_word_embeddings = "no" },
    table.concat({
      'm/config.json: hidden_act: want "silu" (all that this engine computes), got "gelu"',
      "m/config.json: attention_bias: want false (all that this engine computes), got true",
      "m/config.json: rope_scaling: want nothing (all that this engine computes), got a table",
      'm/config.json: torch_dtype: want float32, float16 or bfloat16, got "float8"',
      'm/config.json: hidden_size: want an integer from 16 to 65536, got "64"',
      "m/config.json: num_local_experts: want an integer from 1 to 1024, got nothing",
      "m/config.json: num_experts_per_tok: want an integer from 1 to 64, got -1",
      "m/config.json: vocab_size: want an integer from 2 to 16777216, got 1.5",
      "m/config.json: rms_norm_eps: want a number from 1e-12 to 0.1, got nothing",
      'm/config.json: tie_word_embeddings: want a boolean, got "no"',
    }, "\n"))
end

function T.test_rope_parameters_type()
  eq(problem { rope_parameters = { rope_type = "yarn" } },
    'm/config.json: rope_parameters.rope_type: want "default" (all that this engine computes), got "yarn"')
end

function T.test_block_checkpoints()
  local function with(q) return '"quantization_config":' .. q .. ',"vocab_size":512' end
  local function described(q) return describe((config():gsub('"vocab_size":512', with(q)))) end
  eq(described('{"quant_method":"mxfp4"}').weights.expert, "mxfp4")
  local m, problem_text = described('{"quant_method":"fp8","weight_block_size":[128,128]}')
  eq(problem_text, "")
  eq(m.weights.expert, m.weights.attn)
  eq(select(2, described('{"quant_method":"awq"}')),
    'm/config.json: quantization_config.quant_method: want "fp8" or "mxfp4", got "awq"')
  eq(select(2, described('{"quant_method":"fp8","weight_block_size":[[1],128]}')),
    "m/config.json: quantization_config.weight_block_size: want [128, 128], got another size")
  eq(select(2, described('{"quant_method":"fp8"}')),
    "m/config.json: quantization_config.weight_block_size: want [128, 128], got nothing")
  eq(select(2, described("7")), 'm/config.json: quantization_config.quant_method: want "fp8" or "mxfp4", got nothing')
end

function T.test_head_dim()
  eq(problem { hidden_size = 66 }, "m/config.json: head_dim (or a num_attention_heads that divides hidden_size): "
    .. "want an integer from 2 to 1024, got nothing")
  eq(problem { num_key_value_heads = 3 }, "m/config.json: num_key_value_heads: want a divisor of n_head (4), got 3")
end

function T.test_absurd_numbers()
  local text = config():gsub('"vocab_size":512', '"vocab_size":1e999')
  eq(select(2, describe(text)), "m/config.json: vocab_size: want an integer from 2 to 16777216, got inf")
  text = config():gsub('"hidden_size":64', '"hidden_size":99999999999999999999')
  lu.assertStrContains(select(2, describe(text)), "hidden_size: want an integer from 16 to 65536, got 1e+20")
end

return T

-- gen/families/gptoss.lua -- gpt-oss (OpenAI 2025): attention sinks, a window in every other layer, biases
-- everywhere, clamped SwiGLU.

local common = require "gen.families.common"

local MLP = "model.layers.%L.mlp."

-- Gate and up rows alternate; the float tensors are [experts, n_embd, 2 * n_ff], on their side,
-- those in MXFP4 blocks are not.
local function turned(which)
  return function(m)
    return { group = m.n_embd, from = which, count = m.n_ff, step = 2, cols = 2 * m.n_ff, transpose = true }
  end
end
local function every_other(which)
  return function(m) return { group = 2 * m.n_ff, from = which, count = m.n_ff, step = 2 } end
end
local function down(m)
  return { group = m.n_ff, count = m.n_embd, cols = m.n_embd, transpose = true }
end

local function derive_hf(get, stated, wrong)
  if stated.n_layer and get "layer_types" then
    for i = 1, stated.n_layer do
      local want, got = i % 2 == 1 and "sliding_attention" or "full_attention", get("layer_types." .. i)
      if got ~= want then
        return wrong("layer_types." .. i, want .. " (they alternate)", got)
      end
    end
  end
end

return {
  name = "gpt-oss",
  mixer = "IG_MIXER_GQA",
  defaults = { attn_bias = "qkvo", expert_bias = true, sinks = true, act = "swiglu_oai", act_limit = 7.0,
               window_every = 2 },
  may = { "act_limit", "rope" },
  hf = {
    model_types = { "gpt_oss" },
    keys = common.hf_keys {
      { field = "window", key = "sliding_window" },
      { field = "act_limit", key = "swiglu_limit", default = 7.0 },
    },
    only = common.hf_only { { key = "attention_bias", values = { true } } },
    rope = { "yarn" },
    derive = derive_hf,
  },
  gguf = {
    arch = "gpt-oss",
    keys = common.gguf_keys {
      { field = "n_ff", key = "expert_feed_forward_length" },
      { field = "window", key = "attention.sliding_window" },
    },
    only = common.gguf_only(),
    rope = { "yarn" },
    -- The model's ramp starts and ends between pairs; files cannot say so.
    derive = function(_, stated)
      if stated.rope then stated.rope.truncate = false end
    end,
  },
  sources = common.sources {
    ATTN_SINKS  = { hf = { "model.layers.%L.self_attn.sinks" }, gguf = { "blk.%L.attn_sinks.weight" } },
    FFN_NORM    = { hf = { "model.layers.%L.post_attention_layernorm.weight" },
                    gguf = { "blk.%L.post_attention_norm.weight" } },
    ROUTER      = { hf = { MLP .. "router.weight" }, gguf = { "blk.%L.ffn_gate_inp.weight" } },
    ROUTER_BIAS = { hf = { MLP .. "router.bias" }, gguf = { "blk.%L.ffn_gate_inp.bias" } },
    GATE = { hf = { { MLP .. "experts.gate_up_proj", slice = turned(0) },
                    { MLP .. "experts.gate_up_proj_blocks", slice = every_other(0) } },
             gguf = { "blk.%L.ffn_gate_exps.weight", common.gate_up(0) } },
    UP   = { hf = { { MLP .. "experts.gate_up_proj", slice = turned(1) },
                    { MLP .. "experts.gate_up_proj_blocks", slice = every_other(1) } },
             gguf = { "blk.%L.ffn_up_exps.weight", common.gate_up(1) } },
    DOWN = { hf = { { MLP .. "experts.down_proj", slice = down }, MLP .. "experts.down_proj_blocks" },
             gguf = { "blk.%L.ffn_down_exps.weight" } },
    GATE_BIAS = { hf = { { MLP .. "experts.gate_up_proj_bias", slice = every_other(0) } },
                  gguf = { "blk.%L.ffn_gate_exps.bias" } },
    UP_BIAS   = { hf = { { MLP .. "experts.gate_up_proj_bias", slice = every_other(1) } },
                  gguf = { "blk.%L.ffn_up_exps.bias" } },
    DOWN_BIAS = { hf = { MLP .. "experts.down_proj_bias" }, gguf = { "blk.%L.ffn_down_exps.bias" } },
  },
}

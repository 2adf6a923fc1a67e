-- gen/families/phimoe.lua -- Phi-3.5-MoE (Abdin et al. 2024): LayerNorm with bias, SparseMixer routing,
-- longrope, biases of attention and output.

local common = require "gen.families.common"

return {
  name = "phimoe",
  mixer = "IG_MIXER_GQA",
  defaults = { norm = "layer", norm_bias = true, router = "sparsemixer", attn_bias = "qkvo", output_bias = true },
  may = { "router_jitter", "rope" },
  hf = {
    model_types = { "phimoe" },
    keys = common.hf_keys {
      { field = "window", key = "sliding_window", optional = true },
      { field = "router_jitter", key = "router_jitter_noise", default = 0.01 },
    },
    only = common.hf_only {
      { key = "attention_bias", values = { true } },
      { key = "lm_head_bias", values = { true } },
      { key = "num_experts_per_tok", values = { 2 } },
    },
    rope = { "longrope" },
  },
  sources = common.sources(common.experts("block_sparse_moe", "w1", "w3", "w2"), {
    ROUTER = { hf = { "model.layers.%L.block_sparse_moe.gate.weight" } },
    OUTPUT_NORM_BIAS = { hf = { "model.norm.bias" } },
    OUTPUT_BIAS = { hf = { "lm_head.bias" } },
    ATTN_NORM_BIAS = { hf = { "model.layers.%L.input_layernorm.bias" } },
    FFN_NORM_BIAS = { hf = { "model.layers.%L.post_attention_layernorm.bias" } },
  }),
}

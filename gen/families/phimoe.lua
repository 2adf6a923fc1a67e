-- gen/families/phimoe.lua -- Phi-3.5-MoE (Abdin et al. 2024): LayerNorm with bias, SparseMixer routing,
-- longrope, biases of attention and output.

local common = require "gen.families.common"

-- short_mscale and long_mscale of every published model, which GGUF files cannot state.
-- Their rope.scaling.attn_factor is a formula's value that no model was trained with.
local MSCALE = 1.243163121016122

local function derive_gguf(_, stated)
  if stated.rope then stated.rope.short_mscale, stated.rope.long_mscale = MSCALE, MSCALE end
end

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
  gguf = {
    arch = "phimoe",
    keys = common.gguf_keys {
      { field = "window", key = "attention.sliding_window", optional = true },
      { field = "router_jitter", key = "router_jitter", default = 0.01 }, -- no file has this key
    },
    only = common.gguf_only { { key = "expert_used_count", values = { 2 } },
                              { key = "rope.scaling.attn_factor", none = true } },
    rope = { "longrope" },
    derive = derive_gguf,
  },
  sources = common.sources(common.experts("block_sparse_moe", "w1", "w3", "w2"), {
    ROUTER = { hf = { "model.layers.%L.block_sparse_moe.gate.weight" }, gguf = { "blk.%L.ffn_gate_inp.weight" } },
    OUTPUT_NORM_BIAS = { hf = { "model.norm.bias" }, gguf = { "output_norm.bias" } },
    OUTPUT_BIAS = { hf = { "lm_head.bias" }, gguf = { "output.bias" } },
    ATTN_NORM_BIAS = { hf = { "model.layers.%L.input_layernorm.bias" }, gguf = { "blk.%L.attn_norm.bias" } },
    FFN_NORM_BIAS = { hf = { "model.layers.%L.post_attention_layernorm.bias" }, gguf = { "blk.%L.ffn_norm.bias" } },
  }),
}

-- gen/families/granitemoe.lua -- Granite 3 MoE (IBM 2024): multipliers on embedding, residual, scores, logits.

local common = require "gen.families.common"

return {
  name = "granitemoe",
  mixer = "IG_MIXER_GQA",
  may = { "embd_scale", "residual_scale", "attn_scale", "logit_scale" },
  hf = {
    model_types = { "granitemoe" },
    keys = common.hf_keys {
      { field = "embd_scale",     key = "embedding_multiplier", default = 1.0 },
      { field = "residual_scale", key = "residual_multiplier", default = 1.0 },
      { field = "attn_scale",     key = "attention_multiplier", default = 1.0 },
      { field = "logit_scale",    key = "logits_scaling", default = 1.0 },
    },
    only = common.hf_only(),
    rope = {},
  },
  gguf = {
    arch = "granitemoe",
    keys = common.gguf_keys {
      { field = "embd_scale",     key = "embedding_scale", default = 1.0 },
      { field = "residual_scale", key = "residual_scale", default = 1.0 },
      { field = "attn_scale",     key = "attention.scale", optional = true },
      { field = "logit_scale",    key = "logit_scale", default = 1.0 },
    },
    only = common.gguf_only(),
    rope = {},
  },
  sources = common.sources(common.llama_pairs(), {
    ROUTER = { hf = { "model.layers.%L.block_sparse_moe.router.layer.weight" },
               gguf = { "blk.%L.ffn_gate_inp.weight" } },
    GATE = { hf = { { "model.layers.%L.block_sparse_moe.input_linear.weight", slice = common.half(0) } },
             gguf = { "blk.%L.ffn_gate_exps.weight", common.gate_up(0) } },
    UP = { hf = { { "model.layers.%L.block_sparse_moe.input_linear.weight", slice = common.half(1) } },
           gguf = { "blk.%L.ffn_up_exps.weight", common.gate_up(1) } },
    DOWN = { hf = { "model.layers.%L.block_sparse_moe.output_linear.weight" },
             gguf = { "blk.%L.ffn_down_exps.weight" } },
  }),
}

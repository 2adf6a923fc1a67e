-- gen/families/mixtral.lua -- Mixtral (Jiang et al. 2024): GQA with RoPE, top-k routed SwiGLU experts.

local common = require "gen.families.common"

return {
  name = "mixtral",
  mixer = "IG_MIXER_GQA",
  hf = {
    model_types = { "mixtral" },
    keys = common.hf_keys { { field = "window", key = "sliding_window", optional = true } },
    only = common.hf_only(),
    rope = {},
  },
  -- "llama" is the name that the format's writers gave this family's graph.
  gguf = {
    arch = "llama", when = function(get) return get "expert_used_count" or get "expert_count" end,
    keys = common.gguf_keys { { field = "window", key = "attention.sliding_window", optional = true } },
    only = common.gguf_only(),
    rope = {},
  },
  sources = common.sources(common.llama_pairs(), common.experts("block_sparse_moe", "w1", "w3", "w2"), {
    ROUTER = { hf = { "model.layers.%L.block_sparse_moe.gate.weight" }, gguf = { "blk.%L.ffn_gate_inp.weight" } },
  }),
}

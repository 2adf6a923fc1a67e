-- gen/families/qwen2moe.lua -- Qwen1.5-MoE and Qwen2-MoE (Yang et al. 2024): q, k, v biases, and a
-- shared block that a sigmoid of its own scales.

local common = require "gen.families.common"

return {
  name = "qwen2-moe",
  mixer = "IG_MIXER_GQA",
  defaults = { attn_bias = "qkv", shared_gate = true, route_norm = false },
  may = { "route_norm", "n_ff_shared", "rope" },
  hf = {
    model_types = { "qwen2_moe" },
    keys = common.hf_keys {
      { field = "n_ff", key = "moe_intermediate_size" },
      { field = "n_ff_shared", key = "shared_expert_intermediate_size" },
      { field = "n_expert", key = "num_experts", or_key = "num_local_experts" },
      { field = "route_norm", key = "norm_topk_prob", default = false },
    },
    only = common.hf_only {
      { key = "decoder_sparse_step", values = { 1 } },
      { key = "use_sliding_window", values = { false } },
      { key = "mlp_only_layers.1", values = {} },
    },
    rope = { "yarn" },
  },
  gguf = {
    arch = "qwen2moe",
    keys = common.gguf_keys {
      { field = "n_ff", key = "expert_feed_forward_length" },
      { field = "n_ff_shared", key = "expert_shared_feed_forward_length" },
    },
    only = common.gguf_only(),
    rope = { "yarn" },
  },
  sources = common.sources(common.experts("mlp", "gate_proj", "up_proj", "down_proj"),
    common.shared("mlp.shared_expert"), {
      SHARED_SCALE = { hf = { "model.layers.%L.mlp.shared_expert_gate.weight" },
                       gguf = { "blk.%L.ffn_gate_inp_shexp.weight" } },
    }),
}

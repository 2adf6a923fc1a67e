-- gen/families/qwen3moe.lua -- Qwen3-MoE (Qwen Team 2025): RMSNorm on each head's q and k.

local common = require "gen.families.common"

return {
  name = "qwen3-moe",
  mixer = "IG_MIXER_GQA",
  defaults = { qk_norm = "head" },
  may = { "route_norm", "rope" },
  hf = {
    model_types = { "qwen3_moe" },
    keys = common.hf_keys {
      { field = "n_ff", key = "moe_intermediate_size" },
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
    arch = "qwen3moe",
    keys = common.gguf_keys { { field = "n_ff", key = "expert_feed_forward_length" } },
    only = common.gguf_only(),
    rope = { "yarn" },
  },
  sources = common.sources(common.experts("mlp", "gate_proj", "up_proj", "down_proj")),
}

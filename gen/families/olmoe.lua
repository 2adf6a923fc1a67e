-- gen/families/olmoe.lua -- OLMoE (Muennighoff et al. 2024): RMSNorm over the whole width of q and of k.

local common = require "gen.families.common"

return {
  name = "olmoe",
  mixer = "IG_MIXER_GQA",
  defaults = { qk_norm = "full", route_norm = false },
  may = { "route_norm", "qkv_clip" },
  hf = {
    model_types = { "olmoe" },
    keys = common.hf_keys {
      { field = "n_expert", key = "num_experts", or_key = "num_local_experts" },
      { field = "route_norm", key = "norm_topk_prob", default = false },
      { field = "qkv_clip", key = "clip_qkv", optional = true },
      { field = "norm_eps", key = "rms_norm_eps", default = 1e-5 },
    },
    only = common.hf_only(),
    rope = {},
  },
  gguf = {
    arch = "olmoe",
    keys = common.gguf_keys { { field = "qkv_clip", key = "attention.clamp_kqv", optional = true } },
    only = common.gguf_only(),
    rope = {},
  },
  sources = common.sources(common.experts("mlp", "gate_proj", "up_proj", "down_proj")),
}

-- gen/families/deepseek3.lua -- DeepSeek-V3 (DeepSeek-AI 2024) and R1: sigmoid scores, a bias that takes part in
-- the choice only, groups of experts.

local deepseek = require "gen.families.deepseek"

local may = table.move(deepseek.may, 1, #deepseek.may, 2, { "route_norm" })

return {
  name = "deepseek-v3",
  mixer = "IG_MIXER_MLA",
  defaults = { router = "sigmoid", route_bias = true },
  may = may,
  hf = {
    model_types = { "deepseek_v3" },
    keys = deepseek.hf_keys {
      { field = "route_norm",    key = "norm_topk_prob", default = true },
      { field = "n_route_group", key = "n_group", default = 1 },
      { field = "n_route_group_used", key = "topk_group", default = 1 },
    },
    only = deepseek.hf_only {
      { key = "scoring_func", values = { "sigmoid" } },
      { key = "topk_method", values = { "noaux_tc" } },
    },
    rope = { "yarn" },
    derive = deepseek.shared_width,
  },
  gguf = {
    arch = "deepseek2", when = function(get) return get "expert_gating_func" == 2 end,
    keys = deepseek.gguf_keys { { field = "route_norm", key = "expert_weights_norm", default = true } },
    only = {},
    rope = { "yarn" },
    derive = deepseek.derive_gguf,
  },
  sources = deepseek.sources,
}

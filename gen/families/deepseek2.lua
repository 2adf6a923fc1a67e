-- gen/families/deepseek2.lua -- DeepSeek-V2 (DeepSeek-AI 2024): weights are the softmax over all experts.

local deepseek = require "gen.families.deepseek"

return {
  name = "deepseek-v2",
  mixer = "IG_MIXER_MLA",
  defaults = { route_norm = false, route_group_top = 1 },
  may = deepseek.may,
  hf = {
    model_types = { "deepseek_v2" },
    keys = deepseek.hf_keys {},
    only = deepseek.hf_only {
      { key = "scoring_func", values = { "softmax" } },
      { key = "norm_topk_prob", values = { false } },
      { key = "topk_method", values = { "greedy", "group_limited_greedy" } },
    },
    rope = { "yarn" },
    -- "greedy" ignores the groups that the file may state.
    derive = function(get, stated)
      deepseek.shared_width(get, stated)
      if get "topk_method" == "group_limited_greedy" then
        stated.n_route_group, stated.n_route_group_used = get "n_group", get "topk_group"
      end
    end,
  },
  gguf = {
    arch = "deepseek2", when = function(get) return get "expert_gating_func" ~= 2 end,
    keys = deepseek.gguf_keys {},
    only = { { key = "expert_weights_norm", values = { false } } },
    rope = { "yarn" },
    derive = deepseek.derive_gguf,
  },
  sources = deepseek.sources,
}

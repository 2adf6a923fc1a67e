-- gen/families/llama.lua -- Llama (Touvron et al. 2023): every layer dense.

local common = require "gen.families.common"

local function all_dense(_, stated)
  stated.n_ff, stated.n_layer_dense = stated.n_ff_dense, stated.n_layer
  stated.n_expert, stated.n_expert_used = 0, 0
end

return {
  name = "llama",
  mixer = "IG_MIXER_GQA",
  may = { "n_layer_dense", "n_ff_dense", "rope" },
  hf = {
    model_types = { "llama" },
    keys = common.hf_keys {
      { field = "n_ff", none = true }, { field = "n_expert", none = true }, { field = "n_expert_used", none = true },
      { field = "n_ff_dense", key = "intermediate_size" },
    },
    only = common.hf_only(),
    rope = { "linear", "llama3" },
    derive = all_dense,
  },
  -- Mixtral's files have the same architecture name, and experts.
  gguf = {
    arch = "llama", when = function(get) return (get "expert_count" or 0) == 0 end,
    keys = common.gguf_keys {
      { field = "n_ff", none = true }, { field = "n_expert", none = true }, { field = "n_expert_used", none = true },
      { field = "n_ff_dense", key = "feed_forward_length" },
    },
    only = common.gguf_only(),
    rope = { "linear" },
    derive = all_dense,
  },
  sources = common.sources(common.llama_pairs()),
}

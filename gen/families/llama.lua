-- gen/families/llama.lua -- Llama (Touvron et al. 2023): every layer dense.

local common = require "gen.families.common"

local function all_dense(_, stated)
  stated.n_ff, stated.n_layer_dense = stated.n_ff_dense, stated.n_layer
end

return {
  name = "llama",
  mixer = "IG_MIXER_GQA",
  dense = true,
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
    arch = "llama", when = function(get) return not (get "expert_used_count" or get "expert_count") end,
    keys = common.gguf_keys {
      { field = "n_ff", none = true }, { field = "n_expert", none = true }, { field = "n_expert_used", none = true },
      { field = "n_ff_dense", key = "feed_forward_length" },
    },
    only = common.gguf_only(),
    rope = { "linear", "factors" },
    derive = all_dense,
  },
  sources = common.sources(common.llama_pairs()),
}

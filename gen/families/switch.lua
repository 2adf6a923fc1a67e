-- gen/families/switch.lua -- Switch Transformer (Fedus et al. 2021): T5's encoder and decoder, the expert of
-- highest probability in every few layers.

local common = require "gen.families.common"

-- A stack's k-th layer has experts when k - 1 leaves 1 over its step, as the published code counts.
local function step(layers, sparse)
  if math.type(layers) ~= "integer" or math.type(sparse) ~= "integer" or sparse < 1 then return 0 end
  return layers // sparse
end

local function derive(get, stated)
  local enc, dec = get "num_layers", get "num_decoder_layers" or get "num_layers"
  stated.n_layer_enc, stated.n_layer = enc, common.sum(enc, dec)
  stated.sparse_step_enc = step(enc, get "num_sparse_encoder_layers")
  stated.sparse_step = step(dec, get "num_sparse_decoder_layers")
  stated.n_expert_used, stated.n_ff_dense = 1, stated.n_ff
end

-- What is the same for all: nothing turns, and a tied output matrix reads rows times n_embd^-0.5.
local function fill(stated)
  stated.rope_theta, stated.rope_dim = 1.0, 2
  if stated.tied and stated.logit_scale == nil and type(stated.n_embd) == "number" then
    stated.logit_scale = math.sqrt(stated.n_embd)
  end
end

-- A sublayer has another number in each stack.
local function both(enc, dec, name)
  return { hf = { { "encoder.block.%L.layer." .. enc .. name, stack = "ENC" },
                  { "decoder.block.%L.layer." .. dec .. name, stack = "DEC" } } }
end
local function self(name) return both(0, 0, ".SelfAttention." .. name .. ".weight") end
local function cross(name) return { hf = { "decoder.block.%L.layer.1.EncDecAttention." .. name .. ".weight" } } end
local function mlp(name) return both(1, 2, ".mlp." .. name .. ".weight") end

return {
  name = "switch",
  mixer = "IG_MIXER_GQA",
  encoder = true,
  fill = fill,
  defaults = { act = "relu", attn_scale = 1.0, route_norm = false },
  may = { "n_layer_enc", "sparse_step", "sparse_step_enc", "n_ff_dense", "n_rel_bucket", "rel_distance",
          "start_token", "rope_dim", "logit_scale" },
  hf = {
    model_types = { "switch_transformers" },
    keys = common.hf_keys {
      { field = "n_layer",      none = true }, -- derive() adds up both stacks
      { field = "n_layer_enc",  key = "num_layers" },
      { field = "n_embd",       key = "d_model" },
      { field = "n_head",       key = "num_heads" },
      { field = "n_head_kv",    key = "num_heads" },
      { field = "head_dim",     key = "d_kv" },
      { field = "n_ff",         key = "d_ff" },
      { field = "n_expert",     key = "num_experts" },
      { field = "n_expert_used", none = true },
      { field = "n_ctx_train",  key = "n_positions", default = 512 },
      { field = "norm_eps",     key = "layer_norm_epsilon", default = 1e-6 },
      { field = "rope_theta",   none = true },
      { field = "tied",         key = "tie_word_embeddings", default = true },
      { field = "n_rel_bucket", key = "relative_attention_num_buckets", default = 32 },
      { field = "rel_distance", key = "relative_attention_max_distance", default = 128 },
      { field = "start_token",  key = "decoder_start_token_id", or_key = "pad_token_id", default = 0 },
    },
    only = common.hf_only {
      { key = "feed_forward_proj", values = { "relu" } },
      { key = "dense_act_fn", values = { "relu" } },
      { key = "is_gated_act", values = { false } },
      { key = "router_bias", values = { false } },
      { key = "num_selected_experts", values = { 1 } },
    },
    derive = derive,
  },
  sources = common.sources {
    TOKEN_EMBD  = { hf = { "shared.weight", "encoder.embed_tokens.weight" } },
    OUTPUT_NORM = { hf = { "decoder.final_layer_norm.weight" } },
    ENC_NORM    = { hf = { "encoder.final_layer_norm.weight" } },
    OUTPUT      = { hf = { "lm_head.weight" } },
    ATTN_NORM = both(0, 0, ".layer_norm.weight"),
    ATTN_Q = self "q", ATTN_K = self "k", ATTN_V = self "v", ATTN_O = self "o",
    REL_BIAS = self "relative_attention_bias",
    CROSS_NORM = { hf = { "decoder.block.%L.layer.1.layer_norm.weight" } },
    CROSS_Q = cross "q", CROSS_K = cross "k", CROSS_V = cross "v", CROSS_O = cross "o",
    FFN_NORM = both(1, 2, ".layer_norm.weight"),
    DENSE_GATE = mlp "wi", DENSE_DOWN = mlp "wo",
    ROUTER = mlp "router.classifier",
    GATE = mlp "experts.expert_%E.wi", DOWN = mlp "experts.expert_%E.wo",
  },
}

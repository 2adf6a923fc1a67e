-- gen/families/glm4moe.lua -- GLM-4.5 (Zeng et al. 2025): rotation of half a head, sigmoid routing with
-- a bias, dense first layers, a shared block.

local common = require "gen.families.common"

local function derive_hf(get, stated)
  stated.attn_bias = get "attention_bias" and "qkv" or "none"
  stated.qk_norm = get "use_qk_norm" and "head" or "none"
  local head = stated.head_dim or stated.n_embd and stated.n_head and stated.n_embd // stated.n_head
  stated.rope_dim = common.product(head, get "partial_rotary_factor"
    or get "rope_parameters.partial_rotary_factor" or 0.5)
  stated.n_ff_shared = common.product(stated.n_ff_shared, stated.n_ff)
end

local function derive_gguf(get, stated, has)
  stated.attn_bias = has "blk.0.attn_q.bias" and "qkv" or has "blk.0.attn_qkv.bias" and "qkv" or "none"
  stated.qk_norm = has "blk.0.attn_q_norm.weight" and "head" or "none"
  stated.n_ff_shared = common.product(stated.n_ff_shared, stated.n_ff)
  stated.n_layer = stated.n_layer and stated.n_layer - (get "nextn_predict_layers" or 0)
end

return {
  name = "glm4-moe",
  mixer = "IG_MIXER_GQA",
  defaults = { router = "sigmoid", route_bias = true },
  may = { "attn_bias", "qk_norm", "rope_dim", "n_layer_dense", "n_ff_dense", "n_ff_shared", "route_norm",
          "route_scale", "n_route_group", "n_route_group_used" },
  hf = {
    model_types = { "glm4_moe" },
    keys = common.hf_keys {
      { field = "n_ff",          key = "moe_intermediate_size" },
      { field = "n_ff_dense",    key = "intermediate_size" },
      { field = "n_ff_shared",   key = "n_shared_experts" }, -- their number; derive() makes it a width
      { field = "n_layer_dense", key = "first_k_dense_replace" },
      { field = "n_expert",      key = "n_routed_experts" },
      { field = "route_norm",    key = "norm_topk_prob", default = true },
      { field = "route_scale",   key = "routed_scaling_factor", default = 1.0 },
      { field = "n_route_group", key = "n_group", default = 1 },
      { field = "n_route_group_used", key = "topk_group", default = 1 },
    },
    only = common.hf_only { { key = "attention_bias", values = { false, true } } },
    rope = {},
    derive = derive_hf,
  },
  gguf = {
    arch = "glm4moe",
    keys = common.gguf_keys {
      { field = "n_ff",          key = "expert_feed_forward_length" },
      { field = "n_ff_dense",    key = "feed_forward_length" },
      { field = "n_ff_shared",   key = "expert_shared_count" },
      { field = "n_layer_dense", key = "leading_dense_block_count", default = 0 },
      { field = "rope_dim",      key = "rope.dimension_count", optional = true },
      { field = "route_norm",    key = "expert_weights_norm", default = true },
      { field = "route_scale",   key = "expert_weights_scale", default = 1.0 },
    },
    only = common.gguf_only { { key = "expert_gating_func", values = { 2 } } },
    rope = {},
    derive = derive_gguf,
  },
  sources = common.sources(common.experts("mlp", "gate_proj", "up_proj", "down_proj"),
    common.shared("mlp.shared_experts"), {
      FFN_NORM = { hf = { "model.layers.%L.post_attention_layernorm.weight" },
                   gguf = { "blk.%L.post_attention_norm.weight" } },
      ROUTE_BIAS = { hf = { "model.layers.%L.mlp.gate.e_score_correction_bias" },
                     gguf = { "blk.%L.exp_probs_b.bias" } },
    }),
}

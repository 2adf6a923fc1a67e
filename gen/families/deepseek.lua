-- gen/families/deepseek.lua -- what DeepSeek-V2 and V3 share: latent attention, dense first layers,
-- shared experts as one block, and the names of their tensors.

local common = require "gen.families.common"

local M = {}

M.may = { "n_layer_dense", "n_ff_dense", "n_ff_shared", "route_scale", "n_route_group", "n_route_group_used",
          "q_lora", "kv_lora", "nope_dim", "v_dim", "rope_dim", "rope" }

function M.hf_keys(with)
  local keys = {
    { field = "head_dim", none = true }, { field = "n_head_kv", none = true },
    { field = "n_ff",          key = "moe_intermediate_size" },
    { field = "n_ff_dense",    key = "intermediate_size" },
    { field = "n_ff_shared",   key = "n_shared_experts" }, -- their number; derive() makes it a width
    { field = "n_layer_dense", key = "first_k_dense_replace" },
    { field = "n_expert",      key = "n_routed_experts", or_key = "num_local_experts" },
    { field = "route_scale",   key = "routed_scaling_factor", default = 1.0 },
    { field = "q_lora",        key = "q_lora_rank", optional = true },
    { field = "kv_lora",       key = "kv_lora_rank" },
    { field = "nope_dim",      key = "qk_nope_head_dim" },
    { field = "rope_dim",      key = "qk_rope_head_dim" },
    { field = "v_dim",         key = "v_head_dim" },
  }
  return common.hf_keys(table.move(with, 1, #with, #keys + 1, keys))
end

function M.hf_only(with)
  local only = { { key = "moe_layer_freq", values = { 1 } }, { key = "rope_interleave", values = { true } } }
  return common.hf_only(table.move(with, 1, #with, #only + 1, only))
end

function M.shared_width(_, stated)
  stated.n_ff_shared = common.product(stated.n_ff_shared, stated.n_ff)
end

function M.gguf_keys(with)
  local keys = {
    { field = "head_dim", none = true }, { field = "n_head_kv", none = true },
    { field = "n_ff",          key = "expert_feed_forward_length" },
    { field = "n_ff_dense",    key = "feed_forward_length" },
    { field = "n_ff_shared",   key = "expert_shared_count" },
    { field = "n_layer_dense", key = "leading_dense_block_count", default = 0 },
    { field = "route_scale",   key = "expert_weights_scale", default = 1.0 },
    { field = "q_lora",        key = "attention.q_lora_rank", default = 0 },
    { field = "kv_lora",       key = "attention.kv_lora_rank" },
    { field = "nope_dim",      key = "attention.key_length_mla", or_key = "attention.key_length" },
    { field = "rope_dim",      key = "rope.dimension_count" },
    { field = "v_dim",         key = "attention.value_length_mla", or_key = "attention.value_length" },
    { field = "n_route_group", key = "expert_group_count", default = 1 },
    { field = "n_route_group_used", key = "expert_group_used_count", default = 1 },
  }
  return common.gguf_keys(table.move(with, 1, #with, #keys + 1, keys))
end

-- Files state the whole key; the rotated part is the rest of it.
function M.derive_gguf(get, stated)
  M.shared_width(get, stated)
  if type(stated.nope_dim) == "number" and type(stated.rope_dim) == "number" then
    stated.nope_dim = stated.nope_dim - stated.rope_dim
  end
  if type(stated.n_layer) == "number" then
    stated.n_layer = stated.n_layer - (get "nextn_predict_layers" or 0)
  end
end

local ATTN = "model.layers.%L.self_attn."

-- The rotated rows at the end of each head (or after the latent) are stored interleaved.
local function head_pairs(m) return { period = m.nope_dim + m.rope_dim, from = m.nope_dim } end
local function latent_pairs(m) return { period = m.kv_lora + m.rope_dim, from = m.kv_lora } end

-- kv_b holds, head by head, what makes keys and then what makes values of the latent.  Keys'
-- part lies on its side: it is applied to the query instead.
local function keys_of(m)
  return { group = m.nope_dim + m.v_dim, count = m.kv_lora, cols = m.kv_lora, transpose = true }
end
local function values_of(m)
  return { group = m.nope_dim + m.v_dim, from = m.nope_dim, count = m.v_dim }
end

M.sources = common.sources(common.experts("mlp", "gate_proj", "up_proj", "down_proj"),
  common.shared("mlp.shared_experts"), {
    ATTN_Q = { hf = { { ATTN .. "q_proj.weight", paired = head_pairs } },
               gguf = { { "blk.%L.attn_q.weight", paired = head_pairs } } },
    ATTN_Q_A = { hf = { ATTN .. "q_a_proj.weight" }, gguf = { "blk.%L.attn_q_a.weight" } },
    ATTN_Q_A_NORM = { hf = { ATTN .. "q_a_layernorm.weight" }, gguf = { "blk.%L.attn_q_a_norm.weight" } },
    ATTN_Q_B = { hf = { { ATTN .. "q_b_proj.weight", paired = head_pairs } },
                 gguf = { { "blk.%L.attn_q_b.weight", paired = head_pairs } } },
    ATTN_KV_A = { hf = { { ATTN .. "kv_a_proj_with_mqa.weight", paired = latent_pairs } },
                  gguf = { { "blk.%L.attn_kv_a_mqa.weight", paired = latent_pairs } } },
    ATTN_KV_A_NORM = { hf = { ATTN .. "kv_a_layernorm.weight" }, gguf = { "blk.%L.attn_kv_a_norm.weight" } },
    ATTN_K_B = { hf = { { ATTN .. "kv_b_proj.weight", slice = keys_of } },
                 gguf = { "blk.%L.attn_k_b.weight", { "blk.%L.attn_kv_b.weight", slice = keys_of } } },
    ATTN_V_B = { hf = { { ATTN .. "kv_b_proj.weight", slice = values_of } },
                 gguf = { "blk.%L.attn_v_b.weight", { "blk.%L.attn_kv_b.weight", slice = values_of } } },
    ROUTE_BIAS = { hf = { "model.layers.%L.mlp.gate.e_score_correction_bias" },
                   gguf = { "blk.%L.exp_probs_b.bias" } },
  })

return M

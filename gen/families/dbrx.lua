-- gen/families/dbrx.lua -- DBRX (Databricks 2024): LayerNorm without bias, q, k, v in one tensor and
-- clipped, experts in tensors of all of them.

local common = require "gen.families.common"

local BLOCK = "transformer.blocks.%L."

local function qkv(of)
  return { hf = { common.part_of(BLOCK .. "norm_attn_norm.attn.Wqkv.weight", of) },
           gguf = { common.part_of("blk.%L.attn_qkv.weight", of), "blk.%L.attn_" .. of .. ".weight" } }
end

-- w2 is [experts * width, n_embd]: each expert's down projection lies there on its side.
local function turned(m)
  return { group = m.n_ff, count = m.n_embd, cols = m.n_embd, transpose = true }
end

return {
  name = "dbrx",
  mixer = "IG_MIXER_GQA",
  defaults = { norm = "layer" },
  may = { "qkv_clip" },
  hf = {
    model_types = { "dbrx" },
    keys = common.hf_keys {
      { field = "n_layer",       key = "n_layers" },
      { field = "n_embd",        key = "d_model" },
      { field = "n_head",        key = "n_heads" },
      { field = "n_head_kv",     key = "attn_config.kv_n_heads" },
      { field = "n_ff",          key = "ffn_config.ffn_hidden_size" },
      { field = "n_expert",      key = "ffn_config.moe_num_experts" },
      { field = "n_expert_used", key = "ffn_config.moe_top_k" },
      { field = "n_ctx_train",   key = "max_seq_len" },
      { field = "norm_eps",      key = "norm_eps", default = 1e-5 },
      { field = "rope_theta",    key = "attn_config.rope_theta", or_key = "rope_parameters.rope_theta" },
      { field = "qkv_clip",      key = "attn_config.clip_qkv", optional = true },
    },
    only = common.hf_only {
      { key = "ffn_config.ffn_act_fn.name", values = { "silu" } },
      { key = "ffn_config.moe_normalize_expert_weights", values = { 1 } },
    },
    rope = {},
  },
  gguf = {
    arch = "dbrx",
    keys = common.gguf_keys {
      { field = "norm_eps", key = "attention.layer_norm_epsilon" },
      { field = "qkv_clip", key = "attention.clamp_kqv", optional = true },
    },
    only = common.gguf_only(),
    rope = {},
  },
  sources = common.sources {
    TOKEN_EMBD  = { hf = { "transformer.wte.weight" }, gguf = { "token_embd.weight" } },
    OUTPUT_NORM = { hf = { "transformer.norm_f.weight" }, gguf = { "output_norm.weight" } },
    ATTN_NORM   = { hf = { BLOCK .. "norm_attn_norm.norm_1.weight" }, gguf = { "blk.%L.attn_norm.weight" } },
    ATTN_Q = qkv "q", ATTN_K = qkv "k", ATTN_V = qkv "v",
    ATTN_O      = { hf = { BLOCK .. "norm_attn_norm.attn.out_proj.weight" }, gguf = { "blk.%L.attn_output.weight" } },
    FFN_NORM    = { hf = { BLOCK .. "norm_attn_norm.norm_2.weight" }, gguf = { "blk.%L.attn_output_norm.weight" } },
    ROUTER      = { hf = { BLOCK .. "ffn.router.layer.weight" }, gguf = { "blk.%L.ffn_gate_inp.weight" } },
    GATE        = { hf = { BLOCK .. "ffn.experts.mlp.w1" },
                    gguf = { "blk.%L.ffn_gate_exps.weight", common.gate_up(0) } },
    UP          = { hf = { BLOCK .. "ffn.experts.mlp.v1" },
                    gguf = { "blk.%L.ffn_up_exps.weight", common.gate_up(1) } },
    DOWN        = { hf = { { BLOCK .. "ffn.experts.mlp.w2", slice = turned } },
                    gguf = { "blk.%L.ffn_down_exps.weight" } },
  },
}

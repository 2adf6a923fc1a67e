-- gen/families/mixtral.lua -- Mixtral: GQA with RoPE, top-k routed SwiGLU experts.
--
-- What a family states: how its checkpoints spell the facts of gen/model.lua,
-- what must hold for this engine's arithmetic to be the model's, and the names
-- of its tensors.  Names of alternatives are tried in order.

return {
  name = "mixtral",
  mixer = "IG_MIXER_GQA",
  ffn = "IG_FFN_MOE",

  -- config.json: field <- key; `or_key` is the newer spelling.
  hf = {
    model_types = { "mixtral" },
    keys = {
      { field = "n_layer",       key = "num_hidden_layers" },
      { field = "n_embd",        key = "hidden_size" },
      { field = "n_head",        key = "num_attention_heads" },
      { field = "n_head_kv",     key = "num_key_value_heads", same_as = "num_attention_heads" },
      { field = "head_dim",      key = "head_dim", optional = true },
      { field = "n_ff",          key = "intermediate_size" },
      { field = "n_expert",      key = "num_local_experts" },
      { field = "n_expert_used", key = "num_experts_per_tok" },
      { field = "n_vocab",       key = "vocab_size" },
      { field = "n_ctx_train",   key = "max_position_embeddings" },
      { field = "norm_eps",      key = "rms_norm_eps" },
      { field = "rope_theta",    key = "rope_theta", or_key = "rope_parameters.rope_theta" },
      { field = "window",        key = "sliding_window", optional = true },
      { field = "tied",          key = "tie_word_embeddings", optional = true },
    },
    -- Facts that change the arithmetic: absent, or one of these.
    only = {
      { key = "hidden_act", values = { "silu" } },
      { key = "attention_bias", values = { false } },
      { key = "rope_scaling", values = {} },
      { key = "rope_parameters.rope_type", values = { "default" } },
    },
  },

  -- GGUF metadata: keys stand after "llama.", the name that the format's
  -- writers gave this family's graph.
  gguf = {
    arch = "llama",
    keys = {
      { field = "n_layer",       key = "block_count" },
      { field = "n_embd",        key = "embedding_length" },
      { field = "n_head",        key = "attention.head_count" },
      { field = "n_head_kv",     key = "attention.head_count_kv", same_as = "attention.head_count" },
      { field = "head_dim",      key = "attention.key_length", optional = true },
      { field = "n_ff",          key = "feed_forward_length" },
      { field = "n_expert",      key = "expert_count" },
      { field = "n_expert_used", key = "expert_used_count" },
      { field = "n_ctx_train",   key = "context_length" },
      { field = "norm_eps",      key = "attention.layer_norm_rms_epsilon" },
      { field = "rope_theta",    key = "rope.freq_base", default = 10000.0 },
      { field = "window",        key = "attention.sliding_window", optional = true },
    },
    only = {
      { key = "rope.scaling.type", values = { "none" } },
      { key = "rope.scaling.factor", values = { 0.0, 1.0 } },
      { key = "rope.scale_linear", values = { 1.0 } },
    },
  },

  -- In the order of IG_ROLES (runtime/plan.h).  `field` is the matrix's name in
  -- struct ig_layer.  rope_pairs: GGUF writers permuted these rows.
  sources = {
    { role = "TOKEN_EMBD", field = "token_embd",
      hf = { "model.embed_tokens.weight" }, gguf = { "token_embd.weight" } },
    { role = "OUTPUT_NORM",
      hf = { "model.norm.weight" }, gguf = { "output_norm.weight" } },
    { role = "OUTPUT", field = "output",
      hf = { "lm_head.weight" }, gguf = { "output.weight" } },
    { role = "ATTN_NORM",
      hf = { "model.layers.%L.input_layernorm.weight" }, gguf = { "blk.%L.attn_norm.weight" } },
    { role = "ATTN_Q", field = "q", rope_pairs = true,
      hf = { "model.layers.%L.self_attn.q_proj.weight" }, gguf = { "blk.%L.attn_q.weight" } },
    { role = "ATTN_K", field = "k", rope_pairs = true,
      hf = { "model.layers.%L.self_attn.k_proj.weight" }, gguf = { "blk.%L.attn_k.weight" } },
    { role = "ATTN_V", field = "v",
      hf = { "model.layers.%L.self_attn.v_proj.weight" }, gguf = { "blk.%L.attn_v.weight" } },
    { role = "ATTN_O", field = "o",
      hf = { "model.layers.%L.self_attn.o_proj.weight" }, gguf = { "blk.%L.attn_output.weight" } },
    { role = "FFN_NORM",
      hf = { "model.layers.%L.post_attention_layernorm.weight" },
      gguf = { "blk.%L.ffn_norm.weight" } },
    { role = "ROUTER", field = "router",
      hf = { "model.layers.%L.block_sparse_moe.gate.weight" },
      gguf = { "blk.%L.ffn_gate_inp.weight" } },
    { role = "GATE", field = "gate",
      hf = { "model.layers.%L.block_sparse_moe.experts.%E.w1.weight" },
      gguf = { "blk.%L.ffn_gate_exps.weight", "blk.%L.ffn_gate.%E.weight" } },
    { role = "UP", field = "up",
      hf = { "model.layers.%L.block_sparse_moe.experts.%E.w3.weight" },
      gguf = { "blk.%L.ffn_up_exps.weight", "blk.%L.ffn_up.%E.weight" } },
    { role = "DOWN", field = "down",
      hf = { "model.layers.%L.block_sparse_moe.experts.%E.w2.weight" },
      gguf = { "blk.%L.ffn_down_exps.weight", "blk.%L.ffn_down.%E.weight" } },
  },
}

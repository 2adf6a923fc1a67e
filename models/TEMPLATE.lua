-- A model description: copy, fill in, name the file after the model.  Facts only,
-- each from the model's config.json or paper; say where they come from.  The
-- values here are a small valid example.  Most models need no description:
-- build.lua reads a Hugging Face folder or a .gguf file directly.
model {
  family = "mixtral",    -- the arithmetic: a file of gen/families/

  n_layer = 2,           -- num_hidden_layers
  n_embd = 64,           -- hidden_size: width of the residual stream
  n_head = 4,            -- num_attention_heads: query heads
  n_head_kv = 2,         -- num_key_value_heads: divides n_head
  head_dim = 16,         -- head_dim, else hidden_size / num_attention_heads; even
  n_ff = 96,             -- intermediate_size of ONE expert
  n_expert = 8,          -- num_local_experts in a layer
  n_expert_used = 2,     -- num_experts_per_tok
  n_vocab = 512,         -- vocab_size: rows of the embedding
  n_ctx_train = 256,     -- max_position_embeddings

  norm_eps = 1e-5,       -- rms_norm_eps
  rope_theta = 1e6,      -- rope_theta: base of the rotary frequencies

  window = 0,            -- optional: sliding_window in positions; 0 (the default) is none
  tied = false,          -- optional: tie_word_embeddings; true: no output matrix of its own

  -- Formats of the weights by class: f32 f16 bf16 or a block format
  -- (README.md), which needs columns in multiples of 32, or of 256 for q2_k to q6_k: n_embd for most matrices, n_ff
  -- for an expert's down projection.  `--set quant=FMT` overrides all but the router.
  weights = {
    expert = "bf16",     -- gate, up, down: nearly all the bytes
    attn = "bf16",       -- q, k, v, o
    embed = "bf16",      -- token embedding
    output = "bf16",     -- output matrix; ignored when tied
    router = "f32",      -- optional: f32 is the default; few bytes, and they choose the experts
  },
}

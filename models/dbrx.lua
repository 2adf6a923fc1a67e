-- DBRX (Databricks, March 2024).
-- Facts: config.json of huggingface.co/databricks/dbrx-instruct and its repository; LayerNorm's epsilon is its code's.
-- Checked: a whole copy of the file (of its 4-bit conversion) in a public test.
model {
  family = "dbrx",
  n_layer = 40,
  n_embd = 6144,
  n_head = 48,
  n_head_kv = 8,
  head_dim = 128,
  n_ff = 10752,
  n_expert = 16,
  n_expert_used = 4,
  n_vocab = 100352,
  n_ctx_train = 32768,
  norm_eps = 1e-5,
  rope_theta = 5e5,
  qkv_clip = 8,
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

-- Mixtral 8x7B (Mistral AI, December 2023).
-- Facts: config.json of huggingface.co/mistralai/Mixtral-8x7B-Instruct-v0.1, which
-- is published in BF16 (93.4 GB).  The weights below are a choice that runs on a
-- 32 GB desktop; `--set quant=bf16` keeps the checkpoint as it is.  Checked: copies of the file in public tests.
model {
  family = "mixtral",
  n_layer = 6,
  n_embd = 4096,
  n_head = 32,
  n_head_kv = 8,
  head_dim = 128,
  n_ff = 14336,
  n_expert = 8,
  n_expert_used = 2,
  n_vocab = 32000,
  n_ctx_train = 32768,
  norm_eps = 1e-5,
  rope_theta = 1e6,
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

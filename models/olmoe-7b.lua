-- OLMoE-1B-7B (Allen Institute for AI, September 2024).
-- Facts: config.json of huggingface.co/allenai/OLMoE-1B-7B-0924-Instruct.  Checked: a copy of the file in public tests.
model {
  family = "olmoe",
  n_layer = 16,
  n_embd = 2048,
  n_head = 16,
  n_head_kv = 16,
  head_dim = 128,
  n_ff = 1024,
  n_expert = 64,
  n_expert_used = 8,
  n_vocab = 50304,
  n_ctx_train = 4096,
  norm_eps = 1e-5,
  rope_theta = 1e4,
  weights = { expert = "q8_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

-- Qwen1.5-MoE-A2.7B (Alibaba, March 2024).
-- Facts: config.json of huggingface.co/Qwen/Qwen1.5-MoE-A2.7B.  Checked: a copy of the file in public tests; the
-- chat model differs in its 32768 positions only.
model {
  family = "qwen2-moe",
  n_layer = 24,
  n_embd = 2048,
  n_head = 16,
  n_head_kv = 16,
  head_dim = 128,
  n_ff = 1408,
  n_expert = 60,
  n_expert_used = 4,
  n_vocab = 151936,
  n_ctx_train = 8192,
  norm_eps = 1e-6,
  rope_theta = 1e6,
  n_ff_shared = 5632,
  weights = { expert = "q8_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

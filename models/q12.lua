-- Qwen3-30B-A3B (Alibaba, April 2025).
-- Facts: config.json of huggingface.co/Qwen/Qwen3-30B-A3B.  Checked: a copy of the file in public tests, and
-- scripts/models/qwen3-30B-A3B.sh of github.com/THUDM/slime.
model {
  family = "qwen3-moe",
  n_layer = 12,
  n_embd = 2048,
  n_head = 32,
  n_head_kv = 4,
  head_dim = 128,
  n_ff = 768,
  n_expert = 128,
  n_expert_used = 8,
  n_vocab = 151936,
  n_ctx_train = 40960,
  norm_eps = 1e-6,
  rope_theta = 1e6,
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

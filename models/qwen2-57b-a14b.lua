-- Qwen2-57B-A14B (Alibaba, June 2024).
-- Facts: config.json of huggingface.co/Qwen/Qwen2-57B-A14B.  Checked: the copy in github.com/NVIDIA/TensorRT-LLM,
-- QWEN2_57B_A14B_CONFIG of its tests.
model {
  family = "qwen2-moe",
  n_layer = 28,
  n_embd = 3584,
  n_head = 28,
  n_head_kv = 4,
  head_dim = 128,
  n_ff = 2560,
  n_expert = 64,
  n_expert_used = 8,
  n_vocab = 151936,
  n_ctx_train = 131072,
  norm_eps = 1e-6,
  rope_theta = 1e6,
  n_ff_shared = 20480,
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

-- A bench shape: Qwen3-30B-A3B, all 48 layers, as Mixtral-family math.
-- Facts: config.json of huggingface.co/Qwen/Qwen3-30B-A3B.  The q and k norms
-- are left out, so this is for `pack --synth` and `bench`, not for real weights.
model {
  family = "mixtral",
  n_layer = 48,
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
  weights = { expert = "q8_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

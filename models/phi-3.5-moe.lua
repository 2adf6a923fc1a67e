-- Phi-3.5-MoE (Microsoft, August 2024), within its first 4096 positions: the 128
-- longrope factors are left out, so this is for `pack --synth` and `bench`; build from the
-- checkpoint's own folder for real weights.
-- Facts: config.json of huggingface.co/microsoft/Phi-3.5-MoE-instruct.
model {
  family = "phimoe",
  n_layer = 32,
  n_embd = 4096,
  n_head = 32,
  n_head_kv = 8,
  head_dim = 128,
  n_ff = 6400,
  n_expert = 16,
  n_expert_used = 2,
  n_vocab = 32064,
  n_ctx_train = 4096,
  norm_eps = 1e-5,
  rope_theta = 1e4,
  router_jitter = 0.01,
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

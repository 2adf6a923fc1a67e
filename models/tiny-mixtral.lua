-- tiny-mixtral: a small trained model in the Mixtral format, 30.8 M parameters,
-- for tests and the demo.  Facts: its config.json.
model {
  family = "mixtral",
  n_layer = 7,
  n_embd = 256,
  n_head = 8,
  n_head_kv = 2,
  head_dim = 32,
  n_ff = 320,
  n_expert = 16,
  n_expert_used = 2,
  n_vocab = 4096,
  n_ctx_train = 2048,
  norm_eps = 1e-5,
  rope_theta = 1e4,
  weights = { expert = "bf16", attn = "bf16", embed = "bf16", output = "bf16" },
}

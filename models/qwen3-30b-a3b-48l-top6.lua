-- A bench shape: Qwen3-30B-A3B with 6 experts a token, as the public
-- routing trace was recorded; Mixtral-family math.  For `pack --synth` and `bench --route`.
-- Facts: config.json of huggingface.co/Qwen/Qwen3-30B-A3B.
model {
  family = "mixtral",
  n_layer = 48,
  n_embd = 2048,
  n_head = 32,
  n_head_kv = 4,
  head_dim = 128,
  n_ff = 768,
  n_expert = 128,
  n_expert_used = 6,
  n_vocab = 151936,
  n_ctx_train = 40960,
  norm_eps = 1e-6,
  rope_theta = 1e6,
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

-- Granite 3.0 3B-A800M (IBM, October 2024).
-- Facts: config.json of huggingface.co/ibm-granite/granite-3.0-3b-a800m-instruct.  Checked: config.json of
-- huggingface.co/RichardErkhov/ibm-granite_-_granite-3.0-3b-a800m-instruct-8bits, the same model.
model {
  family = "granitemoe",
  n_layer = 32,
  n_embd = 1536,
  n_head = 24,
  n_head_kv = 8,
  head_dim = 64,
  n_ff = 512,
  n_expert = 40,
  n_expert_used = 8,
  n_vocab = 49155,
  n_ctx_train = 4096,
  norm_eps = 1e-6,
  rope_theta = 1e4,
  tied = true,
  embd_scale = 12,
  residual_scale = 0.22,
  attn_scale = 0.015625,
  logit_scale = 6,
  weights = { expert = "q8_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

-- gpt-oss-20b (OpenAI, August 2025); published with experts in MXFP4.
-- Facts: config.json of huggingface.co/openai/gpt-oss-20b.  Checked, all but rope's scaling:
-- examples/post_training/modelopt/conf/openai/gpt-oss-20b.sh of github.com/NVIDIA/Megatron-LM.
model {
  family = "gpt-oss",
  n_layer = 24,
  n_embd = 2880,
  n_head = 64,
  n_head_kv = 8,
  head_dim = 64,
  n_ff = 2880,
  n_expert = 32,
  n_expert_used = 4,
  n_vocab = 201088,
  n_ctx_train = 131072,
  norm_eps = 1e-5,
  rope_theta = 150000,
  window = 128,
  rope = { type = "yarn", factor = 32, orig_ctx = 4096, truncate = false },
  weights = { expert = "mxfp4", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

-- DeepSeek-V2-Lite (DeepSeek-AI, May 2024).
-- Facts: config.json of huggingface.co/deepseek-ai/DeepSeek-V2-Lite-Chat; both mscales are 0.707.  Checked: a dump of
-- the loaded config and shapes, and examples/post_training/modelopt/conf/deepseek-ai/DeepSeek-V2-Lite.sh of
-- github.com/NVIDIA/Megatron-LM.
model {
  family = "deepseek-v2",
  n_layer = 27,
  n_embd = 2048,
  n_head = 16,
  n_ff = 1408,
  n_expert = 64,
  n_expert_used = 6,
  n_vocab = 102400,
  n_ctx_train = 163840,
  norm_eps = 1e-6,
  rope_theta = 1e4,
  n_layer_dense = 1,
  n_ff_dense = 10944,
  n_ff_shared = 2 * 1408,
  kv_lora = 512,
  nope_dim = 128,
  rope_dim = 64,
  v_dim = 128,
  rope = { type = "yarn", factor = 40, orig_ctx = 4096, mscale = 0.707, mscale_all = 0.707 },
  weights = { expert = "q8_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

-- DeepSeek-V3 (DeepSeek-AI, December 2024); published in FP8.
-- Facts: config.json of huggingface.co/deepseek-ai/DeepSeek-V3.  Checked (R1 has the same shape):
-- examples/post_training/modelopt/conf/deepseek-ai/DeepSeek-R1.sh of github.com/NVIDIA/Megatron-LM.
model {
  family = "deepseek-v3",
  n_layer = 61,
  n_embd = 7168,
  n_head = 128,
  n_ff = 2048,
  n_expert = 256,
  n_expert_used = 8,
  n_vocab = 129280,
  n_ctx_train = 163840,
  norm_eps = 1e-6,
  rope_theta = 1e4,
  n_layer_dense = 3,
  n_ff_dense = 18432,
  n_ff_shared = 2048,
  n_route_group = 8,
  n_route_group_used = 4,
  route_scale = 2.5,
  q_lora = 1536,
  kv_lora = 512,
  nope_dim = 128,
  rope_dim = 64,
  v_dim = 128,
  rope = { type = "yarn", factor = 40, orig_ctx = 4096, mscale = 1.0, mscale_all = 1.0 },
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

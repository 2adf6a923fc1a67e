-- GLM-4.5-Air (Zhipu AI, July 2025), without its layer for predicting several tokens at once.
-- Facts: config.json of huggingface.co/zai-org/GLM-4.5-Air.  Checked: config.json of its descendant
-- huggingface.co/PrimeIntellect/INTELLECT-3-Base, and scripts/models/glm4.5-106B-A12B.sh of github.com/THUDM/slime.
model {
  family = "glm4-moe",
  n_layer = 46,
  n_embd = 4096,
  n_head = 96,
  n_head_kv = 8,
  head_dim = 128,
  n_ff = 1408,
  n_expert = 128,
  n_expert_used = 8,
  n_vocab = 151552,
  n_ctx_train = 131072,
  norm_eps = 1e-5,
  rope_theta = 1e6,
  rope_dim = 64,
  attn_bias = "qkv",
  n_layer_dense = 1,
  n_ff_dense = 10944,
  n_ff_shared = 1408,
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

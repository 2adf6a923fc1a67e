-- Mixtral 8x22B (Mistral AI, April 2024).
-- Facts: config.json of huggingface.co/mistralai/Mixtral-8x22B-Instruct-v0.1, which
-- is published in BF16 (281 GB); in the formats below it takes 82 GB.  The base model has the older vocabulary of
-- 32000.  Checked: examples/mcore/mixtral/pretrain_mixtral_8x22b_64k_A3_ptd.sh of github.com/Ascend/MindSpeed-LLM.
model {
  family = "mixtral",
  n_layer = 56,
  n_embd = 6144,
  n_head = 48,
  n_head_kv = 8,
  head_dim = 128,
  n_ff = 16384,
  n_expert = 8,
  n_expert_used = 2,
  n_vocab = 32768,
  n_ctx_train = 65536,
  norm_eps = 1e-5,
  rope_theta = 1e6,
  weights = { expert = "q4_0", attn = "q8_0", embed = "q8_0", output = "q8_0" },
}

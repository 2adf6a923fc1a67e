-- Switch Transformer base with 128 experts (Fedus et al. 2021, arXiv 2101.03961; Google, 2022).
-- Facts: huggingface.co/google/switch-base-128; T5 base's sizes, with what switch_base.gin of
-- github.com/google/flaxformer changes: width 3072, experts in every other layer, the embedding as output.
-- Checked: config.json of huggingface.co/google/switch-base-32, -64 and -256, which differ in num_experts only.
model {
  family = "switch",
  n_layer = 24, -- 12 of the encoder, 12 of the decoder
  n_layer_enc = 12,
  sparse_step = 2,
  sparse_step_enc = 2,
  n_embd = 768,
  n_head = 12,
  n_head_kv = 12,
  head_dim = 64,
  n_ff = 3072,
  n_ff_dense = 3072,
  n_expert = 128,
  n_expert_used = 1,
  n_vocab = 32128,
  n_ctx_train = 512,
  n_rel_bucket = 32,
  rel_distance = 128,
  norm_eps = 1e-6,
  tied = true,
  weights = { expert = "bf16", attn = "bf16", embed = "bf16", output = "bf16" },
}

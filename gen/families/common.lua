-- gen/families/common.lua -- what most families share: key names, tensor names.
--
-- A family is data.  `defaults` are facts of gen/model.lua that it fixes, `may` lists
-- those that its models may state.  hf.keys and gguf.keys say which key of
-- config.json or of the GGUF metadata states which field; `only` lists keys that
-- must be absent or have one of the values, since another value is other
-- arithmetic; `derive(get, stated)` fills fields that are no single key's value.
--
-- sources: role (IG_ROLES, runtime/base/plan.h) -> names in checkpoints, tried in order.  A
-- name is a string or { string, slice = f(m), paired = f(m), stack = "ENC" or "DEC" }:
--   slice   the matrix is part of a fused tensor, whose rows come in groups (one an
--           expert, if the name has no %E): `count` rows of each `group`, at from,
--           from + step, ...; transpose: these are columns of the group instead,
--           out of `cols`.
--   paired  rows of each `period` from `from` on are stored for interleaved rotation
--           (2i beside 2i + 1); they are put in halves (i beside i + n/2).
--   stack   the name is that of the encoder's layers, or of the decoder's; %L counts in the stack.

local checkpoint = require "gen.checkpoint"

local M = {}

-- `with` replaces entries of `list` that state the same `id`, and adds the rest.
local function merged(list, with, id)
  local out, at = {}, {}
  for _, source in ipairs { list, with or {} } do
    for _, entry in ipairs(source) do
      local k = entry[id]
      at[k] = at[k] or #out + 1
      out[at[k]] = entry
    end
  end
  local kept = {}
  for _, entry in ipairs(out) do
    if not entry.none then kept[#kept + 1] = entry end
  end
  return kept
end

local HF_KEYS = {
  { field = "n_layer",       key = "num_hidden_layers" },
  { field = "n_embd",        key = "hidden_size" },
  { field = "n_head",        key = "num_attention_heads" },
  { field = "n_head_kv",     key = "num_key_value_heads", same_as = "num_attention_heads" },
  { field = "head_dim",      key = "head_dim", optional = true },
  { field = "n_ff",          key = "intermediate_size" },
  { field = "n_expert",      key = "num_local_experts" },
  { field = "n_expert_used", key = "num_experts_per_tok" },
  { field = "n_vocab",       key = "vocab_size" },
  { field = "n_ctx_train",   key = "max_position_embeddings" },
  { field = "norm_eps",      key = "rms_norm_eps" },
  { field = "rope_theta",    key = "rope_theta", or_key = "rope_parameters.rope_theta" },
  { field = "tied",          key = "tie_word_embeddings", optional = true },
}

--- The keys of config.json, with a family's own; { field, none = true } removes one.
function M.hf_keys(with) return merged(HF_KEYS, with, "field") end

local HF_ONLY = {
  { key = "hidden_act", values = { "silu" } },
  { key = "attention_bias", values = { false } },
  { key = "mlp_bias", values = { false } },
}

function M.hf_only(with) return merged(HF_ONLY, with, "key") end

--- Keys stand after the architecture's name.
local GGUF_KEYS = {
  { field = "n_layer",       key = "block_count" },
  { field = "n_embd",        key = "embedding_length" },
  { field = "n_head",        key = "attention.head_count" },
  { field = "n_head_kv",     key = "attention.head_count_kv", same_as = "attention.head_count" },
  { field = "head_dim",      key = "attention.key_length", optional = true },
  { field = "n_ff",          key = "feed_forward_length" },
  { field = "n_expert",      key = "expert_count" },
  { field = "n_expert_used", key = "expert_used_count" },
  { field = "n_ctx_train",   key = "context_length" },
  { field = "norm_eps",      key = "attention.layer_norm_rms_epsilon" },
  { field = "rope_theta",    key = "rope.freq_base", default = 10000.0 },
}

function M.gguf_keys(with) return merged(GGUF_KEYS, with, "field") end

local GGUF_ONLY = {
  { key = "rope.scale_linear", values = { 1.0 } },
  { key = "rope.scaling.attn_factor", values = { 1.0 } },
  { key = "rope.scaling.yarn_ext_factor", values = { 1.0, -1.0 } }, -- how much of YaRN; -1: not stated
}

function M.gguf_only(with) return merged(GGUF_ONLY, with, "key") end

local LAYER = "model.layers.%L."

local function both(hf, gguf) return { hf = { hf }, gguf = { gguf } } end

-- Rows of q, k or v in a tensor of the three.
local function rows_of(which)
  return function(m)
    local qd, kvd = m.n_head * m.head_dim, m.n_head_kv * m.head_dim
    return { group = qd + 2 * kvd, from = which == "q" and 0 or which == "k" and qd or qd + kvd,
             count = which == "q" and qd or kvd }
  end
end

--- One of q, k, v in a tensor of the three; `paired` as in the head of this file.
function M.part_of(name, which, paired) return { name, slice = rows_of(which), paired = paired } end

-- Of q, k, v: a tensor each, or one of the three, which GGUF writers can make.
local function q_k_v(which, what)
  return { hf = { LAYER .. "self_attn." .. which .. "_proj." .. what },
           gguf = { "blk.%L.attn_" .. which .. "." .. what, M.part_of("blk.%L.attn_qkv." .. what, which) } }
end

-- The names of Llama's checkpoints, which most later ones kept.
local SOURCES = {
  TOKEN_EMBD  = both("model.embed_tokens.weight", "token_embd.weight"),
  OUTPUT_NORM = both("model.norm.weight", "output_norm.weight"),
  OUTPUT      = both("lm_head.weight", "output.weight"),
  ATTN_NORM   = both(LAYER .. "input_layernorm.weight", "blk.%L.attn_norm.weight"),
  ATTN_Q      = q_k_v("q", "weight"),
  ATTN_K      = q_k_v("k", "weight"),
  ATTN_V      = q_k_v("v", "weight"),
  ATTN_O      = both(LAYER .. "self_attn.o_proj.weight", "blk.%L.attn_output.weight"),
  ATTN_Q_BIAS = q_k_v("q", "bias"),
  ATTN_K_BIAS = q_k_v("k", "bias"),
  ATTN_V_BIAS = q_k_v("v", "bias"),
  ATTN_O_BIAS = both(LAYER .. "self_attn.o_proj.bias", "blk.%L.attn_output.bias"),
  ATTN_Q_NORM = both(LAYER .. "self_attn.q_norm.weight", "blk.%L.attn_q_norm.weight"),
  ATTN_K_NORM = both(LAYER .. "self_attn.k_norm.weight", "blk.%L.attn_k_norm.weight"),
  FFN_NORM    = both(LAYER .. "post_attention_layernorm.weight", "blk.%L.ffn_norm.weight"),
  ROUTER      = both(LAYER .. "mlp.gate.weight", "blk.%L.ffn_gate_inp.weight"),
  DENSE_GATE  = both(LAYER .. "mlp.gate_proj.weight", "blk.%L.ffn_gate.weight"),
  DENSE_UP    = both(LAYER .. "mlp.up_proj.weight", "blk.%L.ffn_up.weight"),
  DENSE_DOWN  = both(LAYER .. "mlp.down_proj.weight", "blk.%L.ffn_down.weight"),
}

--- Half `which` (0 or 1) of each group of 2 * n_ff rows.
function M.half(which)
  return function(m) return { group = 2 * m.n_ff, from = which * m.n_ff, count = m.n_ff } end
end

--- Gate (0) or up (1) of all experts in the one tensor that GGUF writers can make of both.
function M.gate_up(which) return { "blk.%L.ffn_gate_up_exps.weight", slice = M.half(which) } end

--- Experts under `hf` in transformers' names, one tensor an expert or fused, and in GGUF's.
function M.experts(hf, gate, up, down)
  local one, all = LAYER .. hf .. ".experts.%E.", LAYER .. hf .. ".experts."
  return {
    GATE = { hf = { one .. gate .. ".weight", { all .. "gate_up_proj", slice = M.half(0) } },
             gguf = { "blk.%L.ffn_gate_exps.weight", M.gate_up(0), "blk.%L.ffn_gate.%E.weight" } },
    UP   = { hf = { one .. up .. ".weight", { all .. "gate_up_proj", slice = M.half(1) } },
             gguf = { "blk.%L.ffn_up_exps.weight", M.gate_up(1), "blk.%L.ffn_up.%E.weight" } },
    DOWN = { hf = { one .. down .. ".weight", all .. "down_proj" },
             gguf = { "blk.%L.ffn_down_exps.weight", "blk.%L.ffn_down.%E.weight" } },
  }
end

--- A block that every token passes, beside the experts.
function M.shared(hf)
  return {
    SHARED_GATE = both(LAYER .. hf .. ".gate_proj.weight", "blk.%L.ffn_gate_shexp.weight"),
    SHARED_UP   = both(LAYER .. hf .. ".up_proj.weight", "blk.%L.ffn_up_shexp.weight"),
    SHARED_DOWN = both(LAYER .. hf .. ".down_proj.weight", "blk.%L.ffn_down_shexp.weight"),
  }
end

--- Llama's names, overridden by each of the given tables in turn.
function M.sources(...)
  local out = {}
  for _, set in ipairs { SOURCES, ... } do
    for _, role in ipairs(checkpoint.ROLES) do out[role] = set[role] or out[role] end
  end
  return out
end

--- a * b, nil when a description left one out (which is reported under its own name).
function M.product(a, b)
  return type(a) == "number" and type(b) == "number" and math.tointeger(a * b) or nil
end

--- a + b, nil as above.
function M.sum(a, b)
  return type(a) == "number" and type(b) == "number" and math.tointeger(a + b) or nil
end

--- Rows of a whole head, as GGUF writers store them for Llama's graph.
function M.head_pairs(m) return { period = m.head_dim, from = 0 } end

--- Roles whose GGUF rows are permuted in this way.
function M.llama_pairs()
  return {
    ATTN_Q = { hf = { LAYER .. "self_attn.q_proj.weight" },
               gguf = { { "blk.%L.attn_q.weight", paired = M.head_pairs },
                        M.part_of("blk.%L.attn_qkv.weight", "q", M.head_pairs) } },
    ATTN_K = { hf = { LAYER .. "self_attn.k_proj.weight" },
               gguf = { { "blk.%L.attn_k.weight", paired = M.head_pairs },
                        M.part_of("blk.%L.attn_qkv.weight", "k", M.head_pairs) } },
  }
end

return M

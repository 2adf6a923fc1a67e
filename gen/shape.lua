-- gen/shape.lua -- the tensors that follow from a model's facts, in file order.
--
-- An item is a matrix { role, source, rows, cols, class, part?, bias? } or a
-- vector { role, source, n }.  `role` is the field of struct ig_layer, `source`
-- the name in IG_ROLES under which families list checkpoint tensors, `bias` the
-- role of the matrix's bias, `part` the slab that holds it (expert or dense).

local families = require "gen.families"

local M = {}

local function vector(list, role, source, n)
  list[#list + 1] = { role = role, source = source, n = n }
end

local function matrix(list, role, source, rows, cols, class, more)
  more = more or {}
  list[#list + 1] = { role = role, source = source, rows = rows, cols = cols, class = class,
                      part = more.part, bias = more.bias, blocks = more.blocks }
end

local function norm(m, list, role, source)
  vector(list, role, source, m.n_embd)
  if m.norm_bias then vector(list, role .. "_bias", source .. "_BIAS", m.n_embd) end
end

local function gqa(m, list)
  local qd, kvd = m.n_head * m.head_dim, m.n_head_kv * m.head_dim
  local function bias(source, with) return { bias = with and source .. "_BIAS" or nil } end
  local qkv = m.attn_bias ~= "none"
  matrix(list, "q", "ATTN_Q", qd, m.n_embd, "attn", bias("ATTN_Q", qkv))
  matrix(list, "k", "ATTN_K", kvd, m.n_embd, "attn", bias("ATTN_K", qkv))
  matrix(list, "v", "ATTN_V", kvd, m.n_embd, "attn", bias("ATTN_V", qkv))
  matrix(list, "o", "ATTN_O", m.n_embd, qd, "attn", bias("ATTN_O", m.attn_bias == "qkvo"))
  if m.qk_norm ~= "none" then
    local full = m.qk_norm == "full"
    vector(list, "q_norm", "ATTN_Q_NORM", full and qd or m.head_dim)
    vector(list, "k_norm", "ATTN_K_NORM", full and kvd or m.head_dim)
  end
  if m.sinks then vector(list, "sinks", "ATTN_SINKS", m.n_head) end
end

-- Latent attention (DeepSeek-AI 2024, DeepSeek-V2, section 2.1), in its absorbed form:
-- k_b turns a head's query into the latent space, v_b turns the result back.
local function mla(m, list)
  local head = m.nope_dim + m.rope_dim
  if m.q_lora > 0 then
    matrix(list, "q_a", "ATTN_Q_A", m.q_lora, m.n_embd, "attn")
    vector(list, "q_a_norm", "ATTN_Q_A_NORM", m.q_lora)
  end
  matrix(list, "q", m.q_lora > 0 and "ATTN_Q_B" or "ATTN_Q", m.n_head * head,
    m.q_lora > 0 and m.q_lora or m.n_embd, "attn")
  matrix(list, "kv_a", "ATTN_KV_A", m.kv_lora + m.rope_dim, m.n_embd, "attn")
  vector(list, "kv_a_norm", "ATTN_KV_A_NORM", m.kv_lora)
  matrix(list, "k_b", "ATTN_K_B", m.n_head * m.kv_lora, m.nope_dim, "attn",
    { blocks = m.n_head })
  matrix(list, "v_b", "ATTN_V_B", m.n_head * m.v_dim, m.kv_lora, "attn", { blocks = m.n_head })
  matrix(list, "o", "ATTN_O", m.n_embd, m.n_head * m.v_dim, "attn")
end

-- Of a decoder beside an encoder: attention to the encoder's output.
local function cross(m, list)
  local qd, kvd = m.n_head * m.head_dim, m.n_head_kv * m.head_dim
  norm(m, list, "cross_norm", "CROSS_NORM")
  matrix(list, "cross_q", "CROSS_Q", qd, m.n_embd, "attn")
  matrix(list, "cross_k", "CROSS_K", kvd, m.n_embd, "attn")
  matrix(list, "cross_v", "CROSS_V", kvd, m.n_embd, "attn")
  matrix(list, "cross_o", "CROSS_O", m.n_embd, qd, "attn")
end

local function mlp(m, list, prefix, source, width, part)
  local function more(name)
    return { part = part, bias = m.expert_bias and part == "expert" and source .. name .. "_BIAS" or nil }
  end
  matrix(list, prefix .. "gate", source .. "GATE", width, m.n_embd, "expert", more "GATE")
  if m.act ~= "relu" then matrix(list, prefix .. "up", source .. "UP", width, m.n_embd, "expert", more "UP") end
  matrix(list, prefix .. "down", source .. "DOWN", m.n_embd, width, "expert", more "DOWN")
end

--- Models of two stacks: the encoder's layers come first.
function M.is_encoder(m, layer) return M.has_encoder(m) and layer <= m.n_layer_enc end
function M.has_encoder(m) return families.by_name[m.family].encoder == true end

function M.is_dense(m, layer)
  if not M.has_encoder(m) then return layer <= m.n_layer_dense end
  local enc = M.is_encoder(m, layer)
  local step, k = enc and m.sparse_step_enc or m.sparse_step, enc and layer or layer - m.n_layer_enc
  return step == 0 or step > 1 and (k - 1) % step ~= 1
end

--- The tensors of layer 1 .. n_layer.
function M.layer_items(m, layer)
  local list = {}
  norm(m, list, "mixer_norm", "ATTN_NORM")
  if families.by_name[m.family].mixer == "IG_MIXER_MLA" then mla(m, list) else gqa(m, list) end
  if M.has_encoder(m) then
    if layer == 1 or layer == m.n_layer_enc + 1 then
      vector(list, "rel_bias", "REL_BIAS", m.n_rel_bucket * m.n_head)
    end
    if layer > m.n_layer_enc then cross(m, list) end
  end
  norm(m, list, "ffn_norm", "FFN_NORM")
  if M.is_dense(m, layer) then
    mlp(m, list, "dense_", "DENSE_", m.n_ff_dense, "dense")
    return list
  end
  matrix(list, "router", "ROUTER", m.n_expert, m.n_embd, "router", { bias = m.expert_bias and "ROUTER_BIAS" or nil })
  if m.route_bias then vector(list, "route_bias", "ROUTE_BIAS", m.n_expert) end
  if m.n_ff_shared > 0 then
    if m.shared_gate then vector(list, "shared_gate", "SHARED_SCALE", m.n_embd) end
    mlp(m, list, "dense_", "SHARED_", m.n_ff_shared, "dense")
  end
  mlp(m, list, "", "", m.n_ff, "expert")
  return list
end

--- The matrices of a layer.
function M.layer_matrices(m, layer)
  local list = {}
  for _, item in ipairs(M.layer_items(m, layer)) do
    if item.rows then list[#list + 1] = item end
  end
  return list
end

--- The tensors outside the layers: before them, and after them.
function M.outer_items(m)
  local before, after = {}, {}
  matrix(before, "token_embd", "TOKEN_EMBD", m.n_vocab, m.n_embd, "embed")
  norm(m, after, "output_norm", "OUTPUT_NORM")
  if M.has_encoder(m) then vector(after, "enc_norm", "ENC_NORM", m.n_embd) end
  if not m.tied then
    matrix(after, "output", "OUTPUT", m.n_vocab, m.n_embd, "output",
      { bias = m.output_bias and "OUTPUT_BIAS" or nil })
  end
  return before, after
end

--- The matrices outside the layers.
function M.outer_matrices(m)
  local list = {}
  for _, items in ipairs { M.outer_items(m) } do
    for _, item in ipairs(items) do
      if item.rows then list[#list + 1] = item end
    end
  end
  return list
end

return M

-- gen/checkpoint.lua -- where a role's values are in a checkpoint, with a model's numbers filled in.

local M = {}

M.NAMES_MOST = 3 -- struct ig_source of runtime/base/plan.h

-- In the order of IG_ROLES (runtime/base/plan.h).
M.ROLES = {
  "TOKEN_EMBD", "OUTPUT_NORM", "OUTPUT_NORM_BIAS", "OUTPUT", "OUTPUT_BIAS",
  "ATTN_NORM", "ATTN_NORM_BIAS", "ATTN_Q", "ATTN_Q_BIAS", "ATTN_K", "ATTN_K_BIAS", "ATTN_V", "ATTN_V_BIAS",
  "ATTN_O", "ATTN_O_BIAS", "ATTN_Q_NORM", "ATTN_K_NORM", "ATTN_SINKS",
  "ATTN_Q_A", "ATTN_Q_A_NORM", "ATTN_Q_B", "ATTN_KV_A", "ATTN_KV_A_NORM", "ATTN_K_B", "ATTN_V_B",
  "FFN_NORM", "FFN_NORM_BIAS", "DENSE_GATE", "DENSE_UP", "DENSE_DOWN",
  "ROUTER", "ROUTER_BIAS", "ROUTE_BIAS", "SHARED_SCALE", "SHARED_GATE", "SHARED_UP", "SHARED_DOWN",
  "GATE", "GATE_BIAS", "UP", "UP_BIAS", "DOWN", "DOWN_BIAS",
  "ENC_NORM", "REL_BIAS", "CROSS_NORM", "CROSS_Q", "CROSS_K", "CROSS_V", "CROSS_O",
}

--- A family's entry for one name -> { name, slice?, paired?, stack? } with numbers.
function M.alternative(entry, m)
  if type(entry) == "string" then return { name = entry } end
  return { name = entry[1], slice = entry.slice and entry.slice(m), paired = entry.paired and entry.paired(m),
           stack = entry.stack }
end

--- Every role that the family names: { role, hf = { alternatives }, gguf = { ... } }.
function M.of(family, m)
  local rows = {}
  for _, role in ipairs(M.ROLES) do
    local source = family.sources[role]
    if source then
      local row = { role = role, hf = {}, gguf = {} }
      for _, kind in ipairs { "hf", "gguf" } do
        for i, entry in ipairs(source[kind] or {}) do row[kind][i] = M.alternative(entry, m) end
      end
      rows[#rows + 1] = row
    end
  end
  return rows
end

-- Facts that a checkpoint's metadata states and its tensors' shapes need not show.  `less`:
-- GGUF counts layers for predicting several tokens at once, which no plan has.
local FACTS = {
  { "n_layer", less = "nextn_predict_layers" }, { "n_embd" }, { "n_head" }, { "n_head_kv" }, { "head_dim" },
  { "rope_dim" }, { "n_expert" }, { "n_expert_used" }, { "norm_eps" }, { "rope_theta" }, { "window" },
  { "route_norm" }, { "route_scale" }, { "router_jitter" }, { "qkv_clip" }, { "act_limit" }, { "embd_scale" },
  { "residual_scale" }, { "logit_scale" }, { "q_lora" }, { "kv_lora" }, { "v_dim" },
  { "n_layer_enc" }, { "n_rel_bucket" }, { "rel_distance" }, { "start_token" },
}

local function keys_of(list, field, prefix)
  for _, k in ipairs(list) do
    if k.field == field then return { prefix .. k.key, k.or_key and prefix .. k.or_key } end
  end
  return {}
end

--- Every fact of FACTS that the family's files may state: { hf = { keys }, gguf = { keys }, less?, value }.
function M.facts(family, m)
  local rows, arch = {}, family.gguf and family.gguf.arch .. "."
  for _, fact in ipairs(FACTS) do
    local value, field = m[fact[1]], fact[1]
    if type(value) == "boolean" then value = value and 1 or 0 end
    local row = { hf = keys_of(family.hf.keys, field, ""), gguf = arch and keys_of(family.gguf.keys, field, arch) or {},
                  value = value }
    row.less = row.gguf[1] and fact.less and arch .. fact.less
    if value and (row.hf[1] or row.gguf[1]) then rows[#rows + 1] = row end
  end
  return rows
end

return M

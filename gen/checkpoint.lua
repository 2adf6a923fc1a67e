-- gen/checkpoint.lua -- where a role's values are in a checkpoint, with a model's numbers filled in.

local M = {}

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

return M

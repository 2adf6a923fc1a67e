-- gen/rope.lua -- how rotary frequencies are stretched past the trained context.
--
-- The fields of `rope` in a model, and the same facts as config.json
-- (rope_scaling, or the newer rope_parameters) spells them; for GGUF see gen/gguf_rope.lua.
-- The frequencies themselves are in gen/plan_rope.lua.

local schema = require "gen.schema"

local M = {}

local function factor(name, default)
  return { name = name, kind = "number", min = 1e-6, max = 1e6, optional = true, default = default }
end

M.fields = {
  { name = "type", kind = "choice", choices = { "linear", "llama3", "yarn", "longrope", "factors" } },
  factor "factor",
  { name = "orig_ctx", kind = "integer", min = 1, max = 1 << 24, optional = true },
  factor("beta_fast", 32.0), factor("beta_slow", 1.0),
  factor "mscale", factor "mscale_all", factor "attn_factor",     -- yarn
  { name = "truncate", kind = "boolean", default = true },
  factor "low_freq", factor "high_freq",                          -- llama3
  { name = "short_factor", kind = "numbers", optional = true },   -- longrope, factors
  { name = "long_factor", kind = "numbers", optional = true },
  factor("short_mscale", 1.0), factor("long_mscale", 1.0),
}

local NEEDS = {
  linear = { "factor" },
  llama3 = { "factor", "orig_ctx", "low_freq", "high_freq" },
  yarn = { "factor", "orig_ctx" },
  longrope = { "orig_ctx", "short_factor", "long_factor" },
  factors = { "short_factor" },
}

--- What a scheme needs beyond its type.
function M.check(m, file, problems, names)
  local path = (names and names.rope or "rope") .. "."
  for _, name in ipairs(NEEDS[m.rope.type]) do
    local v = m.rope[name]
    if v == nil then
      problems[#problems + 1] = schema.problem(file, path .. name, "a value (" .. m.rope.type .. ")", "nothing")
    elseif type(v) == "table" and #v ~= m.rope_dim // 2 then
      problems[#problems + 1] = schema.problem(file, path .. name,
        ("%d numbers, one a rotated pair"):format(m.rope_dim // 2), ("%d"):format(#v))
    end
  end
end

-- Field, key in config.json.
local HF = {
  { "factor", "factor" }, { "orig_ctx", "original_max_position_embeddings" }, { "beta_fast", "beta_fast" },
  { "beta_slow", "beta_slow" }, { "mscale", "mscale" }, { "mscale_all", "mscale_all_dim" },
  { "attn_factor", "attention_factor" }, { "truncate", "truncate" }, { "low_freq", "low_freq_factor" },
  { "high_freq", "high_freq_factor" }, { "short_factor", "short_factor" }, { "long_factor", "long_factor" },
  { "short_mscale", "short_mscale" }, { "long_mscale", "long_mscale" },
}

--- The types that a family may have, for messages.
function M.one_of(...)
  local words = {}
  for i, word in ipairs { ... } do words[i] = schema.show(word) end
  return table.concat(words, " or ") .. " (all that this engine computes)"
end

--- Fill stated.rope from config.json.
--- @param allowed table  the types that the family may have
function M.from_hf(lookup, allowed, stated, names, file, problems)
  local key = lookup("rope_scaling") ~= nil and "rope_scaling" or "rope_parameters"
  local scaling = lookup(key)
  if type(scaling) ~= "table" then return end
  local type_key = scaling.rope_type ~= nil and "rope_type" or "type"
  local kind = scaling[type_key]
  if kind == nil or kind == "default" then return end
  for _, name in ipairs(allowed) do
    if kind == name then
      names.rope = key
      stated.rope = { type = kind }
      for _, pair in ipairs(HF) do stated.rope[pair[1]] = scaling[pair[2]] end
      stated.rope.orig_ctx = stated.rope.orig_ctx or lookup("original_max_position_embeddings")
        or kind == "yarn" and lookup("max_position_embeddings") or nil
      return
    end
  end
  problems[#problems + 1] = schema.problem(file, key .. "." .. type_key,
    M.one_of("default", table.unpack(allowed)), schema.show(kind))
end

return M

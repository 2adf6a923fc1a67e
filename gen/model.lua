-- gen/model.lua -- what a model description may say, and what follows from it.
--
-- A checked model holds the fields below plus `types`: the format its source
-- has for every matrix (gen/formats.lua turns these and the options into the
-- plan's formats).

local quant = require "gen.quant"
local schema = require "gen.schema"
local families = require "gen.families"

local M = {}

-- The classes of matrices that a format can be chosen for.
M.classes = { "expert", "attn", "embed", "output", "router" }

local function class_fields()
  local fields = {}
  for i, class in ipairs(M.classes) do
    fields[i] = { name = class, kind = "choice", choices = quant.names,
                  default = class == "router" and "f32" or nil }
  end
  return fields
end

-- Upper bounds keep every product of these below 2^63.
M.fields = {
  { name = "family",        kind = "choice",  choices = families.names },
  { name = "n_layer",       kind = "integer", min = 1, max = 1024 },
  { name = "n_embd",        kind = "integer", min = 16, max = 65536 },
  { name = "n_head",        kind = "integer", min = 1, max = 1024 },
  { name = "n_head_kv",     kind = "integer", min = 1, max = 1024 },
  { name = "head_dim",      kind = "integer", min = 2, max = 1024 },
  { name = "n_ff",          kind = "integer", min = 1, max = 262144 },
  { name = "n_expert",      kind = "integer", min = 1, max = 1024 },
  { name = "n_expert_used", kind = "integer", min = 1, max = 64 },
  { name = "n_vocab",       kind = "integer", min = 2, max = 1 << 24 },
  { name = "n_ctx_train",   kind = "integer", min = 1, max = 1 << 24 },
  { name = "norm_eps",      kind = "number",  min = 1e-12, max = 0.1 },
  { name = "rope_theta",    kind = "number",  min = 1, max = 1e12 },
  { name = "window",        kind = "integer", min = 0, max = 1 << 24, default = 0 },
  { name = "tied",          kind = "boolean", default = false },
  { name = "weights",       kind = "table",   fields = class_fields() },
}

-- Facts that must agree with each other: { field, holds(m), want(m) }.
local RULES = {
  { "n_head_kv", function(m) return m.n_head % m.n_head_kv == 0 end,
    function(m) return ("a divisor of n_head (%d)"):format(m.n_head) end },
  { "head_dim", function(m) return m.head_dim % 2 == 0 end,
    function() return "an even number (RoPE turns pairs)" end },
  { "n_expert_used", function(m) return m.n_expert_used <= m.n_expert end,
    function(m) return ("at most n_expert (%d)"):format(m.n_expert) end },
}

--- @param stated   table   facts as a description states them
--- @param file     string  for messages
--- @param problems table   list to add problems to
--- @param names    table?  field -> the name its source uses, for messages
--- @return table model     (complete only when no problem was added)
function M.check(stated, file, problems, names)
  local before = #problems
  local m = schema.check(M.fields, stated, file, problems, "", names)
  if #problems > before then return m end
  for _, rule in ipairs(RULES) do
    local field, holds, want = rule[1], rule[2], rule[3]
    if not holds(m) then
      problems[#problems + 1] = schema.problem(file, names and names[field] or field,
        want(m), schema.show(m[field]))
    end
  end
  return m
end

--- The matrices of one layer in file order, as { role, rows, cols, class }.
function M.layer_matrices(m)
  local qd, kvd = m.n_head * m.head_dim, m.n_head_kv * m.head_dim
  return {
    { role = "q",      rows = qd,         cols = m.n_embd, class = "attn" },
    { role = "k",      rows = kvd,        cols = m.n_embd, class = "attn" },
    { role = "v",      rows = kvd,        cols = m.n_embd, class = "attn" },
    { role = "o",      rows = m.n_embd,   cols = qd,       class = "attn" },
    { role = "router", rows = m.n_expert, cols = m.n_embd, class = "router" },
    { role = "gate",   rows = m.n_ff,     cols = m.n_embd, class = "expert" },
    { role = "up",     rows = m.n_ff,     cols = m.n_embd, class = "expert" },
    { role = "down",   rows = m.n_embd,   cols = m.n_ff,   class = "expert" },
  }
end

--- The matrices outside the layers.
function M.outer_matrices(m)
  local list = { { role = "token_embd", rows = m.n_vocab, cols = m.n_embd, class = "embed" } }
  if not m.tied then
    list[2] = { role = "output", rows = m.n_vocab, cols = m.n_embd, class = "output" }
  end
  return list
end

return M

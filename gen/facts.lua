-- gen/facts.lua -- a checkpoint's own keys -> the fields of gen/model.lua.
--
-- Shared by config.json and GGUF: a family lists which key states which field
-- (gen/families/), `lookup` finds a key's value.

local schema = require "gen.schema"

local M = {}

--- @param keys   table     a family's list of { field, key, or_key?, same_as?, default?, optional? }
--- @param lookup function  key -> value or nil
--- @return table stated, table names   (field -> the key that messages name)
function M.collect(keys, lookup)
  local stated, names = {}, {}
  for _, k in ipairs(keys) do
    local value, name = lookup(k.key), k.key
    if value == nil and k.or_key then
      value = lookup(k.or_key)
      name = value ~= nil and k.or_key or name
    end
    if value == nil and k.same_as then value = lookup(k.same_as) end
    if value == nil then value = k.default end
    stated[k.field], names[k.field] = value, name
  end
  return stated, names
end

--- The keys that would change the arithmetic must be absent or harmless.
function M.check_only(list, lookup, file, problems)
  for _, rule in ipairs(list) do
    local value, harmless = lookup(rule.key), false
    local wants = {}
    for i, v in ipairs(rule.values) do
      harmless = harmless or v == value
      wants[i] = schema.show(v)
    end
    if value ~= nil and not harmless then
      local want = #wants > 0 and table.concat(wants, " or ") or "nothing"
      problems[#problems + 1] = schema.problem(file, rule.key, want .. " (all that this engine computes)",
        schema.show(value))
    end
  end
end

--- head_dim where a checkpoint leaves it out.
function M.default_head_dim(stated, names)
  local embd, head = stated.n_embd, stated.n_head
  if stated.head_dim ~= nil then return end
  if math.type(embd) == "integer" and math.type(head) == "integer" and head > 0 and embd % head == 0 then
    stated.head_dim = embd // head
  else
    names.head_dim = ("%s (or a %s that divides %s)"):format(names.head_dim, names.n_head, names.n_embd)
  end
end

return M

-- gen/emit_facts.lua -- the facts that pack compares (gen/checkpoint_facts.lua) as C initialisers.

local c = require "gen.c"
local checkpoint_facts = require "gen.checkpoint_facts"
local families = require "gen.families"

local M = {}

local function floats(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = c.f32(x) end
  return out
end

local function strings(list)
  local out = {}
  for i, text in ipairs(list) do out[i] = c.str(text) end
  return ("{ %s }"):format(table.concat(out, ", "))
end

-- Initialisers of the structs; `more` are lines of one kind's own fields.
local function fact_row(row, more)
  local parts = {}
  if #row.hf > 0 then parts[#parts + 1] = ".hf = " .. strings(row.hf) end
  if type(row.gguf) == "string" then parts[#parts + 1] = ".gguf = " .. c.str(row.gguf) end
  if type(row.gguf) == "table" and #row.gguf > 0 then parts[#parts + 1] = ".gguf = " .. strings(row.gguf) end
  table.move(more, 1, #more, #parts + 1, parts)
  return ("{ %s },"):format(table.concat(parts, ", "))
end

-- What pack compares: numbers, words, lists (whose values are an array each), keys of `only`.
--- @param m table   a checked model
--- @return table    { numbers, words, lists, only: initialisers; values: { i, n, rows }, the lists' arrays }
function M.rows(m)
  local family = families.by_name[m.family]
  local facts = { numbers = {}, words = {}, lists = {}, only = {}, values = {} }
  for i, row in ipairs(checkpoint_facts.numbers(family, m)) do
    local more = { ".value = " .. c.f32(row.value) }
    if row.less then table.insert(more, 1, ".less = " .. c.str(row.less)) end
    if row.none then more[#more + 1] = ".none = 1" end
    facts.numbers[i] = fact_row(row, more)
  end
  for i, row in ipairs(checkpoint_facts.words(family, m)) do
    local more = { ".want = " .. strings(row.want) }
    if row.absent then more[2] = ".absent = " .. c.str(row.absent) end
    facts.words[i] = fact_row(row, more)
  end
  for i, row in ipairs(checkpoint_facts.lists(family, m)) do
    local n = #row.list
    facts.lists[i] = fact_row(row, { n > 0 and (".value = list_%d"):format(i) or ".value = 0", (".n = %d"):format(n) })
    if n > 0 then facts.values[#facts.values + 1] = { i = i, n = n, rows = c.rows(floats(row.list)) } end
  end
  for i, row in ipairs(checkpoint_facts.only(family, m)) do
    facts.only[i] = fact_row(row, #row.want > 0 and { ".want = " .. strings(row.want) } or {})
  end
  facts.n_number, facts.n_word, facts.n_list = #facts.numbers, #facts.words, #facts.lists
  facts.n_only = #facts.only
  return facts
end

return M

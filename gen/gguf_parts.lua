-- gen/gguf_parts.lua -- a GGUF file that may be the first of several.
--
-- NAME-00001-of-0000N.gguf holds the metadata; the others hold tensors and keys
-- that only number them.  The rules are those of runtime/file/gguf.c.

local gguf = require "gen.gguf"
local schema = require "gen.schema"
local types = require "gen.gguf_types"

local M = {}

-- A key of the split, of the type it must have; `absent` where there is none.
local function split_key(found, key, kind, absent, complain)
  local v = found.kv[key]
  if v == nil then return absent end
  if found.kinds[key] == kind then return v end
  complain(key, types.value[kind].name, types.value[found.kinds[key]].name)
end

-- The part says that it is part `i` of `n`.
local function check_part(found, i, n, complain)
  local count = split_key(found, "split.count", types.U16, 1, complain)
  local no = split_key(found, "split.no", types.U16, 0, complain)
  if not (count and no) then return false end
  if count ~= n then complain("split.count", ("%d"):format(n), ("%d"):format(count)) return false end
  if no ~= i then complain("split.no", ("%d"):format(i), ("%d"):format(no)) return false end
  return true
end

local function join(first, part, complain)
  for _, t in ipairs(part.tensors) do
    if first.by_name[t.name] then complain(t.name, "the tensor once", "it twice") return false end
    first.tensors[#first.tensors + 1], first.by_name[t.name] = t, t
  end
  return true
end

-- Part i (from 0) of the file joins the first one.
local function add_part(first, stem, i, n, sibling, problems)
  local name = ("%s-%05d-of-%05d.gguf"):format(stem, i + 1, n)
  local function complain(field, want, got)
    problems[#problems + 1] = schema.problem(name, field, want, got)
  end
  local read, size, why = sibling(name)
  if not read then complain("part", "a readable file", why or "none") return false end
  local part = gguf.parse(read, size, name, problems)
  return part and check_part(part, i, n, complain) and join(first, part, complain)
end

--- @param sibling function?  name of a file beside this one -> read, size, why not
--- As gguf.parse, with the tensors of every part.
function M.parse(read, size, file, problems, sibling)
  local before = #problems
  local first = gguf.parse(read, size, file, problems)
  if not first or #problems > before then return first end
  local function complain(field, want, got)
    problems[#problems + 1] = schema.problem(file, field, want, got)
  end
  local n = split_key(first, "split.count", types.U16, 1, complain)
  if not n then return nil elseif n < 2 then return first end
  if not check_part(first, 0, n, complain) then return nil end
  local stem = file:match(("^(.*)%%-00001%%-of%%-%05d%%.gguf$"):format(n))
  if not stem then
    complain("name", ("NAME-00001-of-%05d.gguf (the first of %d parts)"):format(n, n), file)
    return nil
  end
  for i = 1, n - 1 do
    if not add_part(first, stem, i, n, sibling, problems) then return nil end
  end
  local total = split_key(first, "split.tensors.count", types.I32, #first.tensors, complain)
  if total and total ~= #first.tensors then
    complain("split.tensors.count", ("%d (of all parts)"):format(#first.tensors), ("%d"):format(total))
  end
  return first
end

return M

-- gen/gguf_model.lua -- a GGUF file's metadata -> a checked model.
--
-- Formats are the file's own, tensor by tensor; a type without a kernel is
-- refused by name.  Tensors that the family does not know are refused too: they
-- would change the arithmetic.

local facts = require "gen.facts"
local families = require "gen.families"
local gguf_parts = require "gen.gguf_parts"
local gguf_vocab = require "gen.gguf_vocab"
local model = require "gen.model"
local schema = require "gen.schema"
local types = require "gen.gguf_types"

local M = {}

-- Problems of many tensors as one: the first tensor and how many more.
local function grouping(file, problems)
  local groups, by_key = {}, {}
  local function add(key, field, want, got)
    local g = by_key[key]
    if not g then
      g = { field = field, want = want, got = got, more = 0 }
      by_key[key], groups[#groups + 1] = g, g
    else
      g.more = g.more + 1
    end
  end
  local function flush()
    for _, g in ipairs(groups) do
      local got = g.more > 0 and ("%s (and %d more alike)"):format(g.got, g.more) or g.got
      problems[#problems + 1] = schema.problem(file, g.field:gsub("[%c\x7f-\xff]", "?"), g.want, got)
    end
  end
  return add, flush
end

local function find_family(kv, file, problems)
  local known, arch = {}, kv["general.architecture"]
  for i, family in ipairs(families.list) do
    if family.gguf.arch == arch then return family end
    known[i] = family.gguf.arch
  end
  problems[#problems + 1] = schema.problem(file, "general.architecture", table.concat(known, " or "),
    schema.show(arch))
end

local function check_agreement(kv, arch, stated, file, problems)
  local function agree(key, value, why)
    local found = kv[key]
    if type(found) == "table" then found = found.n end
    if found ~= nil and value ~= nil and found ~= value then
      problems[#problems + 1] = schema.problem(file, key, ("%s (%s)"):format(schema.show(value), why),
        schema.show(found))
    end
  end
  agree(arch .. ".rope.dimension_count", stated.head_dim, "the whole head turns")
  agree(arch .. ".attention.value_length", stated.head_dim, "as the keys")
  agree(arch .. ".vocab_size", stated.n_vocab, "rows of token_embd.weight")
  agree("tokenizer.ggml.tokens", stated.n_vocab, "rows of token_embd.weight")
end

local function shape_text(dims)
  local parts = {}
  for i, d in ipairs(dims) do parts[i] = ("%d"):format(d) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

-- GGUF stores the innermost dimension first, and may leave outer ones of 1.
local function same_shape(dims, want)
  for i = 1, math.max(#dims, #want) do
    if (dims[i] or 1) ~= (want[i] or 1) then return false end
  end
  return true
end

-- Where one role's tensor of one layer is: the names to look for, all of them
-- needed; a name with %E stands for one tensor an expert.
local function names_for(pattern, layer, n_expert)
  local name = pattern:gsub("%%L", tostring(layer))
  if not name:find("%%E") then return { name } end
  local names = {}
  for e = 1, n_expert do names[e] = (name:gsub("%%E", tostring(e - 1))) end
  return names
end

local function present(names, by_name)
  for _, name in ipairs(names) do
    if by_name[name] then return true end
  end
  return false
end

-- The names of the first alternative of which anything is there, else of the first.
local function choose_names(source, layer, m, by_name)
  for _, pattern in ipairs(source.gguf) do
    local names = names_for(pattern, layer, m.n_expert)
    if present(names, by_name) then return names end
  end
  return names_for(source.gguf[1], layer, m.n_expert)
end

-- Check one role of one layer; returns the engine's format of it.
local function check_role(source, layer, mat, m, look)
  local names, fmt = choose_names(source, layer, m, look.by_name), nil
  local want = mat and { mat.cols, mat.rows } or { m.n_embd }
  if mat and mat.class == "expert" and #names == 1 then want[3] = m.n_expert end
  for _, name in ipairs(names) do
    local t = look.by_name[name]
    look.claimed[name] = true
    if not t then
      look.add(source.role .. "absent", name, "a tensor of shape " .. shape_text(want), "nothing")
    else
      local kind = types.tensor[t.kind]
      if not same_shape(t.dims, want) then
        look.add(source.role .. "shape", name .. ": dimensions", shape_text(want), shape_text(t.dims))
      elseif not kind.fmt then
        look.add(source.role .. kind.name, name .. ": type", types.SUPPORTED,
          ("%s (id %d)"):format(kind.name, t.kind))
      elseif not mat and kind.block > 1 then
        look.add(source.role .. kind.name, name .. ": type", "F32, F16 or BF16", kind.name)
      elseif fmt and fmt ~= kind.fmt then
        look.add(source.role .. "mixed", name .. ": type", fmt .. " as the layer's other experts", kind.fmt)
      end
      fmt = fmt or kind.fmt
    end
  end
  return fmt
end

local function report_strangers(tensors, look, family)
  for _, t in ipairs(tensors) do
    if not look.claimed[t.name] then
      look.add("stranger" .. t.name:gsub("%d+", "N"), t.name,
        ("only tensors of the %s family"):format(family.name), "this one")
    end
  end
end

-- The format of every matrix, by role and layer.
local function types_of(found, family, m, file, problems)
  local look = { by_name = found.by_name, claimed = {} }
  local flush
  look.add, flush = grouping(file, problems)
  local result, mats = { layers = {} }, {}
  for _, mat in ipairs(model.outer_matrices(m)) do mats[mat.role] = mat end
  for _, mat in ipairs(model.layer_matrices(m)) do mats[mat.role] = mat end
  for i = 1, m.n_layer do result.layers[i] = {} end
  for _, source in ipairs(family.sources) do
    local in_layers = source.gguf[1]:find("%%L")
    local absent = source.role == "OUTPUT" and m.tied
    for i = 1, in_layers and m.n_layer or absent and 0 or 1 do
      local fmt = check_role(source, i - 1, mats[source.field], m, look)
      if source.field then (in_layers and result.layers[i] or result)[source.field] = fmt end
    end
  end
  report_strangers(found.tensors, look, family)
  flush()
  return result
end

--- @param read function  n -> the first n bytes of the file
--- @param size integer   bytes of the file
--- @param file string    for messages
--- @param sibling function?  of gguf_parts.parse
--- @return table? model  (complete only when no problem was added)
function M.describe(read, size, file, problems, sibling)
  local before = #problems
  local found = gguf_parts.parse(read, size, file, problems, sibling)
  local family = found and find_family(found.kv, file, problems)
  if not family then return nil end
  gguf_vocab.check(found, function(field, want, got)
    problems[#problems + 1] = schema.problem(file, field, want, got)
  end)
  local kv, arch = found.kv, family.gguf.arch
  local function lookup(key) return kv[arch .. "." .. key] end

  local stated, names = facts.collect(family.gguf.keys, lookup)
  for _, k in ipairs(family.gguf.keys) do names[k.field] = arch .. "." .. k.key end
  facts.default_head_dim(stated, names)
  facts.check_only(family.gguf.only, lookup, file, problems)
  local embd = found.by_name["token_embd.weight"]
  stated.n_vocab, names.n_vocab = embd and embd.dims[2], "token_embd.weight: dimensions"
  stated.tied = not found.by_name["output.weight"]
  stated.family = family.name
  -- Stands in for the tensors' own types, which types_of() finds.
  stated.weights = { expert = "f32", attn = "f32", embed = "f32", output = "f32" }
  check_agreement(kv, arch, stated, file, problems)
  local m = model.check(stated, file, problems, names)
  if #problems > before then return nil end
  m.types, m.weights = types_of(found, family, m, file, problems), nil
  return m
end

return M

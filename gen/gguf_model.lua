-- gen/gguf_model.lua -- a GGUF file's metadata -> a checked model.
--
-- Formats are the file's own, tensor by tensor; a type without a kernel is
-- refused by name.  Tensors that the family does not know are refused too: they
-- would change the arithmetic.

local facts = require "gen.facts"
local families = require "gen.families"
local gguf_parts = require "gen.gguf_parts"
local gguf_rope = require "gen.gguf_rope"
local gguf_vocab = require "gen.gguf_vocab"
local model = require "gen.model"
local schema = require "gen.schema"
local shape = require "gen.shape"
local sources = require "gen.checkpoint"
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
  local function get(key) return kv[arch .. "." .. key] end
  for _, family in ipairs(families.list) do
    local of = family.gguf
    if of and of.arch == arch and (not of.when or of.when(get)) then return family end
    if of and known[#known] ~= of.arch then known[#known + 1] = of.arch end
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
  if not stated.kv_lora then
    agree(arch .. ".rope.dimension_count", stated.rope_dim or stated.head_dim, "the whole head turns")
    agree(arch .. ".attention.value_length", stated.head_dim, "as the keys")
  end
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

-- Where one tensor of one layer is: the names to look for, all of them needed; a name
-- with %E stands for one tensor an expert.
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

-- The alternative of which anything is there, else the first.
local function choose(source, layer, m, by_name)
  for _, alternative in ipairs(source.gguf) do
    local a = sources.alternative(alternative, m)
    local names = names_for(a.name, layer, m.n_expert)
    if present(names, by_name) then return a, names end
  end
  local a = sources.alternative(source.gguf[1], m)
  return a, names_for(a.name, layer, m.n_expert)
end

-- The dimensions of an item's tensor, GGUF's innermost first.
local function dims_of(item, a, names, m)
  local rows = item.rows or item.n
  local each = item.part == "expert" and #names == 1 and m.n_expert or nil
  local want = item.rows and { item.cols, rows } or { rows }
  if a.slice then
    local groups = rows // a.slice.count
    want[#want] = a.slice.group * groups
    if item.rows and a.slice.transpose then want[1] = a.slice.cols end
  elseif item.blocks then
    want = { item.cols, rows // item.blocks, item.blocks }
  end
  want[#want + 1] = each
  return want
end

-- Check one tensor of one layer; returns the engine's format of it.
local function check_item(item, layer, m, look)
  local a, names = choose(look.sources[item.source], layer, m, look.by_name)
  local want, fmt = dims_of(item, a, names, m), nil
  for _, name in ipairs(names) do
    local t = look.by_name[name]
    look.claimed[name] = true
    if not t then
      look.add(item.source .. "absent", name, "a tensor of shape " .. shape_text(want), "nothing")
    else
      local kind = types.tensor[t.kind]
      if not same_shape(t.dims, want) then
        look.add(item.source .. "shape", name .. ": dimensions", shape_text(want), shape_text(t.dims))
      elseif not kind.fmt then
        look.add(item.source .. kind.name, name .. ": type", types.SUPPORTED,
          ("%s (id %d)"):format(kind.name, t.kind))
      elseif item.n and kind.block > 1 then
        look.add(item.source .. kind.name, name .. ": type", "F32, F16 or BF16", kind.name)
      elseif fmt and fmt ~= kind.fmt then
        look.add(item.source .. "mixed", name .. ": type", fmt .. " as the layer's other experts", kind.fmt)
      end
      fmt = fmt or kind.fmt
    end
  end
  return fmt
end

-- Layers past the last are for predicting several tokens at once, which this engine does not.
local function report_strangers(tensors, look, family, n_layer)
  for _, t in ipairs(tensors) do
    local layer = tonumber(t.name:match("^blk%.(%d+)%."))
    local aside = layer and layer >= n_layer or look.rope and gguf_rope.is_factors(t.name)
    if not look.claimed[t.name] and not aside then
      look.add("stranger" .. t.name:gsub("%d+", "N"), t.name,
        ("only tensors of the %s family"):format(family.name), "this one")
    end
  end
end

-- The format of every matrix, by role and layer.
local function types_of(found, family, m, file, problems)
  local look = { by_name = found.by_name, claimed = {}, sources = family.sources, rope = m.rope }
  local flush
  look.add, flush = grouping(file, problems)
  local result = { layers = {} }
  local function check_all(items, layer, into)
    for _, item in ipairs(items) do
      local fmt = check_item(item, layer, m, look)
      if item.rows then into[item.role] = fmt end
      if item.bias then check_item({ source = item.bias, n = item.rows, part = item.part }, layer, m, look) end
    end
  end
  local before, after = shape.outer_items(m)
  check_all(before, -1, result)
  for i = 1, m.n_layer do
    result.layers[i] = {}
    check_all(shape.layer_items(m, i), i - 1, result.layers[i])
  end
  check_all(after, -1, result)
  report_strangers(found.tensors, look, family, m.n_layer)
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
  gguf_rope.read(found, lookup, family.gguf.rope, stated, names, file, problems)
  if family.gguf.derive then
    family.gguf.derive(lookup, stated, function(name) return found.by_name[name] ~= nil end)
  end
  if family.mixer == "IG_MIXER_GQA" then facts.default_head_dim(stated, names) end
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

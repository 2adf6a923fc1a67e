-- gen/gguf.lua -- the metadata of a GGUF file: header, key/values, tensor infos.
--
-- Everything in the file is hostile: no count, length, dimension or offset is
-- used before it is known to fit what is left of the file.  Reads a growing
-- prefix, never the tensor data; where that is, each tensor says (`read`, `at`).
-- Stops at the first lie it cannot read past; tensors whose infos lie are all reported.

local num = require "gen.num"
local schema = require "gen.schema"
local tensor_infos = require "gen.gguf_tensors"
local types = require "gen.gguf_types"

local M = {}

local FIRST_PREFIX = 1 << 20
-- The bounds of runtime/file/gguf.c: both readers give the same verdict.
local META_MOST, KV_MOST, KEY_MOST, NAME_MOST = 1 << 30, 1 << 16, 65535, 64
local u64_text = tensor_infos.u64_text

-- A lie ends the reading: thrown here, caught in M.parse.
local function refuse(field, want, got)
  error({ field = field, want = want, got = got })
end

-- Make sure that `bytes` from c.at on are in c.text.
local function need(c, bytes, field)
  local left = c.size - (c.at - 1)
  if bytes < 0 or bytes > left then
    refuse(field, ("at most the %d bytes left of the file"):format(left), u64_text(bytes))
  end
  if c.at - 1 + bytes <= #c.text then return end
  if c.at - 1 + bytes > META_MOST then
    refuse(field, ("metadata of at most %d bytes"):format(META_MOST), "more")
  end
  local want = math.min(c.size, math.max(c.at - 1 + bytes, 2 * #c.text, FIRST_PREFIX))
  c.text = c.read(want)
  if #c.text < want then
    refuse(field, ("a file of %d bytes"):format(c.size), ("%d that can be read"):format(#c.text))
  end
end

local function number(c, pack, bytes, field)
  need(c, bytes, field)
  local v = string.unpack(pack, c.text, c.at)
  c.at = c.at + bytes
  return v
end

local function u32(c, field) return number(c, "<I4", 4, field) end
local function u64(c, field) return number(c, "<I8", 8, field) end

local function text_of(c, field)
  local bytes = u64(c, field)
  need(c, bytes, field)
  c.at = c.at + bytes
  return c.text:sub(c.at - bytes, c.at - 1)
end

-- How many items of at least `least` bytes follow.
local function count(c, least, field, limit)
  local n = u64(c, field)
  local most = math.min((c.size - (c.at - 1)) // least, limit or math.maxinteger)
  if n < 0 or n > most then
    refuse(field, ("at most %d (what the file has room for)"):format(most), u64_text(n))
  end
  return n
end

-- Vocabularies have 150,000 strings, so this loop reads without calls.
local function skip_strings(c, n, field)
  local unpack = string.unpack
  for i = 1, n do
    if c.at + 7 > #c.text then need(c, 8, field) end
    local bytes, from = unpack("<I8", c.text, c.at)
    c.at = from
    if bytes < 0 or bytes > #c.text - (from - 1) then need(c, bytes, ("%s[%d]"):format(field, i - 1)) end
    c.at = from + bytes
  end
end

local function array(c, field)
  local kind = u32(c, field)
  local element = types.value[kind]
  if not element or kind == types.ARRAY then
    refuse(field, "an array of numbers, booleans or strings", ("element type %d"):format(kind))
  end
  local n = count(c, element.bytes or 8, field)
  local at = c.at
  if kind == types.STRING then
    skip_strings(c, n, field)
  else
    c.at = c.at + n * element.bytes
  end
  return { element = element.name, n = n, at = at }
end

local function value(c, kind, field)
  if kind == types.ARRAY then return array(c, field) end
  if kind == types.STRING then return text_of(c, field) end
  local v = number(c, types.value[kind].pack, types.value[kind].bytes, field)
  if kind == types.U64 and v < 0 then return v + 2.0 ^ 64 end -- Lua's integers end at 2^63
  if kind ~= types.BOOL then return v end
  if v > 1 then refuse(field, "a boolean of 0 or 1", ("%d"):format(v)) end
  return v == 1
end

local function read_header(c)
  need(c, 8, "header")
  local magic = c.text:sub(1, 4)
  if magic ~= "GGUF" then refuse("magic", '"GGUF"', schema.show(magic)) end
  c.at = 5
  local version = u32(c, "version")
  if version ~= 2 and version ~= 3 then
    refuse("version", version & 0xffff == 0 and "2 or 3 in little-endian order" or "2 or 3", ("%d"):format(version))
  end
end

local function read_values(c, n)
  local kv, kinds = {}, {}
  for i = 1, n do
    local key = text_of(c, ("key %d"):format(i - 1))
    if key == "" or #key > KEY_MOST then
      refuse(("key %d"):format(i - 1), ("a name of 1 to %d bytes"):format(KEY_MOST), ("%d"):format(#key))
    end
    if kv[key] ~= nil then refuse(key, "the key once", "it twice") end
    local kind = u32(c, key)
    if not types.value[kind] then refuse(key, "a value type from 0 to 12", ("%d"):format(kind)) end
    kv[key], kinds[key] = value(c, kind, key), kind
  end
  return kv, kinds
end

local function read_info(c, i)
  local name = text_of(c, ("tensor %d: name"):format(i - 1))
  if name == "" or #name > NAME_MOST or name:find("\0", 1, true) then
    refuse(("tensor %d: name"):format(i - 1), ("1 to %d bytes without a NUL"):format(NAME_MOST), ("%d"):format(#name))
  end
  local t = { name = name, dims = {} }
  local n_dims = u32(c, name .. ": dimensions")
  if n_dims > 4 then refuse(name .. ": dimensions", "at most 4", ("%d"):format(n_dims)) end
  for d = 1, n_dims do t.dims[d] = u64(c, name .. ": dimensions") end
  t.kind = u32(c, name .. ": type")
  t.offset = u64(c, name .. ": offset")
  return t
end

local function alignment_of(kv, kinds)
  local alignment = kv["general.alignment"]
  if alignment == nil then return 32 end
  if kinds["general.alignment"] ~= types.U32 or alignment == 0 or alignment & (alignment - 1) ~= 0 then
    refuse("general.alignment", "a u32 that is a power of two",
      types.value[kinds["general.alignment"]].name .. " " .. schema.show(alignment))
  end
  return alignment
end

local function read_file(c, complain)
  read_header(c)
  local n_tensor = count(c, 24, "tensor count")   -- a name, dimensions, type and offset
  local n_kv = count(c, 13, "metadata count", KV_MOST)  -- a key, a type and a byte
  local kv, kinds = read_values(c, n_kv)
  local alignment = alignment_of(kv, kinds)
  local tensors, by_name = {}, {}
  for i = 1, n_tensor do
    local t = read_info(c, i)
    if by_name[t.name] then refuse(t.name, "the tensor once", "it twice") end
    tensors[i], by_name[t.name] = t, t
  end
  local data = num.align_up(c.at - 1, alignment)
  for _, t in ipairs(tensors) do t.read, t.at = c.read, data + t.offset end
  tensor_infos.check(tensors, alignment, math.max(c.size - data, 0), complain)
  return { kv = kv, kinds = kinds, tensors = tensors, by_name = by_name, text = c.text }
end

--- @param read function  n, from? -> n bytes of the file at from (0), fewer where it ends
--- @param size integer   bytes of the file
--- @param file string    for messages
--- An array is { element, n, at }: type name, count, where its first element is in `text`.
--- @return table? { kv, kinds, tensors, by_name, text }   (nil, or incomplete, when problems were added)
function M.parse(read, size, file, problems)
  local function complain(field, want, got)
    field = field:gsub("[%c\x7f-\xff]", "?"):sub(1, 120)   -- names come from the file,
    want = want:gsub("[%c\x7f-\xff]", "?")                  -- those of neighbours too
    problems[#problems + 1] = schema.problem(file, field, want, got)
  end
  local c = { read = read, size = size, text = "", at = 1 }
  local ok, result = pcall(read_file, c, complain)
  if ok then return result end
  if type(result) ~= "table" then error(result, 0) end
  complain(result.field, result.want, result.got)
  return nil
end

return M

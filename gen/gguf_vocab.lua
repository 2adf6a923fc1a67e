-- gen/gguf_vocab.lua -- what a GGUF file's tokenizer keys say about each other.
--
-- The runtime compiles the vocabulary when it packs; here only what would make
-- that fail is looked for, so that a bad file is refused before anything is built.

local types = require "gen.gguf_types"

local M = {}

local KEY = "tokenizer.ggml."
local IDS = { "bos", "eos", "eot", "unknown", "padding" }
local NONE = 0xffffffff   -- writers' word for "no such token"
local BYTE = 6            -- the last token type: one byte, spelled <0x0A>

local function check_ids(found, n, complain)
  for _, id in ipairs(IDS) do
    local key = KEY .. id .. "_token_id"
    local v, kind = found.kv[key], found.kinds[key]
    if v ~= nil and kind ~= types.U32 and kind ~= types.I32 then
      complain(key, "u32", types.value[kind].name)
    elseif v ~= nil and v & NONE ~= NONE and (v < 0 or v >= n) then
      complain(key, ("a token id below %d"):format(n), ("%d"):format(v))
    end
  end
end

local FLAGS = { "add_bos_token", "add_eos_token", "add_space_prefix", "remove_extra_whitespaces" }

local function check_flags(found, complain)
  for _, flag in ipairs(FLAGS) do
    local kind = found.kinds[KEY .. flag]
    if kind and kind ~= types.BOOL then complain(KEY .. flag, "bool", types.value[kind].name) end
  end
end

-- An array beside the tokens, or nil.
local function column(found, name, element, n, complain)
  local array = found.kv[KEY .. name]
  if array == nil then return nil end
  if type(array) ~= "table" or array.element ~= element then
    complain(KEY .. name, "an array of " .. element, type(array) == "table" and "an array of " .. array.element
      or types.value[found.kinds[KEY .. name]].name)
  elseif array.n ~= n then
    complain(KEY .. name, ("%d elements (one a token)"):format(n), ("%d"):format(array.n))
  else
    return array
  end
end

-- Vocabularies have 150,000 tokens: one pass, no calls but unpack.
local function check_types(found, tokens, kinds, complain)
  local unpack, text, at, kind_at = string.unpack, found.text, tokens.at, kinds.at
  for i = 1, tokens.n do
    local bytes, from = unpack("<I8", text, at)
    at = from + bytes
    local kind = unpack("<i4", text, kind_at)
    if kind < 1 or kind > BYTE then
      complain(("%stoken_type[%d]"):format(KEY, i - 1), "1 to 6", ("%d"):format(kind))
      return
    elseif kind == BYTE then
      local token = text:sub(from, at - 1)
      if not token:find("^<0x%x%x>$") then
        complain(("%stokens[%d]"):format(KEY, i - 1), "a byte token from <0x00> to <0xFF>", ("%q"):format(token))
        return
      end
    end
    kind_at = kind_at + 4
  end
end

-- SentencePiece's rules: bytes of a trie, its units of 4 bytes, then replacements that each end
-- with NUL.  A unit with bit 31 says where a replacement starts.
local function check_charsmap(found, complain)
  local key = KEY .. "precompiled_charsmap"
  local map = found.kv[key]
  if map == nil then return end
  if type(map) ~= "table" or map.element ~= "u8" and map.element ~= "i8" then
    complain(key, "an array of u8", type(map) == "table" and "an array of " .. map.element
      or types.value[found.kinds[key]].name)
    return
  end
  if map.n == 0 then return end
  local text, at = found.text, map.at
  local trie = map.n < 4 and 0 or string.unpack("<I4", text, at)
  if trie == 0 or trie % 4 ~= 0 or trie > map.n - 4 then
    complain(key, ("a trie of 4-byte units in its %d bytes"):format(map.n), ("one of %d bytes"):format(trie))
    return
  end
  local to = text:sub(at + 4 + trie, at + map.n - 1)
  if to:byte(-1) ~= 0 or not utf8.len(to) then
    complain(key, "replacements in UTF-8 that end with NUL", "others")
    return
  end
  for one in to:gmatch("[^\0]+") do
    if #one > 1024 then
      complain(key, "replacements of at most 1024 bytes", "more")
      return
    end
  end
  for i = 0, trie // 4 - 1 do
    local unit = string.unpack("<I4", text, at + 4 + 4 * i)
    local from = unit & 0x7fffffff
    if unit ~= from and (from >= #to or to:byte(from + 1) & 0xc0 == 0x80) then
      complain(key, ("in unit %d the start of a replacement below %d"):format(i, #to), ("%d"):format(from))
      return
    end
  end
end

--- @param found    table     of gguf.parse
--- @param complain function  (field, want, got)
function M.check(found, complain)
  local tokens = found.kv[KEY .. "tokens"]
  if tokens == nil then return end
  if type(tokens) ~= "table" or tokens.element ~= "string" then
    complain(KEY .. "tokens", "an array of string", type(tokens) == "table" and "an array of " .. tokens.element
      or types.value[found.kinds[KEY .. "tokens"]].name)
    return
  end
  check_ids(found, tokens.n, complain)
  check_flags(found, complain)
  check_charsmap(found, complain)
  column(found, "scores", "f32", tokens.n, complain)
  local kinds = column(found, "token_type", "i32", tokens.n, complain)
  if kinds then check_types(found, tokens, kinds, complain) end
end

return M

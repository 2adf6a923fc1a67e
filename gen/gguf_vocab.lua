-- gen/gguf_vocab.lua -- what a GGUF file's tokenizer keys say about each other.
--
-- The runtime compiles the vocabulary when it packs; here only what would make
-- that fail is looked for, so that a bad file is refused before anything is built.

local types = require "gen.gguf_types"

local M = {}

local KEY = "tokenizer.ggml."
local IDS = { "bos", "eos", "eot", "unknown", "padding" }
local NONE = 0xffffffff   -- writers' word for "no such token"
local BYTE = 6            -- the token type of one byte, spelled <0x0A>

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
local function check_bytes(found, tokens, kinds, complain)
  local unpack, text, at, kind_at = string.unpack, found.text, tokens.at, kinds.at
  for i = 1, tokens.n do
    local bytes, from = unpack("<I8", text, at)
    at = from + bytes
    if unpack("<i4", text, kind_at) == BYTE then
      local token = text:sub(from, at - 1)
      if not token:find("^<0x%x%x>$") then
        complain(("%stokens[%d]"):format(KEY, i - 1), "a byte token from <0x00> to <0xFF>", ("%q"):format(token))
        return
      end
    end
    kind_at = kind_at + 4
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
  column(found, "scores", "f32", tokens.n, complain)
  local kinds = column(found, "token_type", "i32", tokens.n, complain)
  if kinds then check_bytes(found, tokens, kinds, complain) end
end

return M

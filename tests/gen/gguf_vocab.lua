-- GGUF: files of several parts, and vocabularies.

local lu = require "luaunit"
local file = require "gguf_file"
local gguf_model = require "gen.gguf_model"

local eq = lu.assertEquals
local str, u32, u64, mixtral, encode = file.str, file.u32, file.u64, file.mixtral, file.encode
local describe, why, set = file.describe, file.why, file.set
local T = {}

-- A file's tensors over n parts, the keys in the first; `change(part, i)` may lie.
local function parts_of(f, n, change)
  local texts, each = {}, (#f.tensors + n - 1) // n
  for i = 0, n - 1 do
    local part = { kv = i == 0 and f.kv or {}, tensors = table.move(f.tensors, i * each + 1, (i + 1) * each, 1, {}) }
    set(part, "split.no", 2, string.pack("<I2", i))
    set(part, "split.count", 2, string.pack("<I2", n))
    if i == 0 then set(part, "split.tensors.count", 5, u32(#f.tensors)) end
    if change then change(part, i) end
    texts[("m-%05d-of-%05d.gguf"):format(i + 1, n)] = (encode(part))
  end
  return texts
end

local function describe_parts(texts, first)
  local problems = {}
  local function sibling(name)
    local text = texts[name]
    if not text then return nil, nil, "no such file" end
    return function(n) return text:sub(1, n) end, #text
  end
  local read, size = sibling(first or "m-00001-of-00003.gguf")
  local m = gguf_model.describe(read, size, first or "m-00001-of-00003.gguf", problems, sibling)
  return m, table.concat(problems, "\n")
end

function T.test_split_files()
  local m, problem = describe_parts(parts_of(mixtral(), 3))
  eq(problem, "")
  eq(m.types.layers[2].down, "q4_0")
  local function lie(at, key, kind, value)
    return select(2, describe_parts(parts_of(mixtral(), 3, function(part, i)
      if i == at then set(part, key, kind, value) end
    end)))
  end
  eq(lie(0, "split.count", 4, u32(3)), "m-00001-of-00003.gguf: split.count: want u16, got u32")
  eq(lie(0, "split.no", 2, "\1\0"), "m-00001-of-00003.gguf: split.no: want 0, got 1")
  eq(lie(0, "split.count", 2, "\2\0"),
    "m-00001-of-00003.gguf: name: want NAME-00001-of-00002.gguf (the first of 2 parts), got m-00001-of-00003.gguf")
  eq(lie(2, "split.no", 2, "\1\0"), "m-00003-of-00003.gguf: split.no: want 2, got 1")
  eq(lie(1, "split.count", 2, "\4\0"), "m-00002-of-00003.gguf: split.count: want 3, got 4")
  eq(lie(0, "split.tensors.count", 5, u32(22)),
    "m-00001-of-00003.gguf: split.tensors.count: want 23 (of all parts), got 22")
  local texts = parts_of(mixtral(), 3)
  texts["m-00003-of-00003.gguf"] = nil
  eq(select(2, describe_parts(texts)), "m-00003-of-00003.gguf: part: want a readable file, got no such file")
  texts["m-00003-of-00003.gguf"] = texts["m-00002-of-00003.gguf"]
  eq(select(2, describe_parts(texts)), "m-00003-of-00003.gguf: split.no: want 2, got 1")
  eq(select(2, describe_parts(texts, "m-00002-of-00003.gguf")), "m-00002-of-00003.gguf: split.no: want 0, got 1")
  eq(select(2, describe_parts(parts_of(mixtral(), 3, function(part, i)
    if i == 2 then part.tensors[1].name = "token_embd.weight" end
  end))), "m-00003-of-00003.gguf: token_embd.weight: want the tensor once, got it twice")
end

local function texts_kv(key, list)
  local parts = {}
  for i, s in ipairs(list) do parts[i] = str(s) end
  return { key, 9, u32(8) .. u64(#list) .. table.concat(parts) }
end

function T.test_vocabulary()
  local function with(name, kind, value, token)
    local f, tokens = mixtral(), {}
    for i = 1, 40 do tokens[i] = "t" .. i end
    tokens[7] = token or "<0x0A>"
    f.kv[#f.kv + 1] = texts_kv("tokenizer.ggml.tokens", tokens)
    set(f, "tokenizer.ggml.token_type", 9, u32(5) .. u64(40) .. (u32(1)):rep(6) .. u32(6) .. (u32(1)):rep(33))
    if name then set(f, "tokenizer.ggml." .. name, kind, value) end
    return why(f)
  end
  local byte = "m.gguf: tokenizer.ggml.tokens[6]: want a byte token from <0x00> to <0xFF>, got "
  eq(with(), "")
  eq(with(nil, nil, nil, "<0x-1>"), byte .. '"<0x-1>"')
  eq(with(nil, nil, nil, "<0x100>"), byte .. '"<0x100>"')
  eq(with("bos_token_id", 4, u32(39)), "")
  eq(with("padding_token_id", 4, string.pack("<i4", -1)), "")
  eq(with("eos_token_id", 5, string.pack("<i4", -1)), "")
  eq(with("eos_token_id", 4, u32(40)), "m.gguf: tokenizer.ggml.eos_token_id: want a token id below 40, got 40")
  eq(with("eos_token_id", 5, string.pack("<i4", -2)),
    "m.gguf: tokenizer.ggml.eos_token_id: want a token id below 40, got -2")
  eq(with("eos_token_id", 8, str("1")), "m.gguf: tokenizer.ggml.eos_token_id: want u32, got string")
  eq(with("add_space_prefix", 7, "\0"), "")
  eq(with("add_space_prefix", 4, u32(0)), "m.gguf: tokenizer.ggml.add_space_prefix: want bool, got u32")
  eq(with("remove_extra_whitespaces", 4, u32(0)), "m.gguf: tokenizer.ggml.remove_extra_whitespaces: want bool, got u32")
  local map = "m.gguf: tokenizer.ggml.precompiled_charsmap: want "
  local function charsmap(bytes, element)
    return with("precompiled_charsmap", 9, u32(element or 0) .. u64(#bytes) .. bytes)
  end
  local leaf = 0x80000000
  eq(charsmap(""), "")
  eq(charsmap(u32(8) .. u32(0) .. u32(leaf + 3) .. "ab\0é\0", 1), "")
  eq(with("precompiled_charsmap", 4, u32(0)), map .. "an array of u8, got u32")
  eq(with("precompiled_charsmap", 9, u32(4) .. u64(1) .. u32(0)), map .. "an array of u8, got an array of u32")
  eq(charsmap("\4\0\0"), map .. "a trie of 4-byte units in its 3 bytes, got one of 0 bytes")
  eq(charsmap(u32(6) .. ("\0"):rep(7)), map .. "a trie of 4-byte units in its 11 bytes, got one of 6 bytes")
  eq(charsmap(u32(12) .. ("\0"):rep(11)), map .. "a trie of 4-byte units in its 15 bytes, got one of 12 bytes")
  eq(charsmap(u32(4) .. u32(0) .. "ab"), map .. "replacements in UTF-8 that end with NUL, got others")
  eq(charsmap(u32(4) .. u32(0) .. "\xe9\0"), map .. "replacements in UTF-8 that end with NUL, got others")
  eq(charsmap(u32(4) .. u32(0) .. ("a"):rep(1025) .. "\0"), map .. "replacements of at most 1024 bytes, got more")
  eq(charsmap(u32(4) .. u32(leaf + 3) .. "ab\0"), map .. "in unit 0 the start of a replacement below 3, got 3")
  eq(charsmap(u32(4) .. u32(leaf + 1) .. "é\0"), map .. "in unit 0 the start of a replacement below 3, got 1")
  eq(with("scores", 9, u32(6) .. u64(1) .. u32(0)),
    "m.gguf: tokenizer.ggml.scores: want 40 elements (one a token), got 1")
  eq(with("token_type", 9, u32(6) .. u64(40) .. (u32(1)):rep(40)),
    "m.gguf: tokenizer.ggml.token_type: want an array of i32, got an array of f32")
end

-- Work in proportion to the tokens; bench/vocab.sh has the seconds of 150,000.
function T.test_a_large_vocabulary_is_quick()
  local function steps(n)
    local f, tokens, count = mixtral(), {}, 0
    for i = 1, n do tokens[i] = "token" .. i end
    f.kv[#f.kv + 1] = texts_kv("tokenizer.ggml.tokens", tokens)
    set(f, "tokenizer.ggml.token_type", 9, u32(5) .. u64(n) .. (u32(1)):rep(n))
    set(f, "tokenizer.ggml.scores", 9, u32(6) .. u64(n) .. (u32(0)):rep(n))
    local text = encode(f)
    debug.sethook(function() count = count + 1 end, "", 1000) -- every 1000 instructions
    local problem = select(2, describe(text))
    debug.sethook()
    eq(problem, ("m.gguf: tokenizer.ggml.tokens: want 40 (rows of token_embd.weight), got %d"):format(n))
    return count
  end
  local few, many = steps(15000), steps(150000)
  lu.assertTrue(few > 20 and many < 11 * few, ("%d, %d"):format(few, many))
end

return T

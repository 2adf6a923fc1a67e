-- tests/gen/hostile.lua -- GGUF files that lie, for both readers.
--
-- Each case is { name, bytes, why }: `why` is "" where the file is legal, else words
-- that the message of either reader holds.  M.corpus() is tests/data/gguf_hostile.bin,
-- which tests/c/gguf_test.c reads: text records of name, why and bytes.

local M = {}

local function str(s) return string.pack("<s8", s) end
local function u32(n) return string.pack("<I4", n) end
local function u64(n) return string.pack("<i8", n) end

-- A small legal file; every field can be replaced by `with`.
local function file(with)
  local f = {
    magic = "GGUF", version = u32(3), n_tensor = u64(3), n_kv = u64(4),
    align_key = str("general.alignment"), align_type = u32(4), alignment = u32(64),
    bool_key = str("b"), bool_type = u32(7), bool = "\1",
    text_key = str("t"), text_elem = u32(8), n_text = u64(2), text1 = str("ab"), text2 = str("c"),
    number_key = str("n"), number_elem = u32(5), n_number = u64(3),
    name = str("x"), n_dim = u32(2), dim0 = u64(32), dim1 = u64(2), kind = u32(8), offset = u64(0),
    name2 = str("y"), offset2 = u64(128), zero_dim = u64(0), zero_dim2 = u64(3), zero_offset = u64(64),
    data = ("\7"):rep(144), vocab = "",
  }
  for k, v in pairs(with) do f[k] = v end
  if f.vocab ~= "" then f.n_kv = u64(4 + 5) end
  local head = f.magic .. f.version .. f.n_tensor .. f.n_kv
    .. f.align_key .. f.align_type .. f.alignment .. f.bool_key .. f.bool_type .. f.bool
    .. f.text_key .. u32(9) .. f.text_elem .. f.n_text .. f.text1 .. f.text2
    .. f.number_key .. u32(9) .. f.number_elem .. f.n_number .. u32(1) .. u32(2) .. u32(3) .. f.vocab
    .. f.name .. f.n_dim .. f.dim0 .. f.dim1 .. f.kind .. f.offset
    .. f.name2 .. u32(1) .. u64(4) .. u32(0) .. f.offset2
    .. str("z") .. u32(2) .. f.zero_dim2 .. f.zero_dim .. u32(1) .. f.zero_offset
  return head .. ("\0"):rep((-#head) % 64) .. f.data
end

-- Five keys of a tokenizer of three tokens.
local function vocab(with)
  local f = {
    tokens = u32(9) .. u32(8) .. u64(3) .. str("a") .. str("<0x0A>") .. str("<0xfe>"),
    token_type = u32(9) .. u32(5) .. u64(3) .. u32(1) .. u32(6) .. u32(6),
    scores = u32(9) .. u32(6) .. u64(3) .. u32(0) .. u32(0) .. u32(0),
    bos_token_id = u32(4) .. u32(2), eos_token_id = u32(4) .. u32(0xffffffff),
  }
  for k, v in pairs(with) do f[k] = v end
  local parts = {}
  for i, name in ipairs { "tokens", "token_type", "scores", "bos_token_id", "eos_token_id" } do
    parts[i] = str("tokenizer.ggml." .. (name == "bos_token_id" and f.bos_name or name)) .. f[name]
  end
  return { vocab = table.concat(parts) }
end

local function tokens(...)
  local parts = { ... }
  for i, t in ipairs(parts) do parts[i] = str(t) end
  return u32(9) .. u32(8) .. u64(#parts) .. table.concat(parts)
end

local HUGE = math.mininteger          -- 2^63
local CASES = {
  { "legal", {}, "" },
  { "version 2", { version = u32(2) }, "" },
  { "version 1", { version = u32(1) }, "version" },
  { "big endian", { version = "\0\0\0\3" }, "version" },
  { "magic", { magic = "GGUX" }, "magic" },
  { "tensor count 2^64 - 1", { n_tensor = u64(-1) }, "tensor count" },
  { "tensor count 2^63", { n_tensor = u64(HUGE) }, "tensor count" },
  { "tensor count of more than fit", { n_tensor = u64(1000) }, "tensor count" },
  { "metadata count 2^64 - 1", { n_kv = u64(-1) }, "metadata count" },
  { "metadata count of more than fit", { n_kv = u64(1000) }, "metadata count" },
  { "alignment 0", { alignment = u32(0) }, "general.alignment" },
  { "alignment 48", { alignment = u32(48) }, "general.alignment" },
  { "alignment 1", { alignment = u32(1) }, "" },
  { "alignment 2^31", { alignment = u32(1 << 31) }, "offset" },
  { "alignment as u64", { align_type = u32(10), alignment = u64(64) }, "general.alignment" },
  { "alignment as i32", { align_type = u32(5) }, "general.alignment" },
  { "alignment as text", { align_type = u32(8), alignment = str("64") }, "general.alignment" },
  { "no alignment: 32", { align_key = str("general.alignmenT") }, "" },
  { "empty key", { text_key = str("") }, "key" },
  { "key twice", { text_key = str("n") }, "n: want" },
  { "key of 2^64 - 1 bytes", { text_key = u64(-1) .. "t" }, "key" },
  { "bool of 2", { bool = "\2" }, "b: want" },
  { "value type 13", { bool_type = u32(13) }, "b: " },
  { "array of arrays", { text_elem = u32(9) }, "t: want an array" },
  { "array of type 13", { text_elem = u32(13) }, "t: want an array" },
  { "numbers called texts", { number_elem = u32(8) }, "n" },
  { "array of 2^61 texts", { n_text = u64(1 << 61) }, "t: want" },
  { "array of 2^64 - 1 texts", { n_text = u64(-1) }, "t: want" },
  { "array of 2^62 numbers", { n_number = u64(1 << 62) }, "n: want" },
  { "text of 2^63 bytes", { text1 = u64(HUGE) }, "t" },
  { "empty tensor name", { name = str("") }, "name" },
  { "tensor name of 65 bytes", { name = str(("x"):rep(65)) }, "name" },
  { "tensor name with a NUL", { name = str("a\0b") }, "name" },
  { "two tensors of a name", { name2 = str("x") }, "x: want" },
  { "5 dimensions", { n_dim = u32(5) }, "x: dimensions" },
  { "2^32 - 1 dimensions", { n_dim = u32(0xffffffff) }, "x: dimensions" },
  { "no element", { dim1 = u64(0) }, "" },
  { "no column", { dim0 = u64(0) }, "" },
  { "dimension of 2^63", { dim1 = u64(HUGE) }, "x: dimensions" },
  { "dimension of 2^63 beside a zero", { zero_dim2 = u64(HUGE) }, "z: dimensions" },
  { "product that wraps to 0", { dim0 = u64(1 << 32), dim1 = u64(1 << 32) }, "x: dimensions" },
  { "product of 2^63", { dim0 = u64(1 << 32), dim1 = u64(1 << 31) }, "x: dimensions" },
  { "bytes that wrap", { dim1 = u64((1 << 58) - 1) }, "x: " },
  { "rows that are no whole blocks", { dim0 = u64(33) }, "x: " },
  { "blocks of 256 in 32 columns", { kind = u32(12) }, "x: " },
  { "type that was removed", { kind = u32(4) }, "x: type" },
  { "type 2^32 - 1", { kind = u32(0xffffffff) }, "x: type" },
  { "type past the table", { kind = u32(40) }, "x: type" },
  { "offset that is not aligned", { offset = u64(32) }, "x: offset" },
  { "offset near 2^64", { offset = u64(-64) }, "x: offset" },
  { "offset past the data", { offset = u64(1 << 40) }, "x: offset" },
  { "tensor past the end", { offset = u64(128) }, "x: offset" },
  { "tensors that overlap", { offset2 = u64(64) }, "y: offset" },
  { "empty tensor inside another", { zero_offset = u64(0) }, "" },
  { "data cut off", { data = ("\7"):rep(143) }, "y: offset" },
  { "vocabulary", vocab {}, "" },
  { "byte token <0x-1>", vocab { tokens = tokens("a", "<0x-1>", "b") }, "tokenizer.ggml.tokens[1]" },
  { "byte token <0x100>", vocab { tokens = tokens("a", "<0x01>", "<0x100>") }, "tokenizer.ggml.tokens[2]" },
  { "byte token of nothing", vocab { tokens = tokens("a", "", "<0x01>") }, "tokenizer.ggml.tokens[1]" },
  { "id past the vocabulary", vocab { bos_token_id = u32(4) .. u32(3) }, "tokenizer.ggml.bos_token_id" },
  { "id of 2^31", vocab { bos_token_id = u32(4) .. u32(1 << 31) }, "tokenizer.ggml.bos_token_id" },
  { "id of -2", vocab { eos_token_id = u32(5) .. u32(0xfffffffe) }, "tokenizer.ggml.eos_token_id" },
  { "id of -1", vocab { bos_token_id = u32(5) .. u32(0xffffffff) }, "" },
  { "id as text", vocab { eos_token_id = u32(8) .. str("2") }, "tokenizer.ggml.eos_token_id" },
  { "id as u64", vocab { eos_token_id = u32(10) .. u64(2) }, "tokenizer.ggml.eos_token_id" },
  { "unknown id past the vocabulary", vocab { eos_token_id = u32(4) .. u32(1),
    bos_name = "unknown_token_id", bos_token_id = u32(4) .. u32(3) }, "tokenizer.ggml.unknown_token_id" },
  { "padding id past the vocabulary", vocab { bos_name = "padding_token_id", bos_token_id = u32(4) .. u32(4) },
    "tokenizer.ggml.padding_token_id" },
  { "token type 7", vocab { token_type = u32(9) .. u32(5) .. u64(3) .. u32(1) .. u32(7) .. u32(6) },
    "tokenizer.ggml.token_type[1]" },
  { "two token types", vocab { token_type = u32(9) .. u32(5) .. u64(2) .. u32(1) .. u32(6) },
    "tokenizer.ggml.token_type" },
  { "token types as u32", vocab { token_type = u32(9) .. u32(4) .. u64(3) .. u32(1) .. u32(6) .. u32(6) },
    "tokenizer.ggml.token_type" },
  { "four scores", vocab { scores = u32(9) .. u32(6) .. u64(4) .. ("\0"):rep(16) }, "tokenizer.ggml.scores" },
  { "scores as text", vocab { scores = tokens("1", "2", "3") }, "tokenizer.ggml.scores" },
  { "tokens as numbers", vocab { tokens = u32(9) .. u32(5) .. u64(3) .. ("\0"):rep(12) }, "tokenizer.ggml.tokens" },
  { "tokens as text", vocab { tokens = u32(8) .. str("abc") }, "tokenizer.ggml.tokens" },
  { "split count as an array", { number_key = str("split.count") }, "split.count" },
}

--- @return table list of { name, bytes, why }
function M.cases()
  local list = {}
  for i, c in ipairs(CASES) do list[i] = { name = c[1], bytes = file(c[2]), why = c[3] } end
  return list
end

function M.corpus()
  local parts = {}
  for i, c in ipairs(M.cases()) do parts[i] = string.pack("<s4s4s4", c.name, c.why, c.bytes) end
  return table.concat(parts)
end

return M

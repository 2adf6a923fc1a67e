-- GGUF: every way in which a file can lie.

local lu = require "luaunit"
local file = require "gguf_file"
local gguf = require "gen.gguf"
local gguf_parts = require "gen.gguf_parts"
local gguf_vocab = require "gen.gguf_vocab"
local hostile = require "hostile"
local lib = require "lib"

local eq = lu.assertEquals
local str, u32, u64, kv_u32, kv_str = file.str, file.u32, file.u64, file.kv_u32, file.kv_str
local mixtral, encode, describe, why, tensor = file.mixtral, file.encode, file.describe, file.why, file.tensor
local set = file.set
local T = {}

function T.test_header()
  local f = mixtral()
  f.magic = "GGUX"
  eq(why(f), 'm.gguf: magic: want "GGUF", got "GGUX"')
  f = mixtral()
  f.version = 1
  eq(why(f), "m.gguf: version: want 2 or 3, got 1")
  f.version = 3 << 24
  eq(why(f), "m.gguf: version: want 2 or 3 in little-endian order, got 50331648")
  eq(select(2, describe("")), "m.gguf: header: want at most the 0 bytes left of the file, got 8")
end

function T.test_counts_that_lie()
  local f = mixtral()
  f.n_tensor = -1
  lu.assertStrMatches(why(f),
    "m.gguf: tensor count: want at most %d+ %(what the file has room for%), got 18446744073709551615")
  f = mixtral()
  f.n_kv = 1 << 40
  lu.assertStrMatches(why(f), "m.gguf: metadata count: want at most %d+ .*, got 1099511627776")
  f = mixtral()
  f.kv[#f.kv + 1] = kv_str("padding", (" "):rep(1 << 20))
  f.n_kv = 65537
  eq(why(f), "m.gguf: metadata count: want at most 65536 (what the file has room for), got 65537")
  f = mixtral()
  f.n_kv = #f.kv + 1
  lu.assertNotEquals(why(f), "")
  f = mixtral()
  f.n_tensor = #f.tensors + 1
  lu.assertNotEquals(why(f), "")
end

function T.test_keys_that_lie()
  local function with(key, kind, value) return why(set(mixtral(), key, kind, value)) end
  eq(with("x", 13, ""), "m.gguf: x: want a value type from 0 to 12, got 13")
  eq(with("", 4, u32(1)), "m.gguf: key 13: want a name of 1 to 65535 bytes, got 0")
  eq(with("x", 7, "\2"), "m.gguf: x: want a boolean of 0 or 1, got 2")
  lu.assertStrMatches(with("x", 8, u64(-2) .. "abc"),
    "m.gguf: x: want at most the %d+ bytes left of the file, got 18446744073709551614")
  eq(with("x", 9, u32(9) .. u64(1)), "m.gguf: x: want an array of numbers, booleans or strings, got element type 9")
  eq(with("x", 9, u32(77) .. u64(1)), "m.gguf: x: want an array of numbers, booleans or strings, got element type 77")
  lu.assertStrMatches(with("x", 9, u32(12) .. u64(1 << 61)), "m.gguf: x: want at most %d+ .*, got 2305843009213693952")
  lu.assertStrMatches(with("x", 9, u32(8) .. u64(2) .. str("a") .. u64(math.maxinteger)),
    "m.gguf: x%[1%]: want at most the %d+ bytes left of the file, got 9223372036854775807")
  local f = mixtral()
  f.kv[#f.kv + 1] = kv_u32("llama.block_count", 2)
  eq(why(f), "m.gguf: llama.block_count: want the key once, got it twice")
end

function T.test_alignment()
  local function with(kind, value) return why(set(mixtral(), "general.alignment", kind, value)) end
  eq(with(4, u32(0)), "m.gguf: general.alignment: want a u32 that is a power of two, got u32 0")
  eq(with(4, u32(48)), "m.gguf: general.alignment: want a u32 that is a power of two, got u32 48")
  eq(with(10, u64(32)), "m.gguf: general.alignment: want a u32 that is a power of two, got u64 32")
  eq(with(8, str("32")), 'm.gguf: general.alignment: want a u32 that is a power of two, got string "32"')
  lu.assertStrContains(with(4, u32(1 << 31)), "offset: want ")
  local f = set(mixtral(), "general.alignment", 4, u32(64))
  f.alignment = 64
  eq(why(f), "")
end

function T.test_tensor_infos_that_lie()
  local function with(change)
    local f = mixtral()
    change(tensor(f, "output.weight"), f)
    return why(f)
  end
  eq(with(function(t) t.n_dims = 5 end), "m.gguf: output.weight: dimensions: want at most 4, got 5")
  eq(with(function(t) t.dims = { 1 << 33, 1 << 33 } t.kind = 1 end),
    "m.gguf: output.weight: dimensions: want a product below 2^63 bytes, got one that wraps")
  eq(with(function(t) t.dims = { 1 << 62 } t.kind = 0 end),
    "m.gguf: output.weight: dimensions: want a product below 2^63 bytes, got one that wraps")
  eq(with(function(t) t.dims = { -1, 1 } end),
    "m.gguf: output.weight: dimensions: want a product below 2^63 bytes, got one that wraps")
  lu.assertStrMatches(with(function(t) t.dims = { 1 << 40, 1 } t.kind = 1 end),
    "m.gguf: output.weight: offset: want 2199023255552 bytes inside the %d+ of tensor data, got %d+")
  eq(with(function(t) t.kind = 99 end), "m.gguf: output.weight: type: want a known tensor type, got id 99")
  eq(with(function(t) t.dims = { 33, 40 } t.kind = 8 end),
    "m.gguf: output.weight: dimensions: want rows of whole Q8_0 blocks of 32, got 33")
  eq(with(function(t) t.offset = 3 end), "m.gguf: output.weight: offset: want a multiple of 32 below 2^63, got 3")
  eq(with(function(t) t.offset = -32 end),
    "m.gguf: output.weight: offset: want a multiple of 32 below 2^63, got 18446744073709551584")
  lu.assertStrMatches(with(function(t) t.offset = 1 << 62 end),
    "m.gguf: output.weight: offset: want 5120 bytes inside the %d+ of tensor data, got 4611686018427387904")
  eq(with(function(t) t.offset = 0 end),
    "m.gguf: token_embd.weight: offset: want at least 5120, the end of output.weight, got 0")
  eq(with(function(t) t.name = "" end), "m.gguf: tensor 2: name: want 1 to 64 bytes without a NUL, got 0")
  eq(with(function(t) t.name = "a\0b" end), "m.gguf: tensor 2: name: want 1 to 64 bytes without a NUL, got 3")
  eq(with(function(t) t.name = ("n"):rep(65) end), "m.gguf: tensor 2: name: want 1 to 64 bytes without a NUL, got 65")
  eq(with(function(t) t.name = "token_embd.weight" end),
    "m.gguf: token_embd.weight: want the tensor once, got it twice")
end

function T.test_zero_dimensions_are_legal()
  local f = mixtral()
  f.tensors[#f.tensors + 1] = { name = "nothing", kind = 0, dims = { 0, 1 << 62, 4 } }
  local text, problems = encode(f), {}
  local found = gguf.parse(function(n) return text:sub(1, n) end, #text, "m.gguf", problems)
  eq(problems, {})
  eq(found.by_name["nothing"].bytes, 0)
end

-- A message is one line, whatever the names it holds.
function T.test_a_neighbours_name_is_one_line()
  for _, c in ipairs(hostile.cases()) do
    if c.name == "tensors that overlap" then
      local bytes, n = c.bytes:gsub(("<s8"):pack("x"), (("<s8"):pack("\n")))
      local problems = {}
      gguf_parts.parse(function(k) return bytes:sub(1, k) end, #bytes, "m.gguf", problems)
      eq({ n, problems }, { 1, { "m.gguf: y: offset: want at least 68, the end of ?, got 64" } })
    end
  end
end

-- The same files and words for runtime/file/gguf.c: tests/c/gguf_test.c reads the corpus.
function T.test_verdicts_of_both_readers()
  eq(lib.read(lib.root .. "tests/data/gguf_hostile.bin") == hostile.corpus(), true, "run `make golden`")
  for _, c in ipairs(hostile.cases()) do
    local problems = {}
    local found = gguf_parts.parse(function(n) return c.bytes:sub(1, n) end, #c.bytes, "m.gguf", problems)
    if found and #problems == 0 then
      gguf_vocab.check(found, function(field, want, got)
        problems[#problems + 1] = ("m.gguf: %s: want %s, got %s"):format(field, want, got)
      end)
    end
    if c.why == "" then
      eq(problems, {}, c.name)
    else
      lu.assertStrContains(problems[1] or c.name .. " was accepted", c.why)
    end
  end
  local legal = hostile.cases()[1].bytes
  for n = 0, #legal - 1 do
    local problems = {}
    gguf_parts.parse(function(k) return legal:sub(1, math.min(k, n)) end, n, "m.gguf", problems)
    lu.assertTrue(#problems > 0, n)
  end
end

function T.test_truncation_at_every_byte()
  local text, head = encode(mixtral())
  for n = 0, head do
    local _, problem = describe(text:sub(1, n))
    lu.assertStrContains(problem, "m.gguf: ")
  end
end

function T.test_a_file_that_shrinks_while_it_is_read()
  local text, problems = encode(mixtral()), {}
  gguf.parse(function(n) return text:sub(1, math.min(n, 100)) end, #text, "m.gguf", problems)
  lu.assertStrMatches(problems[1], "m.gguf: .*: want a file of %d+ bytes, got 100 that can be read")
end

function T.test_damage_never_crashes()
  local text, head = encode(mixtral())
  local state = 12345
  local function random(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n
  end
  for _ = 1, 1500 do
    local at = random(head) + 1
    describe(text:sub(1, at - 1) .. string.char(random(256)) .. text:sub(at + 1))
  end
end

function T.test_names_in_messages_are_clean()
  local f = mixtral()
  f.kv[#f.kv + 1] = { "a\27[2J\n", 13, "" }
  eq(why(f), "m.gguf: a?[2J?: want a value type from 0 to 12, got 13")
end

return T

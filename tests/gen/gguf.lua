-- GGUF: a small valid file, then every way in which a file can lie.

local lu = require "luaunit"
local gguf = require "gen.gguf"
local gguf_model = require "gen.gguf_model"
local gguf_parts = require "gen.gguf_parts"
local gguf_vocab = require "gen.gguf_vocab"
local hostile = require "hostile"
local lib = require "lib"

local eq = lu.assertEquals
local T = {}

local function str(s) return string.pack("<s8", s) end
local function u32(n) return string.pack("<I4", n) end
local function u64(n) return string.pack("<i8", n) end

-- Key/values: { key, type id, packed value }.
local function kv_u32(key, n) return { key, 4, u32(n) } end
local function kv_f32(key, x) return { key, 6, string.pack("<f", x) } end
local function kv_str(key, s) return { key, 8, str(s) } end

local BLOCK = { [0] = { 1, 4 }, [1] = { 1, 2 }, [2] = { 32, 18 }, [8] = { 32, 34 }, [12] = { 256, 144 },
  [14] = { 256, 210 }, [16] = { 256, 66 } }

-- A Mixtral of 2 layers: E 64, 4 heads over 2 of 16, FF 32, 3 experts, 40 tokens.
local function mixtral()
  local f = { kv = {
    kv_str("general.architecture", "llama"),
    kv_u32("llama.block_count", 2), kv_u32("llama.context_length", 128), kv_u32("llama.embedding_length", 64),
    kv_u32("llama.feed_forward_length", 32), kv_u32("llama.attention.head_count", 4),
    kv_u32("llama.attention.head_count_kv", 2), kv_f32("llama.attention.layer_norm_rms_epsilon", 1e-5),
    kv_f32("llama.rope.freq_base", 1e6), kv_u32("llama.expert_count", 3), kv_u32("llama.expert_used_count", 2),
    kv_u32("llama.rope.dimension_count", 16), kv_u32("llama.vocab_size", 40),
  }, tensors = {} }
  local function add(name, kind, ...) f.tensors[#f.tensors + 1] = { name = name, kind = kind, dims = { ... } } end
  add("token_embd.weight", 8, 64, 40)
  add("output_norm.weight", 0, 64)
  add("output.weight", 1, 64, 40)
  for l = 0, 1 do
    local p = ("blk.%d."):format(l)
    add(p .. "attn_norm.weight", 0, 64)
    add(p .. "attn_q.weight", 8, 64, 64)
    add(p .. "attn_k.weight", 8, 64, 32)
    add(p .. "attn_v.weight", l == 0 and 8 or 1, 64, 32)
    add(p .. "attn_output.weight", 8, 64, 64)
    add(p .. "ffn_norm.weight", 0, 64)
    add(p .. "ffn_gate_inp.weight", 0, 64, 3)
    add(p .. "ffn_gate_exps.weight", 2, 64, 32, 3)
    add(p .. "ffn_up_exps.weight", 2, 64, 32, 3)
    add(p .. "ffn_down_exps.weight", 2, 32, 64, 3)
  end
  return f
end

-- Bytes of the file; a tensor's own `offset` wins over the natural one.
local function encode(f)
  local out, data, alignment = {}, 0, f.alignment or 32
  out[1] = (f.magic or "GGUF") .. u32(f.version or 3) .. u64(f.n_tensor or #f.tensors) .. u64(f.n_kv or #f.kv)
  for _, kv in ipairs(f.kv) do out[#out + 1] = str(kv[1]) .. u32(kv[2]) .. kv[3] end
  for _, t in ipairs(f.tensors) do
    local n = 1
    for _, d in ipairs(t.dims) do n = n * d end
    local block = BLOCK[t.kind] or { 1, 1 }
    local info = str(t.name) .. u32(t.n_dims or #t.dims)
    for _, d in ipairs(t.dims) do info = info .. u64(d) end
    out[#out + 1] = info .. u32(t.kind) .. u64(t.offset or data)
    if n >= 0 and n < 1 << 24 then data = (data + n // block[1] * block[2] + alignment - 1) // alignment * alignment end
  end
  local head = table.concat(out)
  return head .. ("\0"):rep((-#head) % alignment + data), #head
end

local function describe(text)
  local problems = {}
  local function read(n, from) return text:sub((from or 0) + 1, (from or 0) + n) end
  local m = gguf_model.describe(read, #text, "m.gguf", problems)
  return m, table.concat(problems, "\n")
end

local function why(f) return select(2, describe((encode(f)))) end

local function tensor(f, name)
  for _, t in ipairs(f.tensors) do
    if t.name == name then return t end
  end
end

local function set(f, key, kind, value)
  for _, kv in ipairs(f.kv) do
    if kv[1] == key then kv[2], kv[3] = kind, value return f end
  end
  f.kv[#f.kv + 1] = { key, kind, value }
  return f
end

local function drop(list, name)
  for i = #list, 1, -1 do
    if (list[i].name or list[i][1]) == name then table.remove(list, i) end
  end
end

function T.test_reads_a_model()
  local m, problem = describe((encode(mixtral())))
  eq(problem, "")
  eq({ m.family, m.n_layer, m.n_embd, m.n_head, m.n_head_kv, m.head_dim, m.n_ff, m.n_expert, m.n_expert_used },
    { "mixtral", 2, 64, 4, 2, 16, 32, 3, 2 })
  eq({ m.n_vocab, m.n_ctx_train, m.rope_theta, m.window, m.tied }, { 40, 128, 1e6, 0, false })
  eq({ m.types.token_embd, m.types.output }, { "q8_0", "f16" })
  eq(m.types.layers[1].v, "q8_0")
  eq(m.types.layers[2].v, "f16")
  eq(m.types.layers[2].down, "q4_0")
end

function T.test_version_2_tied_and_defaults()
  local f = mixtral()
  f.version = 2
  drop(f.tensors, "output.weight")
  drop(f.kv, "llama.rope.freq_base")
  drop(f.kv, "llama.attention.head_count_kv")
  for l = 0, 1 do
    tensor(f, ("blk.%d.attn_k.weight"):format(l)).dims = { 64, 64 }
    tensor(f, ("blk.%d.attn_v.weight"):format(l)).dims = { 64, 64 }
  end
  local m, problem = describe((encode(f)))
  eq(problem, "")
  eq({ m.tied, m.rope_theta, m.n_head_kv }, { true, 1e4, 4 })
end

-- A dense Llama: the Mixtral without its experts.
local function llama()
  local f = mixtral()
  drop(f.kv, "llama.expert_count")
  drop(f.kv, "llama.expert_used_count")
  for l = 0, 1 do
    local p = ("blk.%d."):format(l)
    drop(f.tensors, p .. "ffn_gate_inp.weight")
    for _, role in ipairs { "gate", "up", "down" } do
      local t = tensor(f, ("%sffn_%s_exps.weight"):format(p, role))
      t.name, t.dims = ("%sffn_%s.weight"):format(p, role), { t.dims[1], t.dims[2] }
    end
  end
  return f
end

-- Divisors of rotary frequencies are a tensor whose numbers the generator needs.
function T.test_rope_divisors()
  local f = llama()
  f.tensors[#f.tensors + 1] = { name = "rope_freqs.weight", kind = 0, dims = { 8 } }
  local text = encode(f)
  local numbers = { 1, 1, 1.5, 2, 3, 4, 6, 8 }
  text = text:sub(1, -33) .. string.pack("<ffffffff", table.unpack(numbers))
  local m, problem = describe(text)
  eq(problem, "")
  eq({ m.rope.type, m.rope.short_factor }, { "factors", numbers })
  tensor(f, "rope_freqs.weight").dims = { 7 }
  text = encode(f)
  text = text:sub(1, -33) .. string.pack("<ffffffff", table.unpack(numbers))
  eq(select(2, describe(text)), "m.gguf: rope_factors.short_factor: want 8 numbers, one a rotated pair, got 7")
  tensor(f, "rope_freqs.weight").dims = { 8, 2 }
  eq(why(f), "m.gguf: rope_freqs.weight: want 1 to 512 numbers of type F32, got F32 of 2 dimensions")
  tensor(f, "rope_freqs.weight").dims, tensor(f, "rope_freqs.weight").kind = { 8 }, 1
  eq(why(f), "m.gguf: rope_freqs.weight: want 1 to 512 numbers of type F32, got F16 of 1 dimensions")
  tensor(f, "rope_freqs.weight").kind = 0
  eq(why(f), "m.gguf: rope_freqs.weight: want positive numbers, got 0 (number 0)")
  text = encode(f)
  text = text:sub(1, -33) .. string.pack("<ffffffff", 1, 0 / 0, 1, 1, 1, 1, 1, 1)
  lu.assertStrContains(select(2, describe(text)), "rope_freqs.weight: want positive numbers, got ")
  tensor(f, "rope_freqs.weight").offset = 1 << 40
  lu.assertStrContains(why(f), "rope_freqs.weight: offset: want ")
  tensor(f, "rope_freqs.weight").offset, tensor(f, "rope_freqs.weight").dims = nil, {}
  lu.assertStrContains(why(f), "rope_freqs.weight: want 1 to 512 numbers of type F32, got F32 of 0 dimensions")
  tensor(f, "rope_freqs.weight").dims, tensor(f, "rope_freqs.weight").kind = { 8 }, 77
  lu.assertStrContains(why(f), "rope_freqs.weight: type: want a known tensor type, got id 77")
  f = mixtral() -- whose models have none
  f.tensors[#f.tensors + 1] = { name = "rope_freqs.weight", kind = 0, dims = { 8 } }
  eq(why(f), "m.gguf: rope_freqs.weight: want only tensors of the mixtral family, got this one")
end

function T.test_yarn_in_parts_is_refused()
  eq(why(set(llama(), "llama.rope.scaling.yarn_ext_factor", 6, string.pack("<f", 0.5))),
    "m.gguf: rope.scaling.yarn_ext_factor: want 1 or -1 (all that this engine computes), got 0.5")
end

function T.test_one_tensor_an_expert()
  local f = mixtral()
  for l = 0, 1 do
    for _, role in ipairs { "gate", "up", "down" } do
      local old = tensor(f, ("blk.%d.ffn_%s_exps.weight"):format(l, role))
      drop(f.tensors, old.name)
      for e = 0, 2 do
        f.tensors[#f.tensors + 1] = { name = ("blk.%d.ffn_%s.%d.weight"):format(l, role, e), kind = 2,
          dims = { old.dims[1], old.dims[2] } }
      end
    end
  end
  eq(why(f), "")
  tensor(f, "blk.1.ffn_up.2.weight").kind = 8
  eq(why(f), "m.gguf: blk.1.ffn_up.2.weight: type: want q4_0 as the layer's other experts, got q8_0")
  drop(f.tensors, "blk.1.ffn_up.2.weight")
  eq(why(f), "m.gguf: blk.1.ffn_up.2.weight: want a tensor of shape [64, 32], got nothing")
end

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

function T.test_model_facts()
  local function with(key, kind, value) return why(set(mixtral(), key, kind, value)) end
  lu.assertStrMatches(with("general.architecture", 8, str("gpt2")),
    'm.gguf: general.architecture: want llama or .*, got "gpt2"')
  eq(with("llama.expert_count", 4, u32(0)), "m.gguf: llama.expert_count: want an integer from 1 to 1024, got 0")
  eq(with("llama.expert_used_count", 4, u32(4)),
    "m.gguf: llama.expert_used_count: want at most n_expert (3), got 4")
  for _, key in ipairs { "llama.expert_count", "llama.expert_used_count" } do -- one a layer
    lu.assertStrMatches(with(key, 9, u32(4) .. u64(2) .. u32(3) .. u32(0)),
      "m.gguf: " .. key .. ": want an integer from 1 to %d+, got a table")
  end
  eq(with("llama.block_count", 9, u32(4) .. u64(1) .. u32(2)),
    "m.gguf: llama.block_count: want an integer from 1 to 1024, got a table")
  eq(with("llama.block_count", 8, str("2")), 'm.gguf: llama.block_count: want an integer from 1 to 1024, got "2"')
  eq(with("llama.rope.scaling.type", 8, str("yarn")),
    'm.gguf: rope.scaling.type: want "none" (all that this engine computes), got "yarn"')
  eq(with("llama.rope.dimension_count", 4, u32(8)),
    "m.gguf: llama.rope.dimension_count: want 16 (the whole head turns), got 8")
  eq(with("llama.vocab_size", 4, u32(41)),
    "m.gguf: llama.vocab_size: want 40 (rows of token_embd.weight), got 41")
  eq(with("tokenizer.ggml.tokens", 9, u32(8) .. u64(1) .. str("a")),
    "m.gguf: tokenizer.ggml.tokens: want 40 (rows of token_embd.weight), got 1")
  local f = mixtral()
  drop(f.kv, "llama.expert_count")
  drop(f.kv, "llama.block_count")
  eq(why(f), "m.gguf: llama.block_count: want an integer from 1 to 1024, got nothing\n"
    .. "m.gguf: llama.expert_count: want an integer from 1 to 1024, got nothing")
end

function T.test_tensors_of_the_model()
  local function with(change)
    local f = mixtral()
    change(f)
    return why(f)
  end
  eq(with(function(f) drop(f.tensors, "blk.1.attn_q.weight") end),
    "m.gguf: blk.1.attn_q.weight: want a tensor of shape [64, 64], got nothing")
  eq(with(function(f) tensor(f, "blk.0.attn_q.weight").dims = { 64, 32 } end),
    "m.gguf: blk.0.attn_q.weight: dimensions: want [64, 64], got [64, 32]")
  eq(with(function(f) tensor(f, "blk.0.ffn_up_exps.weight").dims = { 64, 32, 4 } end),
    "m.gguf: blk.0.ffn_up_exps.weight: dimensions: want [64, 32, 3], got [64, 32, 4]")
  eq(with(function(f) drop(f.tensors, "token_embd.weight") end),
    "m.gguf: token_embd.weight: dimensions: want an integer from 2 to 16777216, got nothing")
  eq(with(function(f) tensor(f, "output_norm.weight").kind = 8 end),
    "m.gguf: output_norm.weight: type: want F32, F16 or BF16, got Q8_0")
  eq(with(function(f) f.tensors[#f.tensors + 1] = { name = "blk.0.attn_q.bias", kind = 0, dims = { 64 } } end),
    "m.gguf: blk.0.attn_q.bias: want only tensors of the mixtral family, got this one")
end

function T.test_types_without_a_kernel_are_named()
  local f = mixtral()
  f.kv[4], f.kv[5] = kv_u32("llama.embedding_length", 256), kv_u32("llama.feed_forward_length", 256)
  set(f, "llama.attention.key_length", 4, u32(16))
  for _, t in ipairs(f.tensors) do
    if t.dims[1] == 64 or t.dims[1] == 32 then t.dims[1] = 256 end
    if t.dims[3] then t.dims[2], t.kind = 256, t.name:find("ffn_gate_exps") and 16 or 12 end
    if t.name:find("attn_output") then t.dims = { 64, 256 } end
  end
  eq(why(f), "m.gguf: blk.0.ffn_gate_exps.weight: type: want F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
    .. "Q2_K to Q6_K, IQ4_NL, IQ4_XS or MXFP4, got IQ2_XXS (id 16) (and 1 more alike)")
  tensor(f, "blk.0.ffn_gate_exps.weight").kind = 14
  tensor(f, "blk.1.ffn_gate_exps.weight").kind = 2
  local m, problem = describe((encode(f)))
  eq(problem, "")
  eq({ m.types.layers[1].gate, m.types.layers[1].up, m.types.layers[2].gate }, { "q6_k", "q4_k", "q4_0" })
end

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

-- The generator refuses another number of turning columns; so must pack, which has only the table.
function T.test_pack_is_told_how_much_turns()
  local facts, families = require "gen.checkpoint_facts", require("gen.families").by_name
  local function turning(family, m)
    local found = {}
    for _, row in ipairs(facts.numbers(families[family], m)) do
      if (row.gguf[1] or ""):find "rope.dimension_count$" then found[#found + 1] = { row.gguf[1], row.value } end
    end
    return found
  end
  eq(turning("mixtral", { rope_dim = 16 }), { { "llama.rope.dimension_count", 16 } })
  eq(turning("glm4-moe", { rope_dim = 8 }), { { "glm4moe.rope.dimension_count", 8 } }) -- a key of its own: once
  eq(turning("switch", { rope_dim = 2 }), {})
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

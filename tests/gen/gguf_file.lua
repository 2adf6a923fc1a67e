-- tests/gen/gguf_file.lua -- a small valid GGUF file, and the means to make it lie.

local gguf_model = require "gen.gguf_model"

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

return { str = str, u32 = u32, u64 = u64, kv_u32 = kv_u32, kv_str = kv_str, mixtral = mixtral, llama = llama,
         encode = encode, describe = describe, why = why, tensor = tensor, set = set, drop = drop }

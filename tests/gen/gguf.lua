-- GGUF: what a valid file states of its model, and what no model states.

local lu = require "luaunit"
local file = require "gguf_file"

local eq = lu.assertEquals
local str, u32, u64, kv_u32, mixtral = file.str, file.u32, file.u64, file.kv_u32, file.mixtral
local encode, describe, why, tensor, set = file.encode, file.describe, file.why, file.tensor, file.set
local drop, llama = file.drop, file.llama
local T = {}

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
  eq(with("llama.block_count", 10, u64(-1 << 62)),
    "m.gguf: llama.block_count: want an integer from 1 to 1024, got 1.3835058055282e+19")
  eq(with("llama.vocab_size", 10, u64(math.mininteger)),
    "m.gguf: llama.vocab_size: want 40 (rows of token_embd.weight), got 9.2233720368548e+18")
  eq(with("llama.vocab_size", 10, u64(40)), "")
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

-- Every key that would change the arithmetic, and the counts that shapes need not show.
function T.test_pack_is_told_what_the_generator_refuses()
  local facts, families = require "gen.checkpoint_facts", require("gen.families").list
  for _, family in ipairs(families) do
    local m, told = { n_vocab = 40, head_dim = 16 }, {}
    for _, row in ipairs(facts.only(family, m)) do told[row.gguf or row.hf[1]] = table.concat(row.want, " or ") end
    for _, row in ipairs(facts.numbers(family, m)) do told[row.gguf[1] or row.hf[1]] = row.value end
    for _, rule in ipairs(family.hf.only) do lu.assertNotNil(told[rule.key], family.name .. " " .. rule.key) end
    for _, rule in ipairs(family.gguf and family.gguf.only or {}) do
      lu.assertNotNil(told[family.gguf.arch .. "." .. rule.key], family.name .. " " .. rule.key)
    end
    if family.gguf then
      eq({ told[family.gguf.arch .. ".vocab_size"], told[family.gguf.arch .. ".attention.value_length"] }, { 40, 16 })
    end
  end
  local told, qwen = {}, require("gen.families").by_name["qwen3-moe"]
  for _, row in ipairs(facts.only(qwen, {})) do told[row.hf[1] or row.gguf] = row.want end
  eq({ told.hidden_act, told.mlp_bias, told["mlp_only_layers.1"] }, { { '"silu"' }, { "false" }, {} })
end

return T

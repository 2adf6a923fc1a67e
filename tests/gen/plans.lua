-- Every plan_*.lua against numbers worked out by hand.

local lu = require "luaunit"
local lib = require "lib"
local formats_of = require "gen.formats"
local model = require "gen.model"
local plan_cache = require "gen.plan_cache"
local plan_kernels = require "gen.plan_kernels"
local plan_layout = require "gen.plan_layout"
local plan_mem = require "gen.plan_mem"
local plan_rate = require "gen.plan_rate"
local plan_tier = require "gen.plan_tier"

local eq = lu.assertEquals
local T = {}

-- A model small enough for a pencil: E 64, 4 heads over 2 of 16, FF 96, 5 experts.
local function small(weights)
  return model.check({
    family = "mixtral", n_layer = 2, n_embd = 64, n_head = 4, n_head_kv = 2, head_dim = 16, n_ff = 96,
    n_expert = 5, n_expert_used = 2, n_vocab = 40, n_ctx_train = 256, norm_eps = 1e-5, rope_theta = 1e4,
    window = 0, tied = false,
    weights = { expert = weights, attn = weights, embed = weights, output = weights, router = "f32" },
  }, "x.lua", {})
end

local function resolved(m, opts)
  local problems = {}
  local formats = formats_of.resolve(m, opts or {}, "x.lua", problems)
  eq(problems, {})
  return formats
end

function T.test_layout_resident()
  local m = small("f32")
  local l = plan_layout.plan(m, resolved(m))
  eq({ l.token_embd.off, l.token_embd.stride, l.token_embd.bytes }, { 0, 4096, 3 * 4096 })  -- 40 rows: 3 panels
  local first = l.layers[1]
  eq(first.mixer_norm, 12288)
  eq(first.q.off, 12544)                -- after 64 floats
  eq(first.k.off, 12544 + 4 * 4096)     -- q: 64 rows, 4 panels
  eq(first.v.off, 12544 + 6 * 4096)     -- k: 32 rows, 2 panels
  eq(first.o.off, 12544 + 8 * 4096)
  eq(first.ffn_norm, 12544 + 12 * 4096)
  eq(first.router.off, 12800 + 12 * 4096)
  eq(l.layers[2].mixer_norm, 12800 + 13 * 4096)   -- router: 5 rows, 1 panel
  eq(l.output_norm, 12288 + 2 * (512 + 13 * 4096))
  eq(l.output.off, l.output_norm + 256)
  eq(l.resident_bytes, 135168)          -- 132352 up to a page
end

function T.test_layout_slab()
  local m = small("f32")
  local l = plan_layout.plan(m, resolved(m))
  local first = l.layers[1]
  eq({ first.gate.off, first.gate.stride }, { 0, 8192 })
  eq({ first.up.off, first.up.stride }, { 4096, 8192 })
  eq({ first.down.off, first.down.stride }, { 6 * 8192, 96 * 64 })
  eq(first.slab_bytes, 6 * 8192 + 4 * 6144)
  eq(first.expert_stride, 73728)
  eq(first.expert_off, l.resident_bytes)
  eq(l.layers[2].expert_off, l.resident_bytes + 5 * 73728)
  eq(l.data_bytes, l.resident_bytes + 10 * 73728)
end

function T.test_layout_pads_odd_blocks()
  -- 96 columns are 3 blocks of 544 B: 1632 is no multiple of 64, the stride is.
  local m = small("q8_0")
  local l = plan_layout.plan(m, resolved(m))
  eq(l.layers[1].down.stride, 1664)
  eq(l.layers[1].gate.stride, 2 * 1088)
end

function T.test_layout_token_bytes()
  local m = small("f32")
  local l = plan_layout.plan(m, resolved(m))
  eq(l.token_resident_bytes, 3 * 4096 + 2 * 13 * 4096)   -- output; q k v o router of two layers
  eq(l.token_expert_bytes, 2 * 2 * 73728)
  eq(l.token_bytes, l.token_resident_bytes + l.token_expert_bytes)
end

function T.test_layout_tied()
  local m = small("f32")
  m.tied = true
  local l = plan_layout.plan(m, resolved(m))
  lu.assertIs(l.output, l.token_embd)
  eq(l.resident_bytes, 122880)          -- 12288 less than 132352, up to a page
end

local function layout_of(change, weights)
  local m = small(weights or "f32")
  change(m)
  return plan_layout.plan(m, resolved(m))
end

function T.test_layout_hash_covers_the_layout()
  local base = layout_of(function() end).hash
  eq(layout_of(function(m) m.n_ctx_train = 99 end).hash, base)
  lu.assertNotEquals(layout_of(function(m) m.n_vocab = 41 end).hash, base)
  lu.assertNotEquals(layout_of(function(m) m.tied = true end).hash, base)
  lu.assertNotEquals(layout_of(function() end, "bf16").hash, base)
  lu.assertNotEquals(layout_of(function(m) m.n_layer = 1 end).hash, base)
end

-- None of these moves a byte of the weights; each makes other tokens of them.
function T.test_layout_hash_covers_the_arithmetic()
  local yarn = { type = "yarn", factor = 4.0, orig_ctx = 64, beta_fast = 32.0, beta_slow = 1.0, truncate = true }
  local changes = { n_head = 8, n_head_kv = 1, head_dim = 8, n_expert_used = 3, norm_eps = 1e-6, rope_theta = 123.0,
    rope_dim = 8, rope = yarn, window = 7, window_every = 2, act = "swiglu_oai", act_limit = 7.0, qkv_clip = 8.0,
    embd_scale = 2.0, residual_scale = 0.5, logit_scale = 2.0, attn_scale = 0.3, norm = "layer", router = "sigmoid",
    route_norm = false, route_scale = 2.5, n_route_group = 5, n_route_group_used = 2, route_group_top = 1,
    router_jitter = 0.01, shared_gate = true, latent_eps = 1e-5 }
  local names, seen = {}, { [layout_of(function() end).hash] = "none" }
  for name in pairs(changes) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local layout = layout_of(function(m)
      if name == "n_head" then m.head_dim, m.n_head_kv = 8, 4 end -- the same rows in more heads
      m[name] = changes[name]
    end)
    eq(seen[layout.hash], nil, name)
    seen[layout.hash] = name
  end
  for i, key in ipairs { "factor", "orig_ctx", "beta_fast", "beta_slow", "attn_factor" } do
    local rope = { type = "yarn", factor = 4.0, orig_ctx = 64, beta_fast = 32.0, beta_slow = 1.0, truncate = false }
    rope[key] = 10 + i
    local hash = layout_of(function(m) m.rope = rope end).hash
    eq(seen[hash], nil, key)
    seen[hash] = key
  end
end

function T.test_layout_hash_compares_floats_as_the_binary_does()
  local single = string.unpack("<f", string.pack("<f", 1e-5))
  eq(layout_of(function(m) m.norm_eps = single end).hash, layout_of(function() end).hash)
end

function T.test_layout_text_names_the_model()
  local text = layout_of(function() end).text
  lu.assertStrMatches(text, "mixtral, 2 layers of 5 experts %(2 used%), 4 heads over 2 of 16, rope 10000, 64 wide, "
    .. "expert width 96, vocabulary 40, facts %x+; expert f32, attn f32, embed f32, output f32, router f32; %d+ bytes")
  lu.assertNotEquals(layout_of(function(m) m.norm_eps = 1e-6 end).text, text)
end

function T.test_memory_float()
  local m = small("f32")
  local formats = resolved(m)
  local l = plan_layout.plan(m, formats)
  local mem = plan_mem.plan(m, formats, l, { ctx = 1100, batch = 10, logit_rows = 3, kv = "f32", threads = 2 })
  local bytes = {}
  for _, r in ipairs(mem.regions) do bytes[r.name] = r.bytes end
  eq({ mem.n_kv_block, mem.n_span, mem.span_blocks, mem.part_row, mem.n_seq }, { 18, 2, 16, 4, 1 })
  eq(bytes, {
    DATA = l.data_bytes,
    KV = 2 * 18 * 2 * 64 * 16 * 2 * 4,
    ROPE = 1100 * 8 * 2 * 4,
    X = 10 * 64 * 4, XN = 10 * 64 * 4, XQ = 0,
    Q = 10 * 64 * 4, K = 10 * 32 * 4, V = 10 * 32 * 4,
    AO = 10 * 64 * 4, AOQ = 0,
    PART = 4 * 4 * 2 * 18 * 4,
    RL = 10 * 16 * 4, TOPK = 10 * 2 * 8, ROUTE = 10 * 2 * 4 + 6 * 4, GATE = 0,
    H = 10 * 2 * 96 * 4, HQ = 0, SLOTS = 0, XCACHE = 0, YD = 0, YR = 0, RLP = 0, PREDICT = 0,
    LN = 3 * 64 * 4, LNQ = 0,
    LOGITS = 3 * 48 * 4, SAMPLE = 40 * 8,
    THREAD = 2 * 8192,    -- 20*16*4*2 + 20*8 + 2*2*18*4 + 10*32*4 = 4288, up to a page
  })
  eq(mem.thread_bytes, 8192)
  eq(mem.spare_bytes, 1280)
end

function T.test_memory_block_and_offsets()
  local m = small("q8_0")
  local formats = resolved(m)
  local mem = plan_mem.plan(m, formats, plan_layout.plan(m, formats),
    { ctx = 64, batch = 10, logit_rows = 3, kv = "f16", threads = 1 })
  local by, at = {}, 0
  for _, r in ipairs(mem.regions) do
    by[r.name] = r
    if r.bytes > 0 then
      eq(r.off, at)
      at = (r.off + r.bytes + 4095) // 4096 * 4096
    else
      eq(r.off, 0)
    end
  end
  eq(mem.bytes, at)
  eq(by.KV.bytes, 2 * 1 * 2 * 64 * 16 * 2 * 2)
  eq({ by.XQ.bytes, by.AOQ.bytes, by.HQ.bytes, by.LNQ.bytes }, { 10 * 80, 10 * 80, 10 * 2 * 120, 3 * 80 })
  eq(by.H.bytes, 0)
end

function T.test_memory_pads_expert_width()
  -- An expert width of 24 is float only; H has whole blocks of 32 all the same.
  local m = small("f32")
  m.n_ff = 24
  local formats = resolved(m)
  local mem = plan_mem.plan(m, formats, plan_layout.plan(m, formats),
    { ctx = 64, batch = 10, logit_rows = 3, kv = "f16", threads = 1 })
  for _, r in ipairs(mem.regions) do
    if r.name == "H" then eq(r.bytes, 10 * 2 * 32 * 4) end
  end
end

function T.test_sizes_default()
  local p = lib.plan("tiny-mixtral", "avx2-desktop")
  eq(p.size, { ctx = 2048, batch = 256, logit_rows = 32, kv = "f16", threads = 8, tier = plan_tier.RAM,
    load_map = 1 })
  eq(lib.plan("mixtral", "avx2-desktop").size.ctx, 4096)
  eq(lib.plan("tiny-mixtral", "avx2-desktop", { "quant=f32" }).size.kv, "f32")
  eq(lib.plan("tiny-mixtral", "avx2-desktop", { "quant=f32", "kv=f16" }).size.kv, "f16")
  -- 34 bytes for 32 values, of K and of V
  local q8, f16 = lib.plan("mixtral", "avx512-server", { "quant=q4_0", "kv=q8_0" }),
    lib.plan("mixtral", "avx512-server", { "quant=q4_0" })
  eq(q8.mem.kv_bytes * 64, f16.mem.kv_bytes * 34)
  eq(q8.mem.kv_part_bytes, 64 * 128 // 32 * 34)
  local p2 = lib.plan("tiny-mixtral", "avx2-desktop", { "ctx=100" })
  eq({ p2.size.ctx, p2.size.batch, p2.size.logit_rows }, { 100, 100, 32 })
  eq(lib.plan("tiny-mixtral", "avx2-desktop", { "batch=5" }).size.logit_rows, 5)
end

-- Weights stay in their file's pages where nothing else needs them in memory of its own.
function T.test_load()
  local function load_map(...) return lib.plan(...).size.load_map end
  eq(load_map("tiny-mixtral", "avx2-desktop", { "load=map" }), 1)
  eq(load_map("tiny-mixtral", "avx2-desktop", { "load=copy" }), 0)
  eq(load_map("mixtral", "avx2-desktop", { "experts_ram=30" }), 0)
  eq(load_map("tiny-mixtral", "h200"), 0)
end

function T.test_context_shrinks_to_fit_and_says_so()
  -- Weights of 7.3 GiB on 8 GiB: what is left holds some context, not all of it.
  local p = lib.plan("mixtral", "avx2-desktop")
  eq(p.notes, {})
  local lean = plan_mem.plan(p.model, p.formats, p.layout, { ctx = 1024, batch = 256, logit_rows = 32,
    kv = "f16", threads = 8 })
  p.hw.ram_usable = lean.bytes + plan_mem.OUTSIDE_BYTES + 4096
  local plan_size = require "gen.plan_size"
  local size, mem, notes = plan_size.plan(p.model, p.hw, p.formats, p.layout, {}, {})
  eq(size.ctx, 1024)
  eq(mem.bytes, lean.bytes)
  lu.assertStrContains(notes[1], "context reduced from 4096 to 1024 positions to fit")
end

function T.test_context_beyond_training_is_noted()
  local p = lib.plan("tiny-mixtral", "avx2-desktop", { "ctx=3000" })
  eq(p.notes, { "context of 3000 positions is beyond the 2048 the model was trained for" })
end

function T.test_formats()
  local m = small("bf16")
  local f = resolved(m, { quant = "q8_0", ["quant.attn"] = "f16" })
  eq(f.layers[2], { q = "f16", k = "f16", v = "f16", o = "f16", router = "f32",
    gate = "q8_0", up = "q8_0", down = "q8_0" })
  eq({ f.token_embd, f.output }, { "q8_0", "q8_0" })
  eq(resolved(m, { ["quant.router"] = "bf16" }).layers[1].router, "bf16")
  m.types = { token_embd = "f16", output = "q8_0", layers = { { q = "q4_0" }, { q = "q8_0" } } }
  local g = resolved(m)
  eq({ g.token_embd, g.layers[1].q, g.layers[2].q, g.layers[2].k }, { "f16", "q4_0", "q8_0", "bf16" })
  eq(formats_of.used(g, { "q" }), "q4_0/q8_0")
end

function T.test_blocks_of_256_fall_back_with_a_note()
  local m = small("bf16")
  local f, notes = formats_of.resolve(m, { quant = "q4_k" }, "x.lua", {})
  eq(f.layers[1].down, "q5_0")
  lu.assertStrContains(table.concat(notes, "\n"), "down: q5_0 instead of q4_k (")
  eq(#notes, 9)   -- one a matrix, whatever the layers
end

function T.test_kernels()
  local function check(isa, need_cpu, arch)
    eq(plan_kernels.plan { isa = isa }, { isa = isa, kern = "ig_kernels_" .. isa, need_cpu = need_cpu, arch = arch })
  end
  check("ref", 0, "")
  check("avx2", 1, "x86_64")
  check("avx512", 3, "x86_64")
  check("amx", 7, "x86_64")
  check("neon", 256, "aarch64")
  check("i8mm", 768, "aarch64")
end

function T.test_rate()
  -- 40 GB/s over 2 GB a token; two cores of 10 GB/s reach half of that memory.
  local r = plan_rate.plan(2000000000, { cpu_bw = 40e9, mem_bw = 40e9 })
  eq({ r.tps, r.bound }, { 20.0, "memory" })
  r = plan_rate.plan(2000000000, { cpu_bw = 20e9, mem_bw = 40e9 })
  eq({ r.tps, r.bound }, { 10.0, "cores" })
  eq(plan_rate.plan(1, { cpu_bw = 1, mem_bw = 1 }, false, 0.25).tps, 4.0)
end

function T.test_cache_covers_layers_first()
  -- The CPU alone has what has no set, so few cores cover as many layers as they can.
  local p = lib.plan("mixtral", "4090", { "quant=bf16", "batch=256" })
  p.hw.cpu_bw = 2 * 3e9
  eq(plan_cache.plan(p.model, p.hw, p.layout, p.mem).sets, 28)
end

function T.test_cache_seconds_by_hand()
  -- 1 layer, 4 experts, 1 used, slots for 1: h = sqrt(1/4) = 0.5.  Slot 1e9 B: link and CPU together
  -- 0.5e9/(20e9 + 10e9); GPU 0.5e9/100e9.
  local m = { n_layer = 1, n_layer_dense = 0, n_expert = 4, n_expert_used = 1 }
  local hw = { cpu_bw = 10e9, mem_bw = 40e9,
    gpu = { vram = 1500000000, vram_reserve = 0, vram_bw = 100e9,
            link_bw = 20e9, busy_link_bw = 20e9, busy_cpu_bw = 10e9 } }
  local layout = { resident_bytes = 4096, token_resident_bytes = 0, layers = { { expert_stride = 1000000000 } } }
  local cache = plan_cache.plan(m, hw, layout, { kv_bytes = 0, work_bytes = 0 })
  eq({ cache.sets, cache.ways, cache.slots }, { 1, 1, 1 })
  lu.assertAlmostEquals(cache.seconds, 0.5 / 30 + 0.005, 1e-12)
  -- Together they are slower than each alone.
  hw.gpu.busy_cpu_bw = 5e9
  cache = plan_cache.plan(m, hw, layout, { kv_bytes = 0, work_bytes = 0 })
  lu.assertAlmostEquals(cache.seconds, 0.5 / 25 + 0.005, 1e-12)
  eq(cache.hit_rate, 0.5)
end

function T.test_cache_holds_everything_when_it_can()
  local p = lib.plan("tiny-mixtral", "4090")
  eq({ p.cache.sets, p.cache.ways, p.cache.hit_rate }, { 7, 16, 1.0 })
end

function T.test_device_holds_everything_or_a_cache()
  local p = lib.plan("tiny-mixtral", "4090")
  local d = p.device
  eq({ d.cached, d.n_way }, { nil, 0 })
  local c = lib.plan("mixtral", "4090")
  eq({ c.device.cached, c.device.n_way }, { true, c.cache.ways })
  lu.assertTrue(c.device.bytes <= c.device.usable)
  eq(c.device.regions[#c.device.regions].name, "SLOTS")
  local asked = lib.plan("tiny-mixtral", "h200", { "vram_ways=3" })
  eq({ asked.device.cached, asked.cache.sets, asked.cache.ways }, { true, 7, 3 })
  -- f16 KV: a slice is 32 dimensions where shared memory is small, 64 on a chip for servers.
  eq({ d.attn_slice, lib.plan("qwen3-30b-a3b", "h200").device.attn_slice }, { 32, 64 })
  local at = 0
  for _, r in ipairs(d.regions) do
    if r.bytes > 0 then eq(r.off, at) end
    at = at + (r.bytes + 4095) // 4096 * 4096
  end
  eq(d.bytes, at)
  lu.assertStrContains(table.concat(d.defines, " "), "N_EMBD=256 N_HEAD=8 N_HEAD_KV=2 HEAD_DIM=32")
  eq(p.rate.bound, "VRAM")
end

function T.test_device_has_decided_on_every_field()
  local kinds, fields, decided = require "gen.device_kinds", {}, {}
  for i, field in ipairs(require("gen.model").fields) do fields[i] = field.name end
  for i, known in ipairs(kinds.KNOWN) do decided[i] = known[1] end
  table.move(kinds.ANY, 1, #kinds.ANY, #decided + 1, decided)
  lu.assertItemsEquals(fields, decided)
end

function T.test_device_says_what_it_cannot()
  local _, problems = lib.plan("switch-base-128", "h200")
  lu.assertStrContains(problems[1], "gpu: the device's kernels do not know this model; ")
  lu.assertStrContains(problems[1], "n_layer_enc: want 0, got 12")
end

function T.test_device_has_dense_models_whole()
  local desc = "../tests/fixture/dense"
  local p = lib.plan(desc, "h200")
  eq({ p.device.cached, p.device.n_way, p.cache.slots }, { nil, 0, 0 })
  lu.assertStrContains(table.concat(p.device.defines, " "), "N_EXPERT=0 N_EXPERT_USED=0")
  local _, problems = lib.plan(desc, "h200", { "vram=1000000" })
  lu.assertStrContains(problems[1],
    "vram: want at most 976.6 KiB, got 17.1 MiB: a model without experts is there as a whole")
  _, problems = lib.plan(desc, "h200", { "vram_ways=2" })
  eq(problems[1], "--set: vram_ways: want a model with experts, got a dense one")
end

function T.test_device_has_latent_attention()
  local d = lib.plan("deepseek-v2-lite", "h200").device
  local text = table.concat(d.defines, " ")
  lu.assertStrContains(text, "KV_LORA=512 Q_LORA=0 NOPE_DIM=128 V_DIM=128")
  -- The turned key has no value: slices are of the latent alone.
  eq(d.attn_slice, 64)
end

function T.test_unified_memory_holds_the_weights_once()
  local p = lib.plan("qwen3-30b-a3b", "orin")
  eq({ p.device.cached, p.device.mapped }, { nil, p.layout.data_bytes })
  for _, r in ipairs(p.device.regions) do if r.name == "DATA" then eq(r.bytes, 0) end end
  local _, problems = lib.plan("gpt-oss-120b", "orin")
  lu.assertStrMatches(problems[1],
    ".*memory: want at most 58.0 GiB %(unified: RAM is the GPU's%), got .* GiB: weights .*")
  _, problems = lib.plan("qwen3-30b-a3b", "orin", { "vram_ways=8" })
  eq(problems[1], "--set: vram_ways: want a GPU with memory of its own, got a unified one")
end

function T.test_profile_derives()
  local hw = lib.plan("tiny-mixtral", "box-8gb").hw
  eq(hw.ram_usable, (8 << 30) - (512 << 20))
  eq(hw.cpu_bw, 20000000000)
  eq(lib.plan("tiny-mixtral", "avx512-server").hw.ram_reserve, 16 << 30)
end

return T

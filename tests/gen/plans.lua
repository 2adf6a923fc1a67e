-- Sizes, memory, formats, kernels and rates against numbers worked out by hand.

local lu = require "luaunit"
local lib = require "lib"
local formats_of = require "gen.formats"
local plan_kernels = require "gen.plan_kernels"
local plan_layout = require "gen.plan_layout"
local plan_mem = require "gen.plan_mem"
local plan_rate = require "gen.plan_rate"
local plan_tier = require "gen.plan_tier"

local eq = lu.assertEquals
local T = {}

function T.test_memory_float()
  local m = lib.small("f32")
  local formats = lib.resolved(m)
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
    THREAD = 2 * 8192,    -- 384 + 20*16*4*2 + 20*8 + 2*2*18*4 + 10*32*4 = 4672, up to a page
  })
  eq(mem.thread_bytes, 8192)
  eq(mem.spare_bytes, 1280)
end

function T.test_memory_block_and_offsets()
  local m = lib.small("q8_0")
  local formats = lib.resolved(m)
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
  local m = lib.small("f32")
  m.n_ff = 24
  local formats = lib.resolved(m)
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
  local m = lib.small("bf16")
  local f = lib.resolved(m, { quant = "q8_0", ["quant.attn"] = "f16" })
  eq(f.layers[2], { q = "f16", k = "f16", v = "f16", o = "f16", router = "f32",
    gate = "q8_0", up = "q8_0", down = "q8_0" })
  eq({ f.token_embd, f.output }, { "q8_0", "q8_0" })
  eq(lib.resolved(m, { ["quant.router"] = "bf16" }).layers[1].router, "bf16")
  m.types = { token_embd = "f16", output = "q8_0", layers = { { q = "q4_0" }, { q = "q8_0" } } }
  local g = lib.resolved(m)
  eq({ g.token_embd, g.layers[1].q, g.layers[2].q, g.layers[2].k }, { "f16", "q4_0", "q8_0", "bf16" })
  eq(formats_of.used(g, { "q" }), "q4_0/q8_0")
end

function T.test_blocks_of_256_fall_back_with_a_note()
  local m = lib.small("bf16")
  local f, notes = formats_of.resolve(m, { quant = "q4_k" }, "x.lua", {})
  eq(f.layers[1].down, "q5_0")
  lu.assertStrContains(table.concat(notes, "\n"), "down: q5_0 instead of q4_k (")
  eq(#notes, 9)   -- one a matrix, whatever the layers
end

function T.test_kernels()
  local function check(isa, need_cpu, arch)
    eq(plan_kernels.plan { isa = isa },
       { isa = isa, kern = "ig_kernels_" .. isa, need_cpu = need_cpu, arch = arch })
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

function T.test_profile_derives()
  local hw = lib.plan("tiny-mixtral", "box-8gb").hw
  eq(hw.ram_usable, (8 << 30) - (512 << 20))
  eq(hw.cpu_bw, 20000000000)
  eq(lib.plan("tiny-mixtral", "avx512-server").hw.ram_reserve, 16 << 30)
end

return T

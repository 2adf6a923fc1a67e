-- Plans of a device: what is resident, the cache of experts, what is refused.

local lu = require "luaunit"
local lib = require "lib"
local plan_background = require "gen.plan_background"
local plan_cache = require "gen.plan_cache"
local plan_device = require "gen.plan_device"

local eq = lu.assertEquals
local T = {}

function T.test_cache_covers_layers_first()
  -- The CPU alone has what has no set, so few cores cover as many layers as they can.
  local p = lib.plan("mixtral", "4090", { "quant=bf16", "batch=256" })
  p.hw.cpu_bw = 2 * 3e9
  eq(plan_cache.plan(p.model, p.hw, p.layout, p.mem).sets, 28)
end

function T.test_cache_seconds_by_hand()
  -- 1 layer, 4 experts, 1 used, slots for 2: h = sqrt(2/4).  Slot 1e9 B: link and CPU together
  -- (1 - h) 1e9/(20e9 + 10e9); GPU h 1e9/100e9.
  local m, h = { n_layer = 1, n_layer_dense = 0, n_expert = 4, n_expert_used = 1 }, math.sqrt(2 / 4)
  local hw = { cpu_bw = 10e9, mem_bw = 40e9,
    gpu = { vram = 2500000000, vram_reserve = 0, vram_bw = 100e9,
            link_bw = 20e9, busy_link_bw = 20e9, busy_cpu_bw = 10e9 } }
  local layout = { resident_bytes = 4096, token_resident_bytes = 0, layers = { { expert_stride = 1000000000 } } }
  local cache = plan_cache.plan(m, hw, layout, { kv_bytes = 0, work_bytes = 0 })
  eq({ cache.sets, cache.ways, cache.slots }, { 1, 2, 2 })
  lu.assertAlmostEquals(cache.seconds, (1 - h) / 30 + h / 100, 1e-12)
  -- Together they are slower than each alone.
  hw.gpu.busy_cpu_bw = 5e9
  cache = plan_cache.plan(m, hw, layout, { kv_bytes = 0, work_bytes = 0 })
  lu.assertAlmostEquals(cache.seconds, (1 - h) / 25 + h / 100, 1e-12)
  eq(cache.hit_rate, h)
  -- One way has no room for copies behind the work: the layer waits for the link.  h = sqrt(1/4).
  hw.gpu.vram = 1500000000
  cache = plan_cache.plan(m, hw, layout, { kv_bytes = 0, work_bytes = 0 })
  eq({ cache.sets, cache.ways, cache.slots }, { 1, 1, 1 })
  lu.assertAlmostEquals(cache.seconds, 0.5 / 20 + 0.005, 1e-12)
end

function T.test_cache_holds_everything_when_it_can()
  local p = lib.plan("tiny-mixtral", "4090")
  eq({ p.cache.sets, p.cache.ways, p.cache.hit_rate }, { 7, 16, 1.0 })
end

-- The published 24 GB example (arXiv 2512.16473): BF16 experts.  Assumed: 24564 MiB of VRAM less 1920 MiB
-- reserved, 4096 positions of f16 KV.
local function published(model, ...)
  return lib.plan(model, "4090", { "quant=bf16", "quant.router=bf16", ... })
end
local function shapes(weighed)
  local list = {}
  for i, g in ipairs(weighed) do list[i] = g.sets .. " x " .. g.ways end
  return table.concat(list, ", ")
end

function T.test_published_mixtral_geometry()
  local p = published("mixtral")
  eq({ p.cache.slot_bytes, p.cache.slots, p.size.batch }, { 336 << 20, 56, 1024 })
  eq(shapes(p.cache.weighed), "28 x 2, 18 x 3, 14 x 4, 11 x 5, 9 x 6, 8 x 7, 7 x 8")
  -- Its scheme: two tokens' experts a set, the CPU computes every miss, each is copied in the background.
  local best, weighed = plan_background.plan(p.model, p.hw, p.layout, p.cache)
  eq(shapes(weighed), "14 x 4, 11 x 5, 9 x 6, 8 x 7, 7 x 8")
  eq(shapes { best, p.background }, "14 x 4, 14 x 4")
end

-- Few cores want many sets, many cores more ways: there the copies are the bottleneck.  Assumed: 3 GB/s a core, 6
-- GB/s of the link for copies of memory that is not pinned.
function T.test_published_geometry_follows_the_cores()
  local p = published("mixtral")
  p.hw.gpu.link_bw = 6e9
  local function best(cores)
    p.hw.cpu_bw = cores * 3e9
    return shapes { (plan_background.plan(p.model, p.hw, p.layout, p.cache)) }
  end
  eq({ best(1), best(4), best(16), best(24), best(64) }, { "14 x 4", "14 x 4", "11 x 5", "9 x 6", "8 x 7" })
end

function T.test_published_phi_geometry()
  local p = published("phi-3.5-moe", "batch=256")
  eq(p.cache.slot_bytes, 150 << 20)
  lu.assertTrue(p.cache.slots >= 125 and p.cache.slots <= 128, p.cache.slots)
  lu.assertStrContains(shapes(p.cache.weighed), "25 x 5, 21 x 6")
  eq(shapes { p.background }, "21 x 6")
  -- Larger batches take slots that 31 sets of 4 leave over: the default's answers are as fast.
  local default = published("phi-3.5-moe")
  eq({ default.size.batch, default.cache.sets, default.cache.ways }, { 2048, p.cache.sets, p.cache.ways })
  eq(default.cache.seconds, p.cache.seconds)
end

-- Rows of a batch against slots: 2048 rows cost Mixtral a slot and a set, which its answers feel; where they
-- cost no set, a prompt's cheaper token decides.  What was asked for is not weighed.
function T.test_batch_is_weighed_against_slots()
  local p = published("mixtral")
  local seconds = {}
  for i, w in ipairs(p.batches) do
    local q = published("mixtral", "batch=" .. w.batch)
    eq(q.batches, nil)
    seconds[i] = w.seconds
    lu.assertAlmostEquals(w.seconds, q.cache.seconds + 32 * 8 * (336 << 20) / 25e9 / w.batch, 1e-12)
  end
  eq(#seconds, 4)
  eq(p.batches[2], { batch = 1024, seconds = math.min(table.unpack(seconds)) })
  eq(published("mixtral", "batch=2048").cache.slots, 55)
  eq(lib.plan("gpt-oss-120b", "4090", { "quant=q4_0" }).size.batch, 2048)
  -- Everything resident: as many rows as a sixteenth of VRAM has room for, no more than the context.
  eq(lib.plan("mixtral", "h200").size.batch, 2048)
  eq(lib.plan("tiny-mixtral", "4090", { "ctx=600" }).size.batch, 600)
end

function T.test_fast_products_are_asked_for()
  local function fast(...)
    local plan, problems = lib.plan("mixtral", "h200", { ... })
    return plan and plan.device.fast.gemm_fast, problems[1]
  end
  eq(fast("quant=bf16"), 0)
  eq(fast("quant=bf16", "gemm=exact"), 0)
  eq(fast("quant=bf16", "gemm=fast"), 1)
  local none, why = fast("quant=q8_0", "gemm=fast")
  eq({ none, why }, { nil, "--set: gemm: fast is for matrices in bf16, and this plan has none" })
  -- The unit's own instructions, and attention, come with it.
  local function of(hw, ...)
    local f = lib.plan("mixtral", hw, { "quant=bf16", "ctx=512", ... }).device.fast
    return { f.code, f.flashes, f.row_bytes }
  end
  eq(of("h200"), { "sm_90", 0, 0 })
  eq(of("h200", "gemm=fast"), { "sm_90a", 1, 8192 })
  eq(of("h200", "gemm=fast", "kv=q8_0"), { "sm_90a", 0, 8192 })
  eq(of("a100", "gemm=fast"), { "sm_80", 1, 8192 })
  local p, reasons = lib.plan("tiny-mixtral", "h200", { "quant=bf16" }), {}
  p.model.n_ff = 200
  plan_device.plan(p.model, p.hw, p.formats, p.size, p.mem, p.layout, { gemm = "fast" }, reasons)
  eq(reasons, { "--set: gemm: fast wants rows of whole blocks of 32 values, got 200" })
end

function T.test_thresholds_of_a_batch()
  local d = lib.plan("tiny-mixtral", "h200", { "gemm_rows=4096", "tile_rows=2" }).device
  eq({ d.gemm_rows, d.tile_rows }, { 4096, 2 })
  local assumed = lib.plan("tiny-mixtral", "h200").device
  eq({ assumed.gemm_rows, assumed.tile_rows }, { 32, 32 })
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
  local why = require("gen.device_kinds").refusal { act = "gelu" }
  lu.assertStrContains(why, "gpu: the device's kernels do not know this model; ")
  lu.assertStrContains(why, "act: want swiglu or swiglu_oai or relu, got gelu")
end

function T.test_device_has_an_encoder()
  local p = lib.plan("switch-base-128", "h200")
  lu.assertStrContains(table.concat(p.device.defines, " "), "N_LAYER_ENC=12 N_REL_BUCKET=32 N_CTX=512")
  local bytes = {}
  for _, r in ipairs(p.device.regions) do bytes[r.name] = r.bytes end
  eq({ bytes.INPUT, bytes.BIAS }, { (1 + 4 * 512) * 4, 2 * 12 * (2 * 512 + 64) * 4 })
  -- A cache: sets are the decoder's; the encoder's layers need room to pass.
  p = lib.plan("../tests/fixture/switch", "h200", { "vram_ways=4" })
  eq({ p.cache.sets, p.cache.ways }, { 3, 4 })
  local _, problems = lib.plan("../tests/fixture/switch", "h200", { "vram_ways=1" })
  lu.assertStrContains(problems[1],
    "vram: want slots of 720.0 KiB for two of the encoder's layers, got 216.0 KiB in 3 sets of 1")
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

return T

-- Policies of the cache of experts on a device: one that learns, or slots filled at start (gen/plan_cache.lua,
-- plan_hot.lua).
local lu = require "luaunit"
local lib = require "lib"
local plan_cache = require "gen.plan_cache"
local plan_hot = require "gen.plan_hot"

local eq = lu.assertEquals
local T = {}

-- By hand: the first half of the trace uses experts 2, 2, 1, the second 2, 1, 0.
function T.test_hot_table_by_ways()
  local chosen = { 2, 2, 1, 2, 1, 0 }
  local trace = { n_row = 6, n_layer = 1, n_expert = 4, top_k = 1, expert = function(row) return chosen[row] end }
  local share = plan_hot.by_ways({ n_layer = 1, n_expert = 4, n_expert_used = 1 }, { 1 }, trace)
  eq(share, { 1 / 3, 2 / 3, 1, 1 })
end

-- Filled at start: a guess's share of a layer, or the trace's; all misses are the CPU's.
function T.test_static_placement()
  local text = lib.read(lib.root .. "tests/data/tiny-route.trace")
  local function plan(option, texts)
    return lib.plan("tiny-mixtral", "4090", { "vram_ways=4", "policy=static", option }, texts)
  end
  local p = plan()
  eq({ p.cache.policy, p.cache.hit_rate, p.cache.traced }, { "static", 4 / 16, false })
  local missed = 7 * 2 * 12 / 16 * p.cache.slot_bytes / p.hw.cpu_bw
  lu.assertAlmostEquals(p.cache.seconds - missed,
    (p.layout.token_resident_bytes + 7 * 2 * 4 / 16 * p.cache.slot_bytes) / p.hw.gpu.vram_bw, 1e-12)
  local files = lib.files(p)
  lu.assertStrContains(files["config.h"], "#define IG_XC_STATIC     1")
  lu.assertStrContains(files["config.h"], "#define IG_POLICY_HOT     ig_xc_hot")
  local traced = plan("trace=x", { trace = text })
  lu.assertTrue(traced.cache.hit_rate > 4 / 16)
  eq(#traced.cache.hot, 7 * 16)
  lu.assertNotEquals(lib.files(traced)["tables.c"], files["tables.c"])
  -- Beside the cache that learns, for who reads the plan.
  p = lib.plan("tiny-mixtral", "4090", { "vram_ways=4", "trace=x" }, { trace = text })
  eq({ p.placed.seconds, p.placed.traced, p.cache.hot }, { traced.cache.seconds, true, nil })
end

-- A slow link fills a set for long, so that its counts have to last.
function T.test_half_life_follows_the_link()
  local p = lib.plan("qwen3-30b-a3b", "4090", { "quant=q4_0", "vram=6000000000" })
  eq(p.device.half_life, 16)
  p.hw.gpu.link_bw, p.cache.seconds = 3e9, 4e-3 -- 12 MB a token, for 48 sets: a tenth of an expert each
  eq(plan_cache.half_life(p.hw, p.cache), 64)
  p.cache.seconds = 24e-3
  eq(plan_cache.half_life(p.hw, p.cache), 16)
end

function T.test_policies_of_a_device()
  local function why(...) return select(2, lib.plan("tiny-mixtral", "4090", { ... }))[1] end
  lu.assertStrContains(why("vram_ways=4", "policy=lru"),
    "--set: policy: want decay or static for a cache in VRAM, got lru")
  lu.assertStrContains(why("policy=static"), "--set: policy: want experts that do not all fit VRAM")
  eq(why("vram_ways=4", "policy=decay"), nil)
end

return T

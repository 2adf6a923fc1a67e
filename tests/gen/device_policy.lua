-- Policies of the cache of experts on a device: one that learns, or slots filled at start (gen/plan_cache.lua,
-- plan_hot.lua).
local lu = require "luaunit"
local lib = require "lib"
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
  eq({ p.placed.seconds, p.placed.traced }, { traced.cache.seconds, true })
end

-- A cache that learns begins with the trace's most used experts, whose uses it counts as shares of the rows.
function T.test_a_cache_begins_with_a_trace()
  local text = lib.read(lib.root .. "tests/data/tiny-route.trace")
  local function plan(...) return lib.plan("tiny-mixtral", "4090", { ... }, { trace = text }) end
  local p = plan("vram_ways=4", "trace=x")
  local sum = 0
  for x = 1, 16 do sum = sum + p.cache.hot[x] end
  lu.assertAlmostEquals(sum, 2, 1e-9) -- layer 0 chooses two a row
  local files = lib.files(p)
  lu.assertStrContains(files["config.h"], "#define IG_XC_STATIC     0")
  lu.assertStrContains(files["config.h"], "#define IG_POLICY_HOT     ig_xc_hot")
  lu.assertStrContains(files["tables.c"], "const float ig_xc_hot[")
  -- What is all resident has none.
  files = lib.files(plan("trace=x"))
  lu.assertNotStrContains(files["config.h"], "IG_POLICY_HOT")
  lu.assertNotStrContains(files["tables.c"], "ig_xc_hot")
end

-- A slow link fills a set for long, so that its counts have to last; the longer with a trace behind them.
function T.test_fades()
  local text = lib.read(lib.root .. "tests/data/tiny-route.trace")
  local p = lib.plan("tiny-mixtral", "4090", { "vram_ways=4" })
  lu.assertAlmostEquals(p.cache.fade ^ 16, 0.5, 1e-9)
  lu.assertAlmostEquals(p.cache.fade_slow ^ 64, 0.5, 1e-9)
  p = lib.plan("tiny-mixtral", "4090", { "vram_ways=4", "trace=x" }, { trace = text })
  lu.assertAlmostEquals(p.cache.fade ^ 16, 0.5, 1e-9)
  lu.assertAlmostEquals(p.cache.fade_slow ^ 256, 0.5, 1e-9)
end

function T.test_policies_of_a_device()
  local function why(...) return select(2, lib.plan("tiny-mixtral", "4090", { ... }))[1] end
  lu.assertStrContains(why("vram_ways=4", "policy=lru"),
    "--set: policy: want decay or static for a cache in VRAM, got lru")
  lu.assertStrContains(why("policy=static"), "--set: policy: want experts that do not all fit VRAM")
  eq(why("vram_ways=4", "policy=decay"), nil)
end

return T

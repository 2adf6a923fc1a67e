-- Where experts live: geometries, what a trace says, sizes that others published, refusals.

local lu = require "luaunit"
local lib = require "lib"
local plan_hit = require "gen.plan_hit"
local plan_hot = require "gen.plan_hot"
local plan_prefetch = require "gen.plan_prefetch"
local plan_ways = require "gen.plan_ways"

local eq = lu.assertEquals
local T = {}

-- Slots are dealt to sets in runs of layers; the left-over ones go to the first sets.
function T.test_tier_geometry()
  local p = lib.plan("mixtral", "avx2-desktop", { "experts_ram=30", "sets=16" })
  local t = p.size.tier
  eq({ t.kind, t.n_slot, t.n_set, t.ways[1], t.ways[12], t.ways[13] }, { "disk", 76, 16, 5, 5, 4 })
  eq({ t.set_of[1], t.set_of[2], t.set_of[3], t.set_of[32] }, { 0, 0, 1, 15 })
  eq({ t.first[1], t.first[2], t.first[17] }, { 0, 5, 76 })
  eq(p.mem.expert_bytes // t.slot_bytes, 76)
end

-- Three experts in turn through two ways: recency never hits, and a perfect fit always does.
function T.test_hit_rate_of_a_trace()
  local m = { n_layer = 1, n_expert = 4, n_expert_used = 1 }
  local trace = { n_row = 400, n_layer = 1, n_expert = 4, top_k = 1, expert = function(row) return row % 3 end }
  local function rate(ways)
    return plan_hit.rate(m, { n_set = 1, n_slot = ways, set_of = { 0 }, ways = { ways }, moe = { 1 } }, "lru", trace)
  end
  eq({ rate(2), rate(3) }, { 0.0, 1.0 })
end

function T.test_traces()
  local trace, problems = require "gen.trace", {}
  local csv = "# route_trace v1\n# model=x n_layer=2 n_expert=8 n_expert_used=2\nturn,phase,step,layer,slot,expert\n"
    .. "0,0,0,0,0,7,0.6,0,1\n0,0,0,0,1,3,0.4,0,1\n0,1,0,0,0,2,1,0,1\n0,0,0,1,0,1,0.6,0,1\n"
  local t = trace.parse(csv, "t.csv", { n_expert = 8, n_expert_used = 2 }, problems)
  eq(problems, {})
  eq({ t.n_row, t.expert(1, 1, 1), t.expert(1, 1, 2), t.expert(1, 2, 1), t.expert(2, 1, 1) }, { 2, 7, 3, 1, 2 })
  eq(t.expert(1, 2, 2), nil)
  trace.parse(csv, "t.csv", { n_expert = 8, n_expert_used = 4 }, problems)
  trace.parse("MOETRC02", "t", nil, problems)
  -- Sizes whose product wraps, numbers that are none.
  local huge = 1 << 31
  lu.assertNil(trace.parse("MOETRC01" .. ("<I4I4I4I4"):pack(huge, huge, 16, 2) .. "\0\0\0\0", "t", nil, {}))
  lu.assertNil(trace.parse("MOETRC02" .. ("<I4I4I4I4I4I4"):pack(1, 0, huge, 16, huge, 0) .. ("<I4"):pack(huge) ..
                           ("\0"):rep(16), "t", nil, {}))
  local head, long = "# n_layer=%s n_expert=16 n_expert_used=2\n0,0,0,%s,0,%s,", ("9"):rep(20)
  for _, bad in ipairs { { long, 0, 1 }, { 2, long, 1 }, { 2, 0, long }, { 2, 2, 1 }, { 2, 0, 16 } } do
    lu.assertNil(trace.parse(head:format(table.unpack(bad)), "t", nil, {}))
  end
  lu.assertEquals(trace.parse(head:format(2, 1, 3), "t", nil, {}).expert(1, 2, 1), 3)
  eq(problems, { "t.csv: trace: want 8 experts, 4 used, as the model's, got 8, 2 used",
                 "t: trace: want a route CSV, MOETRC01 or MOETRC02, got none" })
end


-- Two layers of three experts, one used: rows 0 0 0 1 | 0 0 2 2 in the first, all 1 in the second.
local function fixed_trace()
  local first = { 0, 0, 0, 1, 0, 0, 2, 2 }
  return { n_row = 8, n_layer = 2, n_expert = 3, top_k = 1,
           expert = function(row, layer) return layer == 1 and first[row] or 1 end }
end

function T.test_the_hot_table_of_a_trace()
  local m, moe = { n_layer = 2, n_expert = 3, n_expert_used = 1 }, { 1, 2 }
  eq(plan_hot.uses(m, moe, fixed_trace()), { 5, 1, 2, 0, 8, 0 })
  eq(plan_hot.uses(m, { 1 }, fixed_trace()), { 5, 1, 2, 0, 0, 0 })   -- a dense second layer
end

-- Predicted by the table of the first half, on the second: not by what it was counted in.
function T.test_hit_rate_of_a_hot_table()
  local m = { n_layer = 2, n_expert = 3, n_expert_used = 1 }
  local function rate(n_set, ways)
    return plan_hit.rate(m, { n_set = n_set, n_slot = n_set * ways[1], set_of = n_set == 2 and { 0, 1 } or { 0, 0 },
      ways = ways, moe = { 1, 2 } }, "static", fixed_trace())
  end
  eq(rate(2, { 1, 1 }), 6 / 8)     -- expert 0 twice of four, expert 1 always
  eq(rate(1, { 1 }), 4 / 8)        -- the second layer's alone
  eq(rate(2, { 3, 3 }), 1.0)
end

function T.test_static_wants_a_trace_and_takes_its_table()
  local _, problems = lib.plan("tiny-mixtral", "avx2-desktop", { "experts_ram=25", "policy=static" })
  eq(problems, { "--set: policy: static wants trace=FILE, whose most used experts it keeps, got none" })
  local text = lib.read(lib.root .. "tests/data/tiny-route.trace")
  local p = lib.plan("tiny-mixtral", "avx2-desktop", { "experts_ram=25", "policy=static", "trace=x" }, { trace = text })
  local sum = 0
  for _, n in ipairs(p.size.tier.hot) do sum = sum + n end
  local rows = require("gen.trace").parse(text, "x", p.model, {}).n_row
  eq(sum, rows * p.model.n_layer * p.model.n_expert_used)
  lu.assertStrContains(lib.files(p)["config.h"], "#define IG_POLICY_HOT     ig_xc_hot")
  lu.assertStrContains(lib.files(p)["tables.c"], "const float ig_xc_hot[IG_N_LAYER * IG_N_EXPERT] = {")
end

-- A layer that always chooses one expert needs one way, one that goes round three needs three.
function T.test_ways_by_layer()
  local m = { n_layer = 2, n_expert = 4, n_expert_used = 1 }
  local trace = { n_row = 60, n_layer = 2, n_expert = 4, top_k = 1,
                  expert = function(row, layer) return layer == 1 and 2 or row % 3 end }
  eq(plan_ways.by_layer(m, { 1, 2 }, 4, "lru", trace), { 1, 3 })
  eq(plan_ways.by_layer(m, { 1, 2 }, 7, "lru", trace), { 4, 3 })   -- nobody wants the rest: the first has it
  eq(plan_ways.by_layer(m, { 1, 2 }, 9, "lru", trace), { 4, 4 })
  eq(plan_ways.by_layer(m, { 1, 2 }, 1, "lru", trace), nil)
  local text = lib.read(lib.root .. "tests/data/tiny-route.trace")
  local set = { "experts_ram=25", "ways=layers", "trace=x" }
  local t, sum = lib.plan("tiny-mixtral", "avx2-desktop", set, { trace = text }).size.tier, 0
  for l, ways in ipairs(t.ways) do
    sum = sum + ways
    eq(t.first[l + 1], sum)
    lu.assertTrue(ways >= 2)
  end
  eq({ t.n_set, sum }, { 7, 28 })
  local _, problems = lib.plan("tiny-mixtral", "avx2-desktop", { "experts_ram=25", "ways=layers" })
  eq(problems, { "--set: ways: layers wants trace=FILE, by whose hits slots are dealt out, got none" })
  set[4] = "sets=2"
  _, problems = lib.plan("tiny-mixtral", "avx2-desktop", set, { trace = text })
  eq(problems, { "--set: ways: layers wants a set a layer, 7, got sets=2" })
end

-- Six experts in turn through four ways: what goes by the past hits nothing, a fixed table two thirds.
function T.test_the_policy_is_chosen_by_the_trace()
  local rows, bytes = 300, {}
  for row = 0, rows - 1 do bytes[row + 1] = string.char(row % 3 * 2, row % 3 * 2 + 1):rep(7) end
  local text = "MOETRC01" .. ("<I4I4I4I4"):pack(rows, 7, 16, 2) .. ("\0"):rep(8 + 4 * rows) .. table.concat(bytes)
  local p = lib.plan("tiny-mixtral", "avx2-desktop", { "experts_ram=25", "sets=7", "trace=x" }, { trace = text })
  local t = p.size.tier
  eq({ t.policy, t.n_spare, t.policies[1].name, t.policies[1].hit }, { "static", 2, "echo", 0.0 })
  lu.assertAlmostEquals(t.hit, 2 / 3, 1e-12)
  eq(#t.hot, 7 * 16)
  -- One that was asked for stays, and the others' rates are said all the same.
  p = lib.plan("tiny-mixtral", "avx2-desktop", { "experts_ram=25", "policy=lru", "trace=x" }, { trace = text })
  eq({ p.size.tier.policy, #p.size.tier.policies }, { "lru", 3 })
end

function T.test_prefetch_stride()
  -- 2 experts of 100 MB over 25 GB/s are 8 ms; a layer computes for 3 ms: 2.67, so 3.
  eq(plan_prefetch.stride(2, 100000000, 25e9, 3e-3), 3)
  eq(plan_prefetch.stride(2, 100000000, 25e9, 1.0), 1)
  eq(plan_prefetch.stride(2, 100000000, 25e9, 1e-6), 8)
  local p = lib.plan("mixtral", "4090")
  eq(#p.strides, 32)
end


-- Bounds are those of a link four times faster and four times slower than measured.
function T.test_stride_bounds()
  local function bounds(s) return { plan_prefetch.bounds(s) } end
  eq({ bounds(0.1), bounds(0.8), bounds(1.5), bounds(5), bounds(40) },
    { { 1, 1 }, { 1, 4 }, { 1, 6 }, { 2, 8 }, { 2, 8 } })
end

function T.test_strides_of_a_tier()
  -- Of 2 experts 1 misses; 3 MB over 1 GB/s are 3 ms, a layer computes for 2 ms: 1.5 layers.  The dense one: none.
  local m, hw = { n_expert_used = 2 }, { disk_bw = 1e9 }
  local layout = { layers = { { n_expert = 0, expert_stride = 0 }, { n_expert = 8, expert_stride = 3000000 },
    { n_expert = 8, expert_stride = 3000000 } } }
  local tier = { hit = 0.5, pace = { compute_s = 4e-3 }, moe = { 2, 3 }, set_of = { 0, 0, 1 }, ways = { 2, 2 } }
  local function strides(opts) return plan_prefetch.of_tier(m, hw, layout, opts, tier, 2) end
  eq(strides {}, { { 1, 1, 1 }, { 2, 1, 6 }, { 2, 1, 6 } })
  eq(strides { stride = 5 }, { { 1, 1, 1 }, { 5, 2, 8 }, { 5, 2, 8 } })
  -- One set for both: what is fetched for later layers leaves the ways of the layer at hand.
  tier.set_of, tier.ways = { 0, 0, 0 }, { 6 }
  eq(strides {}, { { 1, 1, 1 }, { 2, 1, 2 }, { 2, 1, 2 } })
  local p = lib.plan("tiny-mixtral", "avx2-desktop", { "experts_ram=25", "stride=3", "predict=hybrid" })
  lu.assertStrContains(lib.files(p)["tables.c"], "const uint8_t ig_xc_stride[IG_N_LAYER][3] = {\n    { 3, 1, 8 }, ")
end

-- Every set of a geometry must hold the choices of all its layers: else a slot is taken again before its
-- layer returns, and the hit rate is 0 by construction.
function T.test_a_set_that_cannot_hold_its_layers_is_refused()
  local function why(set)
    local p, problems = lib.plan("mixtral", "avx2-desktop", set)
    return p, table.concat(problems, "\n")
  end
  local p = why { "experts_ram=25", "sets=32" }
  eq({ p.size.tier.n_set, p.size.tier.ways[1] }, { 32, 2 })
  p = why { "experts_ram=25", "sets=1" }
  eq(p.size.tier.ways[1], 64)
  -- 65 slots in 3 sets: 22, 22 and 21 ways for 11, 11 and 10 layers; in 5, the 13 of a set of 7 layers are too few.
  p = why { "experts_ram=25.5", "sets=3" }
  eq(p.size.tier.ways, { 22, 22, 21 })
  local none, text = why { "experts_ram=25.5", "sets=5" }
  eq(none, nil)
  lu.assertStrContains(text, "cache: want at least 14 ways in a set of 7 layers that choose 2 experts each, got 13: "
    .. "a slot would be taken again before its layer returns, and nothing would hit")
end

function T.test_a_pool_smaller_than_a_token_is_refused()
  local function least(set)
    local p, problems = lib.plan("mixtral", "avx2-desktop", set)
    return p and p.size.tier.n_slot or problems[1]:match("cache: .*")
  end
  eq(least { "experts_ram=25" }, 64)   -- 32 layers x 2 experts: the fewest
  lu.assertStrContains(least { "experts_ram=24.9" }, "want at least 64 slots (32 layers x 2 experts a token, ")
  lu.assertStrContains(least { "experts_ram=24.9" }, "), got 63 (--set experts_ram, percent: want 25 or more)")
  -- In VRAM too: a set holds a token's experts.
  local _, problems = lib.plan("mixtral", "4090", { "vram_ways=1" })
  eq(problems, { "--set vram_ways: want 2 to 8, got 1" })
end

return T

-- gen/plan_cache.lua -- VRAM: what is resident, and the expert cache in the rest.
--
-- One set per cached layer, so that one layer's misses never evict another's
-- experts.  The S slots that fit are cut into N sets of M ways, N = S / M, and
-- each M is weighed:
--   * a covered layer hits with h = sqrt(M / experts): for 2 of 8 that is the
--     0.5 published for Mixtral (40 to 60 % reuse at the next token);
--   * a hit is read from VRAM;
--   * a miss crosses the link into its slot or is computed by the CPU and copied
--     behind the work, so that both end together; both read RAM, which may be the slower;
--   * all experts of a layer without a set are the CPU's;
--   * below 2k ways there are none for copies behind the work: the link brings each
--     miss while its layer waits.  (H200, Mixtral in 56 slots: 14 x 4 takes 25 to 27 ms where
--     28 x 2 takes 30 to 39; bench/results/h200/cache_mixtral.csv, of half the layers.)
-- The paper copies every miss that the CPU computes, with the same 2k (arXiv 2512.16473).
-- Given a trace, each set is filled at start with the layer's most used experts, which count as if the trace had
-- gone on for ever.  Policy static is the placement of engines without such a cache: it fills the sets so, or with
-- the first experts, and they stay; the CPU computes all misses.

local num = require "gen.num"
local plan_hot = require "gen.plan_hot"
local plan_kinds = require "gen.plan_kinds"

local M = {}

--- Share of a covered layer's choices that hit.
function M.hit_rate(ways, n_expert)
  return math.sqrt(ways / n_expert)
end

M.POLICY = "decay"     -- what a set replaces: kernels/cuda/place.cu

-- Hit rates by ways: the curve above; policy static keeps what the trace says, or anybody's guess.
local function rates(m, layout, policy, trace)
  if policy ~= "static" then return function(ways) return M.hit_rate(ways, m.n_expert) end end
  if not trace then return function(ways) return ways / m.n_expert end end
  local share = plan_hot.by_ways(m, plan_kinds.layers(layout), trace)
  return function(ways) return share[ways] end
end

local function geometry(m, hw, from, ways)
  local slot, layers = from.slot, from.layers
  local sets = math.min(from.slots // ways, from.cached)
  local hits = sets * m.n_expert_used * from.hit(ways)
  local missed = layers * m.n_expert_used - hits
  local alone = from.policy == "static" and missed or (layers - sets) * m.n_expert_used -- the CPU's
  local both_bw = math.min(hw.mem_bw, hw.gpu.busy_link_bw + hw.gpu.busy_cpu_bw)
  local gpu_s = from.resident_s + hits * slot / hw.gpu.vram_bw
  local cpu_s = alone * slot / hw.cpu_bw
  local miss_s = math.max(cpu_s, missed * slot / both_bw)
  if from.policy ~= "static" and ways < 2 * m.n_expert_used then
    miss_s = cpu_s + (missed - alone) * slot / hw.gpu.link_bw
  end
  return { sets = sets, ways = ways, hit_rate = hits / (layers * m.n_expert_used), seconds = gpu_s + miss_s }
end

-- Tokens until a use counts half in the choice of victims (docs/POLICIES.md).  Over a link that is found slow at
-- start (runtime/model/miss_plan.c) a set is filled for long; with a trace's counts to begin with, what it has is
-- worth more than the last tokens say.  Simulated for 3 GB/s, bench/LOG.tsv.
M.HALF_LIFE, M.HALF_LIFE_SLOW, M.HALF_LIFE_TRACED = 16, 64, 256

-- What is left of a use after a token: over a fast link, over a slow one.
local function fades(traced)
  return 2 ^ (-1 / M.HALF_LIFE), 2 ^ (-1 / (traced and M.HALF_LIFE_TRACED or M.HALF_LIFE_SLOW))
end

-- Every M that holds a token's own experts; the fastest, and on a tie the one with more ways.
local function choose(m, hw, from)
  local weighed, best = {}, nil
  local least, most = from.ways or m.n_expert_used, from.ways or math.min(m.n_expert, from.slots)
  for ways = least, most do
    local g = geometry(m, hw, from, ways)
    weighed[#weighed + 1] = g
    if not best or g.seconds <= best.seconds then best = g end
  end
  return best, weighed
end

-- Of a dense model whose weights are all in VRAM.
M.NONE = { slots = 0, sets = 0, ways = 0, slot_bytes = 0, bytes = 0, weighed = {}, hit_rate = 1.0 }

--- @param m      table  a checked model
--- @param hw     table  a checked profile with a GPU
--- @param layout table  of gen/plan_layout.lua
--- @param mem    table  { kv_bytes, work_bytes }
--- @param usable integer?  bytes of VRAM (nil: the profile's)
--- @param opts   table?    of gen/options.lua: ways of a set, policy
--- @param trace  table?    of gen/trace.lua
--- @return table? cache, string? why_not
function M.plan(m, hw, layout, mem, usable, opts, trace)
  local gpu = hw.gpu
  if m.n_expert == 0 then return nil, "cache: want a model with experts, got a dense one" end
  local fixed = {
    { name = "RESIDENT", bytes = layout.resident_bytes },
    { name = "KV",       bytes = mem.kv_bytes },
    { name = "WORK",     bytes = mem.work_bytes },
  }
  local at = 0
  for _, region in ipairs(fixed) do
    region.off = at
    at = at + num.align_up(region.bytes, 4096)
  end
  usable = usable or gpu.vram - gpu.vram_reserve
  if at > usable then
    return nil, ("vram: want at most %s (%s less %s reserved), got %s: resident weights %s, KV %s, work %s")
      :format(num.human(usable), num.human(gpu.vram), num.human(gpu.vram_reserve), num.human(at),
        num.human(layout.resident_bytes), num.human(mem.kv_bytes), num.human(mem.work_bytes))
  end
  local slot, layers, cached = plan_kinds.for_cache(m, layout)
  if slot == 0 then
    return nil, ("cache: want experts below %s or in over %.0f %% of a layer's calls, got none")
      :format(num.human(plan_kinds.SMALL_BYTES), 100 * plan_kinds.FREQUENT)
  end
  local slots = (usable - at) // slot
  if slots < m.n_expert_used then
    return nil, ("cache: want %d expert slots of %s for one layer's choice, got %d in %s of VRAM")
      :format(m.n_expert_used, num.human(slot), slots, num.human(usable - at))
  end
  local ways = opts and opts.vram_ways
  if ways and (ways < m.n_expert_used or ways > math.min(m.n_expert, slots)) then
    return nil, ("--set vram_ways: want %d to %d, got %d"):format(m.n_expert_used, math.min(m.n_expert, slots), ways)
  end
  local policy = opts and opts.policy or M.POLICY
  local best, weighed = choose(m, hw, { slot = slot, slots = slots, layers = layers, cached = cached, ways = ways,
    policy = policy, hit = rates(m, layout, policy, trace),
    resident_s = layout.token_resident_bytes / gpu.vram_bw })
  local cache = {
    slots = slots, slot_bytes = slot, sets = best.sets, ways = best.ways, seconds = best.seconds,
    hit_rate = best.hit_rate, weighed = weighed, regions = fixed,
    bytes = best.sets * best.ways * slot, policy = policy, traced = trace ~= nil,
  }
  cache.fade, cache.fade_slow = fades(cache.traced)
  if trace or policy == "static" then
    cache.hot = plan_hot.rates(m, plan_kinds.layers(layout), trace or { n_row = 0 })
  end
  cache.stream_seconds = layers * m.n_expert * slot / gpu.link_bw -- all experts once, for a batch
  fixed[#fixed + 1] = { name = "SLOTS", off = at, bytes = cache.bytes }
  cache.vram_bytes = at + cache.bytes
  return cache
end

return M

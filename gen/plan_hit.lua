-- gen/plan_hit.lua -- how often the cache hits: from a routing trace, or from a stated curve.
--
-- With a trace: its rows are run through the geometry with the victim of least
-- decayed frequency (runtime/cache/policy_decay.c) or of least recent use; the first
-- half only warms (as bench/tier.sh does).  static is predicted by a hot table of that half; other policies as
-- decayed frequency.

local plan_hot = require "gen.plan_hot"

local M = {}

M.HALF_LIFE = 16      -- as policy_decay.c
M.MOST_ROWS = 2048    -- of a trace: enough for half a point, and seconds

-- Share of the experts in slots -> hit rate of decayed frequency, per-layer sets: an
-- open 16-layer model with 64 experts and flat routing (bench/results/replay).
M.CURVE = { { 0, 0 }, { 0.1875, 0.418 }, { 0.25, 0.5185 }, { 0.375, 0.6704 }, { 0.5, 0.78 },
            { 0.75, 0.9254 }, { 1, 1 } }
-- What sharing sets loses of the misses' complement, one set for all layers (the same study).
M.SHARED_LOSS = 0.1

local function curve(share)
  for i = 2, #M.CURVE do
    local a, b = M.CURVE[i - 1], M.CURVE[i]
    if share <= b[1] then return a[2] + (b[2] - a[2]) * (share - a[1]) / (b[1] - a[1]) end
  end
  return 1
end

local function stated(m, g)
  local layers = #g.moe
  local share = g.n_slot / (layers * m.n_expert)
  local shared = layers > 1 and math.log(layers / g.n_set) / math.log(layers) or 0
  return curve(share) * (1 - M.SHARED_LOSS * shared * (1 - share))
end

-- One set: ids in it, when each was used last, how hot it is.
local function victim(set, heat, used, pinned)
  local best
  for i, id in ipairs(set) do
    if not pinned[id] then
      local b = best and set[best]
      if not b or heat[id] < heat[b] or (heat[id] == heat[b] and used[id] < used[b]) then best = i end
    end
  end
  return best
end

local function replay(m, g, lru, trace)
  local sets, at, heat, used = {}, {}, {}, {}
  for s = 1, g.n_set do sets[s] = {} end
  local clock, one, growth = 0, 1.0, 2 ^ (1 / M.HALF_LIFE)
  local rows, k, hits, uses = math.min(trace.n_row, M.MOST_ROWS), trace.top_k, 0, 0
  for row = 1, rows do
    one = one * growth
    local counted = row > rows // 2
    for _, layer in ipairs(g.moe) do
      local set = g.set_of[layer] + 1
      local slots, ways, pinned, missed = sets[set], g.ways[set], {}, {}
      for rank = k, 1, -1 do
        local expert = trace.expert(row, (layer - 1) % trace.n_layer + 1, rank)
        if expert then
          local id = (layer - 1) * m.n_expert + expert
          clock = clock + 1
          used[id], heat[id] = clock, lru and 0 or (heat[id] or 0) + one
          if at[id] then pinned[id] = true else missed[#missed + 1] = id end
          if counted then uses, hits = uses + 1, hits + (at[id] and 1 or 0) end
        end
      end
      for _, id in ipairs(missed) do
        local place = #slots < ways and #slots + 1 or victim(slots, heat, used, pinned)
        if slots[place] then at[slots[place]] = nil end
        slots[place], at[id], pinned[id] = id, true, true
      end
    end
    if one > 2 ^ 900 then
      for id = 0, m.n_layer * m.n_expert - 1 do heat[id] = heat[id] and heat[id] * 2.0 ^ -900 end
      one = one * 2.0 ^ -900
    end
  end
  return uses > 0 and hits / uses or 0
end

--- @param g     table   a geometry: n_set, n_slot, set_of, ways, moe (its layers)
--- @param trace table?  { n_row, n_layer, n_expert, top_k, expert = function(row, layer, rank) }
function M.rate(m, g, policy, trace)
  if not trace then return stated(m, g) end
  local rows = math.min(trace.n_row, M.MOST_ROWS)
  if policy == "static" then return plan_hot.rate(m, g, trace, rows // 2, rows) end
  return replay(m, g, policy == "lru" or policy == "lru2", trace)
end

return M

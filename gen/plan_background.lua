-- gen/plan_background.lua -- the published expert cache in VRAM, weighed beside ours (arXiv 2512.16473).
--
-- There the CPU computes every miss, and each miss of a layer with a set is also copied into it in the background:
--   * a set has at least 2k ways: k experts are in use while the k before them may still be arriving, and
--     a way in use or being filled is never a victim;
--   * a token takes as long as the slower of the CPU, which computes all misses, and the link, which
--     copies those of the layers with a set; hits, and what is resident, are read from VRAM on top.
-- So few cores want many sets (the CPU alone has the layers without one), many cores want more ways
-- (the copies are the bottleneck).

local plan_cache = require "gen.plan_cache"
local plan_kinds = require "gen.plan_kinds"

local M = {}

--- @param cache table  of gen/plan_cache.lua: slots, slot_bytes
--- @return table? best { sets, ways, seconds }, table weighed   (nil: the slots do not hold one set)
function M.plan(m, hw, layout, cache)
  local _, layers, cached = plan_kinds.for_cache(m, layout)
  local k, slot, best, weighed = m.n_expert_used, cache.slot_bytes, nil, {}
  for ways = 2 * k, math.min(m.n_expert, cache.slots) do
    local sets = math.min(cache.slots // ways, cached)
    local hits = sets * k * plan_cache.hit_rate(ways, m.n_expert)
    local cpu_s = (layers * k - hits) * slot / hw.cpu_bw
    local link_s = (sets * k - hits) * slot / hw.gpu.link_bw
    local gpu_s = (layout.token_resident_bytes + hits * slot) / hw.gpu.vram_bw
    local g = { sets = sets, ways = ways, seconds = gpu_s + math.max(cpu_s, link_s) }
    weighed[#weighed + 1] = g
    if not best or g.seconds < best.seconds then best = g end
  end
  return best, weighed
end

return M

-- gen/plan_pace.lua -- what a token takes when experts come from disk.
--
-- The bound: the slower of the bytes that miss over the disk's rate and the bytes
-- that are read over memory's.  A layer's misses are known only when its router
-- has run, so without prefetch what a layer computes before and after its misses
-- arrive comes on top: everything but the work on its hits.

local M = {}

M.MISS_S = 120e-6   -- of a layer with misses: wake-ups and the last piece's checksum; bench/results

-- Chance that none of a layer's k choices misses.
local function all_hit(hit, k)
  return hit ^ k
end

--- @param n_layer integer  layers with experts
function M.plan(m, hw, layout, hit, n_layer)
  local slot = layout.token_expert_bytes / (n_layer * m.n_expert_used)
  local k = m.n_expert_used
  local missed = (1 - hit) * k                        -- a layer
  local disk_s = missed * n_layer * slot / hw.disk_bw
  local mem_s = layout.token_bytes / hw.cpu_bw
  -- Two thirds of an expert (gate, up) can be computed while others arrive; the rest of
  -- the layer waits for the last one.
  local hits_s = hit * k * slot * 2 / 3 / hw.cpu_bw
  local with = 1 - all_hit(hit, k)                    -- share of the layers that miss
  local overlap = with > 0 and math.min(disk_s / n_layer, with * hits_s) or 0
  local seconds = mem_s + disk_s + n_layer * (with * M.MISS_S - overlap)
  return { disk_s = disk_s, mem_s = mem_s, bound_s = math.max(disk_s, mem_s), seconds = seconds,
           stall_s = seconds - mem_s, missed_bytes = missed * n_layer * slot }
end

return M

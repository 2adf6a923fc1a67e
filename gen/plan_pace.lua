-- gen/plan_pace.lua -- what a token takes when experts come from disk.
--
-- The bound: the slower of the bytes that miss over the disk's rate and the bytes
-- that are read over memory's.  A layer's misses are known only when its router
-- has run.  While they are read, the layer's other experts are computed; what is
-- left of the reading, the disk's latency and the checksum of what arrives last
-- come on top.

local M = {}

M.EFFICIENCY = 0.86   -- of memory's rate, what decode reaches with all experts there: bench/results/2core/tier.csv

-- Chance that none of a layer's k choices misses.
local function all_hit(hit, k)
  return hit ^ k
end

--- @param n_layer integer  layers with experts
--- @param copies  table    piece_bytes and depth: how the disk is read
function M.plan(m, hw, layout, hit, n_layer, copies)
  local slot = layout.token_expert_bytes / (n_layer * m.n_expert_used)
  local k = m.n_expert_used
  local missed = (1 - hit) * k                        -- a layer
  local disk_s = missed * n_layer * slot / hw.disk_bw
  local mem_s = layout.token_bytes / hw.cpu_bw
  local compute_s = mem_s / M.EFFICIENCY
  local with = 1 - all_hit(hit, k)                    -- share of the layers that miss
  local stall_s = 0
  if with > 0 then
    local bytes = missed * slot / with                -- of a layer that misses
    local last = math.min(bytes, copies.piece_bytes * copies.depth)
    local overlap = (k - missed / with) * slot / hw.cpu_bw / M.EFFICIENCY
    local wait = hw.disk_latency * 1e-9 + bytes / hw.disk_burst_bw + last / hw.hash_bw
    stall_s = n_layer * with * math.max(0, wait - math.max(0, overlap))
  end
  return { disk_s = disk_s, mem_s = mem_s, compute_s = compute_s, bound_s = math.max(disk_s, mem_s),
           stall_s = stall_s, seconds = compute_s + stall_s, missed_bytes = missed * n_layer * slot }
end

return M

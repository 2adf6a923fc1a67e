-- gen/plan_prefetch.lua -- how many layers ahead of the compute the copies work.
--
-- S = Ne * Es / (Cs * Tl): the time the link takes for the Ne experts that are
-- expected to be needed, over one layer's compute time.  The plan says where the
-- run-time controller (runtime/cache/stride.c) starts, and between which bounds it
-- may move: those of a link so many times faster or slower than measured.

local M = {}

M.LEAST, M.MOST = 1, 8
M.SPREAD = 4   -- a link that others use; a file that is in the page cache

local function layers(x)
  return math.max(M.LEAST, math.min(M.MOST, math.ceil(x)))
end

--- @param ne number  experts expected to be fetched
--- @param es number  bytes of one
--- @param cs number  link bytes a second
--- @param tl number  seconds of one layer's compute
function M.stride(ne, es, cs, tl)
  return layers(ne * es / (cs * tl))
end

--- Bounds of a stride of s layers, not rounded.
--- @return integer least, integer most
function M.bounds(s)
  return layers(layers(s) / M.SPREAD), layers(s * M.SPREAD)
end

-- In a set that layers share, what is fetched for later ones must leave ways for the one at hand.
local function room(m, tier, layer)
  local shares = 0
  for _, l in ipairs(tier.moe) do shares = shares + (tier.set_of[l] == tier.set_of[layer] and 1 or 0) end
  if shares < 2 then return M.MOST end
  return math.max(M.LEAST, tier.ways[tier.set_of[layer] + 1] // m.n_expert_used - 1)
end

--- Strides of a tier of kind disk, one a layer: each layer's missed experts over one layer's computing.
--- @param n_layer integer  layers that a decode step runs
--- @return table  of { start, least, most }
function M.of_tier(m, hw, layout, opts, tier, n_layer)
  local list, each = {}, tier.pace.compute_s / n_layer
  for l, layer in ipairs(layout.layers) do
    if layer.n_expert == 0 then
      list[l] = { M.LEAST, M.LEAST, M.LEAST }
    else
      local s = opts.stride or (1 - tier.hit) * m.n_expert_used * layer.expert_stride / (hw.disk_bw * each)
      local least, most = M.bounds(s)
      most = math.max(math.min(most, room(m, tier, l)), opts.stride or 1)
      list[l] = { math.min(layers(s), most), math.min(least, most), most }
    end
  end
  return list
end

--- One stride a layer for a cache in VRAM, if all of its choices missed; the device fetches when a layer
--- needs its experts, so this is for the report.
function M.plan(m, hw, layout)
  local strides = {}
  local outside = layout.output.bytes
  local resident = (layout.token_resident_bytes - outside) / m.n_layer
  for i, layer in ipairs(layout.layers) do
    local seconds = (resident + m.n_expert_used * layer.slab_bytes) / hw.gpu.vram_bw
    strides[i] = M.stride(m.n_expert_used, layer.slab_bytes, hw.gpu.link_bw, seconds)
  end
  return strides
end

return M

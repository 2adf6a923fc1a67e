-- gen/plan_prefetch.lua -- how many layers ahead of the compute the copies work.
--
-- S = Ne * Es / (Cs * Tl): the time the link takes for the Ne experts that are
-- expected to be needed, over one layer's compute time.  Constants here are
-- where the run-time controller starts.

local M = {}

M.LEAST, M.MOST = 1, 8

--- @param ne number  experts expected to be fetched
--- @param es number  bytes of one
--- @param cs number  link bytes a second
--- @param tl number  seconds of one layer's compute
function M.stride(ne, es, cs, tl)
  return math.max(M.LEAST, math.min(M.MOST, math.ceil(ne * es / (cs * tl))))
end

--- One stride a layer.
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

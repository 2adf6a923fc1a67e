-- gen/history.lua -- a routing trace -> how often a layer's experts follow those of a layer before.
--
-- joint[a][b], in 1/255, for each distance and layer: of the rows that chose a here, how many chose b
-- that many layers later.  Two more rows count as seen without it, so that rare experts stay quiet.
-- tools/replay/predictors.c counts the same.

local M = {}

M.MOST_BYTES = 16 << 20

local function count(trace, from, to, n_expert)
  local n, all = {}, {}
  for i = 1, n_expert * n_expert do n[i] = 0 end
  for a = 1, n_expert do all[a] = 0 end
  for row = 1, trace.n_row do
    local later = {}
    for rank = 1, trace.top_k do later[#later + 1] = trace.expert(row, to, rank) end
    for rank = 1, trace.top_k do
      local a = trace.expert(row, from, rank)
      if a then
        all[a + 1] = all[a + 1] + 1
        for _, b in ipairs(later) do n[a * n_expert + b + 1] = n[a * n_expert + b + 1] + 1 end
      end
    end
  end
  return n, all
end

--- The table's bytes: one a pair of experts.
function M.bytes(m, distances)
  return distances * m.n_layer * m.n_expert * m.n_expert
end

--- @param distances integer  layers ahead that the table knows
--- @return table  bytes, [distance][layer][expert here][expert there]
function M.joint(m, trace, distances)
  local out = {}
  for dist = 1, distances do
    for layer = 1, m.n_layer do
      local base, n, all = #out, nil, nil
      if layer + dist <= m.n_layer then
        -- Layers repeat when the model has more than the trace.
        n, all = count(trace, (layer - 1) % trace.n_layer + 1, (layer + dist - 1) % trace.n_layer + 1, m.n_expert)
      end
      for i = 1, m.n_expert * m.n_expert do
        local seen = n and all[(i - 1) // m.n_expert + 1] + 2 or 1
        out[base + i] = n and (255 * n[i] + seen // 2) // seen or 0
      end
    end
  end
  return out
end

return M

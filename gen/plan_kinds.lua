-- gen/plan_kinds.lua -- experts by size, and which of them a cache may hold.
--
-- Unequal experts (arXiv 2512.16473, the variant for Switch Transformer): an expert is worth a slot when it
-- is small or often called; the rest is loaded on demand.

local M = {}

M.SMALL_BYTES = 200e6
M.FREQUENT = 0.2 -- of a layer's calls; before a trace is known, all experts are called alike

function M.cacheable(bytes, share) return bytes < M.SMALL_BYTES or share > M.FREQUENT end

--- The kinds of experts: { bytes, layers, share, cacheable }, in the order of the layers.
function M.of(m, layout)
  local kinds, by_bytes = {}, {}
  for _, layer in ipairs(layout.layers) do
    local bytes = layer.expert_stride
    if bytes > 0 then
      local kind = by_bytes[bytes]
      if not kind then
        local share = m.n_expert_used / m.n_expert
        kind = { bytes = bytes, layers = 0, share = share, cacheable = M.cacheable(bytes, share) }
        kinds[#kinds + 1], by_bytes[bytes] = kind, kind
      end
      kind.layers = kind.layers + 1
    end
  end
  return kinds
end

--- The layers with experts that a decode step runs.
function M.layers(layout)
  local list = {}
  for i, layer in ipairs(layout.layers) do
    if layer.expert_stride > 0 and not layer.encoder then list[#list + 1] = i end
  end
  return list
end

--- What a cache of one slot size has to do with: bytes of the largest cacheable expert (0: none), layers with
--- experts that a decode step runs, those of them that may have a set.
function M.for_cache(m, layout)
  local slot, layers, cached, share = 0, 0, 0, m.n_expert_used / m.n_expert
  for _, layer in ipairs(layout.layers) do
    local bytes = layer.expert_stride
    if bytes > 0 and not layer.encoder then
      layers = layers + 1
      if M.cacheable(bytes, share) then slot, cached = math.max(slot, bytes), cached + 1 end
    end
  end
  return slot, layers, cached
end

return M

-- gen/plan_cache.lua -- VRAM: what is resident, and the expert cache in the rest.
--
-- One set per cached layer, so that one layer's misses never evict another's
-- experts.  The S slots that fit are cut into N sets of M ways, N = S / M, and
-- each M is weighed:
--   * a covered layer hits with h = sqrt(M / experts): for 2 of 8 that is the
--     0.5 published for Mixtral (40 to 60 % reuse at the next token);
--   * a hit is read from VRAM; a miss, and every expert of a layer without a
--     set, is computed by the CPU;
--   * a miss in a covered layer also crosses the link, in the background, to be
--     there next time: the link and the CPU both read RAM;
--   * a token takes the GPU's time plus the slowest of CPU, link and RAM.
-- Few cores make the CPU the slowest, which favours many sets; many cores make
-- RAM and link the slowest, which favours many ways.

local num = require "gen.num"

local M = {}

--- Share of a covered layer's choices that hit.
function M.hit_rate(ways, n_expert)
  return math.sqrt(ways / n_expert)
end

local function geometry(m, hw, layers, slots, ways, slot, resident_s)
  local sets = math.min(slots // ways, layers)
  local hits = sets * m.n_expert_used * M.hit_rate(ways, m.n_expert)
  local fetched = sets * m.n_expert_used - hits
  local missed = layers * m.n_expert_used - hits
  local cpu_s = missed * slot / hw.cpu_bw
  local link_s = fetched * slot / hw.gpu.link_bw
  local ram_s = (missed + fetched) * slot / hw.mem_bw
  local gpu_s = resident_s + hits * slot / hw.gpu.vram_bw
  return { sets = sets, ways = ways, hit_rate = hits / (layers * m.n_expert_used),
           seconds = gpu_s + math.max(cpu_s, link_s, ram_s) }
end

-- Every M that holds a token's own experts; the fastest, and on a tie the one with more ways.
local function choose(m, hw, layers, slots, slot, resident_s)
  local weighed, best = {}, nil
  for ways = m.n_expert_used, math.min(m.n_expert, slots) do
    local g = geometry(m, hw, layers, slots, ways, slot, resident_s)
    weighed[#weighed + 1] = g
    if not best or g.seconds <= best.seconds then best = g end
  end
  return best, weighed
end

-- The largest expert, and the layers with experts that a decode step runs.
local function experts_of(layout)
  local most, layers = 0, 0
  for _, layer in ipairs(layout.layers) do
    most = math.max(most, layer.expert_stride)
    if layer.expert_stride > 0 and not layer.encoder then layers = layers + 1 end
  end
  return most, layers
end

--- Unequal experts (arXiv 2512.16473): a block is worth a slot when it is small or often called; the rest
--- is loaded on demand.
M.SMALL_BYTES, M.FREQUENT = 200e6, 0.2
function M.cacheable(bytes, share) return bytes < M.SMALL_BYTES or share > M.FREQUENT end

--- The kinds of experts by size: { bytes, layers, share of a layer's calls, cacheable }.
function M.kinds(m, layout)
  local kinds, by_bytes = {}, {}
  for _, layer in ipairs(layout.layers) do
    local bytes = layer.slab_bytes
    if bytes > 0 and not by_bytes[bytes] then
      local share = m.n_expert_used / m.n_expert
      kinds[#kinds + 1] = { bytes = bytes, layers = 0, share = share, cacheable = M.cacheable(bytes, share) }
      by_bytes[bytes] = kinds[#kinds]
    end
    if bytes > 0 then by_bytes[bytes].layers = by_bytes[bytes].layers + 1 end
  end
  return kinds
end

--- @param m      table  a checked model
--- @param hw     table  a checked profile with a GPU
--- @param layout table  of gen/plan_layout.lua
--- @param mem    table  of gen/plan_mem.lua
--- @return table? cache, string? why_not
function M.plan(m, hw, layout, mem)
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
  local usable = gpu.vram - gpu.vram_reserve
  if at > usable then
    return nil, ("vram: want at most %s (%s less %s reserved), got %s: resident weights %s, KV %s, work %s")
      :format(num.human(usable), num.human(gpu.vram), num.human(gpu.vram_reserve), num.human(at),
        num.human(layout.resident_bytes), num.human(mem.kv_bytes), num.human(mem.work_bytes))
  end
  local slot, layers = experts_of(layout)
  local slots = (usable - at) // slot
  if slots < m.n_expert_used then
    return nil, ("cache: want %d expert slots of %s for one layer's choice, got %d in %s of VRAM")
      :format(m.n_expert_used, num.human(slot), slots, num.human(usable - at))
  end
  local resident_s = layout.token_resident_bytes / gpu.vram_bw
  local best, weighed = choose(m, hw, layers, slots, slot, resident_s)
  local cache = {
    slots = slots, slot_bytes = slot, sets = best.sets, ways = best.ways, seconds = best.seconds,
    hit_rate = best.hit_rate, weighed = weighed, regions = fixed, free = usable - at,
    bytes = best.sets * best.ways * slot,
  }
  fixed[#fixed + 1] = { name = "SLOTS", off = at, bytes = cache.bytes }
  cache.vram_bytes = at + cache.bytes
  return cache
end

return M

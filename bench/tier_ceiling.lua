-- bench/tier_ceiling.lua -- how near its bound decode can come while experts are missing: the best
-- order of reading and computing that can know no more than it is told.
--
--   lua bench/predictions.lua TRACE >FILE.trace
--   lua bench/tier_ceiling.lua FILE.trace MEMORY DISK [LATENCY [ENGINE]] > bench/results/<machine>/tier_ceiling.csv
--
-- MEMORY, DISK: GB/s, as bench/tier.sh measures them; LATENCY: seconds; ENGINE: out/ENGINE/config.h has the sizes
-- (default bench-tier-25).  All weights are read at MEMORY, all that misses at DISK, a demand goes before any
-- prefetch, at once, and a read that is not wanted any more ends at once; computing, checks, barriers, starts and
-- predictions take no time of their own.  So a share above these needs fewer misses, a faster disk or better predictions.
-- The cache is one set, decayed frequency with half-life 16; the first half of the rows warm it.

local path, MEMORY, DISK, LATENCY = arg[1], tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4] or "148e-6")
if not (path and MEMORY and DISK and LATENCY) then
  io.stderr:write("tier_ceiling.lua: want FILE.trace MEMORY DISK, in GB/s\n")
  os.exit(2)
end
local engine, file = "out/" .. (arg[5] or "bench-tier-25"), assert(io.open(path, "rb"))
local text, NONE = file:read "a", 255
file:close()
assert(text:sub(1, 8) == "MOETRC02", "want a file of bench/predictions.lua")
local _, n_row, L, E, K, n_dist = ("<I4I4I4I4I4I4"):unpack(text, 9)
local ids_at = 33 + 4 * n_dist + 16 + 4 * n_row
local function at(list, row, layer, rank)   -- list 0: the choices, then the weights, then distances
  return text:byte(ids_at + ((list * n_row + row) * L + layer) * K + rank)
end

local function number(name, pattern)
  for line in io.lines(engine .. name) do
    local v = line:match(pattern)
    if v then return tonumber(v) end
  end
  error(engine .. name .. ": want " .. pattern)
end
local layers = number("/config.h", "IG_N_LAYER%s+=%s(%d+)")
local slot = number("/config.h", "IG_SLOT_BYTES%s+UINT64_C.(%d+)")
local token = number("/config.h", "IG_TOKEN_BYTES%s+UINT64_C.(%d+)")
local slots = number("/config.h", "IG_N_XSLOT%s+=%s(%d+)")
local output = number("/tables.c", "ig_output = .*stride = (%d+)") * ((number("/config.h", "IG_N_VOCAB%s+=%s(%d+)") + 15) // 16)
local each, read = slot / (MEMORY * 1e9), slot / (DISK * 1e9)
local mixer = ((token - output) / layers - K * slot) / (MEMORY * 1e9)

-- The cache: what is there, and the use of each expert.
local function cache()
  local c = { there = {}, n = 0, use = {}, last = {}, clock = 0, one = 1 }
  function c.used(x)
    c.clock = c.clock + 1
    c.use[x], c.last[x] = (c.use[x] or 0) + c.one, c.clock
  end
  function c.take(x, keep)
    local victim
    for y in pairs(c.n >= slots and c.there or {}) do
      local less = victim and (c.use[y] or 0) == (c.use[victim] or 0) and (c.last[y] or 0) < (c.last[victim] or 0)
      if not keep[y] and (not victim or less or (c.use[y] or 0) < (c.use[victim] or 0)) then victim = y end
    end
    if victim then c.there[victim], c.n = nil, c.n - 1 end
    c.there[x], c.n = true, c.n + 1
  end
  return c
end

-- Reads under way, most urgent first: { id, layer, seconds left }.
local function work(queue, seconds)
  while queue[1] and seconds > 0 do
    local did = math.min(seconds, queue[1].left)
    queue[1].left, seconds = queue[1].left - did, seconds - did
    if queue[1].left <= 0 then table.remove(queue, 1) end
  end
end

-- A layer's choices once its router has run -> seconds until all of them are read and computed.
local function layer_of(s, row, layer)
  local c, keep, need, mine, rest = s.cache, {}, 0, {}, {}
  for k = K - 1, 0, -1 do
    local x = layer * E + at(0, row, layer, k)
    keep[x] = true
    c.used(x)
  end
  for _, r in ipairs(s.queue) do
    if keep[r.id] then
      mine[#mine + 1] = r
    elseif r.layer > layer then
      rest[#rest + 1] = r
    else
      c.there[r.id], c.n = nil, c.n - 1   -- not wanted any more
    end
  end
  for x in pairs(s.early) do
    if x // E > layer then keep[x] = true else s.early[x] = nil end
  end
  local missing = #mine
  for k = 0, K - 1 do
    local x = layer * E + at(0, row, layer, k)
    if not c.there[x] then
      mine[#mine + 1] = { id = x, layer = layer, left = read + (#mine == 0 and #rest == 0 and LATENCY or 0) }
      c.take(x, keep)
      missing = missing + 1
      s.misses = s.misses + 1
    end
  end
  for _, r in ipairs(mine) do need = need + r.left end
  s.queue = table.move(rest, 1, #rest, #mine + 1, mine)
  return missing > 0 and math.max(need, (K - 1) * each) + each or K * each
end

-- Guesses of a layer: the first `n` of the list of a distance that are not there.
local function fetch(s, row, layer, distance, n, right)
  if layer >= layers then return end
  local keep = {}
  for x in pairs(s.early) do keep[x] = true end
  for k = 0, K - 1 do
    local x = right and at(0, row, layer, k) or at(1 + distance, row, layer, k)
    if k < n and x ~= NONE and not s.cache.there[layer * E + x] then
      x = layer * E + x
      s.cache.take(x, keep)
      s.early[x], keep[x] = true, true
      s.queue[#s.queue + 1] = { id = x, layer = layer, left = read }
      s.fetched = s.fetched + 1
    end
  end
end

local function replay(n, right, far)
  local s = { cache = cache(), queue = {}, early = {}, misses = 0, fetched = 0 }
  local seconds, rows = 0, 0
  for row = 0, n_row - 1 do
    if row == n_row // 2 then seconds, rows, s.misses, s.fetched = 0, 0, 0, 0 end
    s.cache.one = s.cache.one * 2 ^ (1 / 16)
    for layer = 0, layers - 1 do
      work(s.queue, mixer)
      local took = layer_of(s, row, layer)
      for d = 1, n > 0 and far or 0 do
        if d == far or layer == 0 then fetch(s, row, layer + d, math.min(d, 2), n, right) end
      end
      work(s.queue, took)
      seconds = seconds + mixer + took
    end
    seconds = seconds + output / (MEMORY * 1e9)
    work(s.queue, 1)
    rows = rows + 1
  end
  return seconds / rows, s.misses / rows, s.fetched / rows
end

local bound = token / (MEMORY * 1e9)   -- of what misses, too, while the disk needs less for it
print "predictions,layers_ahead,experts_fetched,experts_demanded,ms,bound_ms,share_of_bound"
local function row(name, far, ...)
  local seconds, misses, fetched = replay(...)
  print(("%s,%d,%.1f,%.1f,%.2f,%.2f,%.3f"):format(name, far, fetched, misses, 1e3 * seconds, 1e3 * bound, bound / seconds))
end
row("none", 0, 0)
for n = 1, K do row(("first %d of the router's list as recorded elsewhere"):format(n), 1, n, false, 1) end
for far = 1, 4 do row("never wrong", far, K, true, far) end

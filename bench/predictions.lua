-- bench/predictions.lua -- a route CSV with predictions of stated accuracy, as MOETRC02.
--
--   lua bench/predictions.lua TRACE.csv [SEED [ERRORS]] > FILE.trace   ERRORS: 1 as recorded, 0 none
--
-- Recorded choices forced on random weights leave a router nothing to predict, and the CSV has no
-- predictions.  Here they are drawn: at each distance, place j of the list is right with the chance
-- that it has in fine-moe.trace, where a trained model's own next-router was recorded (recall 77, 68,
-- 55 % at distance 1, 2, 4; of the experts that a cache lacks 77, 68, 52 %).  What is wrong is
-- a choice of another row, so the favourites are wrong most often, and what is wrong nearby is wrong
-- further away too.  Every row has a token of its own: nothing can be learned from repeated ones.

local DIST = { 1, 2, 4 }
-- Of fine-moe.trace, all documents: chance that place 1..8 is right.
local RIGHT = {
  { 0.967, 0.929, 0.892, 0.850, 0.783, 0.700, 0.594, 0.468 },
  { 0.923, 0.866, 0.804, 0.733, 0.653, 0.572, 0.486, 0.409 },
  { 0.824, 0.727, 0.644, 0.567, 0.501, 0.439, 0.388, 0.342 },
}
local NONE = 255

local file = assert(io.open(arg[1]))
local text = file:read "a"
file:close()
math.randomseed(math.tointeger(tonumber(arg[2] or "1")), 0)
local errors = tonumber(arg[3] or "1")
local L, E, K = text:match "n_layer=(%d+) n_expert=(%d+) n_expert_used=(%d+)"
L, E, K = math.tointeger(L), math.tointeger(E), math.tointeger(K)
assert(E <= NONE, "experts: want at most 255")

-- rows[r][layer][rank] = { expert, weight }
local rows, row_of, prompt = {}, {}, 0
for turn, phase, step, layer, slot, expert, weight in text:gmatch "\n(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),([%d.e+-]+)" do
  local key = turn .. "," .. phase .. "," .. step
  if not row_of[key] then
    rows[#rows + 1] = {}
    row_of[key] = #rows
    prompt = prompt + (phase == "0" and 1 or 0)
  end
  local row = rows[row_of[key]]
  row[layer + 1] = row[layer + 1] or {}
  row[layer + 1][slot + 1] = { math.tointeger(tonumber(expert)), tonumber(weight) }
end

-- The place of an 8-long list that place j of a K-long one stands for.
local function right(d, j)
  local at = (j - 0.5) * 8 / K + 0.5
  local lo = math.max(1, math.min(7, math.floor(at)))
  local f = math.max(0, math.min(1, at - lo))
  return 1 - errors * (1 - RIGHT[d][lo] * (1 - f) - RIGHT[d][lo + 1] * f)
end

local function wrong(layer, not_these)
  while true do
    local other = rows[math.random(#rows)][layer]
    local x = other and other[math.random(K)][1]
    if x and not not_these[x] then return x end
  end
end

-- A layer that did not route a row: what `bench --route` takes then.
local unrouted = {}
for j = 1, K do unrouted[j] = { j - 1, 1 / K } end

-- The lists of one row and layer, one a distance.
local function lists(chosen, layer)
  local is, draw, other, taken, all = {}, {}, {}, {}, {}
  for j = 1, K do is[chosen[j][1]] = true end
  for j = 1, K do
    draw[j] = math.random()
    local not_these = setmetatable({}, { __index = function(_, x) return is[x] or taken[x] end })
    other[j] = wrong(layer, not_these)
    taken[other[j]] = true
  end
  for d = 1, #DIST do
    local list = {}
    for j = 1, K do
      list[j] = layer <= DIST[d] and NONE or draw[j] < right(d, j) and chosen[j][1] or other[j]
    end
    all[d] = string.char(table.unpack(list))
  end
  return all
end

local ids, weights, predicted, tokens = {}, {}, { {}, {}, {} }, {}
for r, row in ipairs(rows) do
  tokens[r] = ("<I4"):pack(r)
  for layer = 1, L do
    row[layer] = row[layer] or unrouted
    for j = 1, K do
      local c = row[layer][j]
      ids[#ids + 1] = string.char(c[1])
      weights[#weights + 1] = string.char(math.floor(255 * math.min(1, c[2]) + 0.5))
    end
    for d, list in ipairs(lists(row[layer], layer)) do table.insert(predicted[d], list) end
  end
end
io.write("MOETRC02", ("<I4I4I4I4I4I4"):pack(1, #rows, L, E, K, #DIST), ("<I4I4I4"):pack(table.unpack(DIST)),
  ("<I4I4I4I4"):pack(#rows, prompt, 0, 0), table.concat(tokens), table.concat(ids), table.concat(weights))
for d = 1, #DIST do io.write(table.concat(predicted[d])) end

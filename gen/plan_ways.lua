-- gen/plan_ways.lua -- ways by layer, from a trace: slots go where one more hits most.
--
-- A layer whose routing repeats needs fewer ways for the same hits.  docs/POLICIES.md has what it is worth: little.

local plan_hit = require "gen.plan_hit"

local M = {}

M.STEPS = 16   -- points of a layer's curve of hits over ways

-- Hit rates of one layer that has a set of its own, by its ways.
local function curve(m, layer, policy, trace, step)
  local set_of, at = {}, {}
  for l = 1, m.n_layer do set_of[l] = 0 end
  for ways = m.n_expert_used, m.n_expert + step - 1, step do
    local n = math.min(ways, m.n_expert)
    at[#at + 1] = { ways = n, hit = plan_hit.rate(m, { n_set = 1, n_slot = n, set_of = set_of, ways = { n },
      moe = { layer } }, policy, trace) }
  end
  return at
end

--- Ways of each layer with experts, a set each; nil when not even a token's experts fit.
--- @return table? ways  (their sum is n_slot, or all there are)
function M.by_layer(m, moe, n_slot, policy, trace)
  local step, curves, at, ways = math.max(1, m.n_expert // M.STEPS), {}, {}, {}
  local left = n_slot - #moe * m.n_expert_used
  if left < 0 then return nil end
  for i, layer in ipairs(moe) do curves[i], at[i] = curve(m, layer, policy, trace, step), 1 end
  while true do
    -- The layer and step, however wide, that hits most for each way: a curve may be flat before it rises.
    local best, to, most = nil, nil, 0
    for i, c in ipairs(curves) do
      for j = at[i] + 1, #c do
        local ways_more = c[j].ways - c[at[i]].ways
        local gain = (c[j].hit - c[at[i]].hit) / ways_more
        if ways_more <= left and gain > most then best, to, most = i, j, gain end
      end
    end
    if not best then break end
    left = left - (curves[best][to].ways - curves[best][at[best]].ways)
    at[best] = to
  end
  for i, c in ipairs(curves) do
    local more = math.min(left, m.n_expert - c[at[i]].ways)
    ways[i], left = c[at[i]].ways + more, left - more
  end
  return ways
end

return M

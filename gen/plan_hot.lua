-- gen/plan_hot.lua -- how often a trace used each expert: the hot table of policy static, and what a device's cache
-- begins with.

local M = {}

--- Uses in rows 1..last of the trace, [layer][expert]; layers repeat when the model has more than the trace.
--- @param moe table  the model's layers with experts
function M.uses(m, moe, trace, last)
  local uses = {}
  for i = 1, m.n_layer * m.n_expert do uses[i] = 0 end
  for row = 1, last or trace.n_row do
    for _, layer in ipairs(moe) do
      for rank = 1, trace.top_k do
        local expert = trace.expert(row, (layer - 1) % trace.n_layer + 1, rank)
        local at = expert and (layer - 1) * m.n_expert + expert + 1
        if at then uses[at] = uses[at] + 1 end
      end
    end
  end
  return uses
end

--- The same as a share of the rows.
function M.rates(m, moe, trace)
  local rates = M.uses(m, moe, trace)
  for i, n in ipairs(rates) do rates[i] = n / math.max(trace.n_row, 1) end
  return rates
end

local function hottest_first(ids, uses)
  table.sort(ids, function(a, b)
    if uses[a] ~= uses[b] then return uses[a] > uses[b] end
    return a < b
  end)
  return ids
end

-- Which experts a geometry keeps for good: of each set the most used, the lower id first.
local function kept(m, g, uses)
  local sets, keeps = {}, {}
  for s = 1, g.n_set do sets[s] = {} end
  for _, layer in ipairs(g.moe) do
    local set = sets[g.set_of[layer] + 1]
    for x = 1, m.n_expert do set[#set + 1] = (layer - 1) * m.n_expert + x end
  end
  for s, set in ipairs(sets) do
    hottest_first(set, uses)
    for i = 1, g.ways[s] do keeps[set[i]] = true end
  end
  return keeps
end

--- Share of the choices after row `last` that a table of the rows before keeps.
function M.rate(m, g, trace, last, rows)
  local keeps, hits, all = kept(m, g, M.uses(m, g.moe, trace, last)), 0, 0
  for row = last + 1, rows do
    for _, layer in ipairs(g.moe) do
      for rank = 1, trace.top_k do
        local expert = trace.expert(row, (layer - 1) % trace.n_layer + 1, rank)
        if expert then
          all = all + 1
          if keeps[(layer - 1) * m.n_expert + expert + 1] then hits = hits + 1 end
        end
      end
    end
  end
  return all > 0 and hits / all or 0
end

--- Share of the choices that hit, by the number of experts that each layer keeps: of the trace's second half,
--- by a table of its first.
function M.by_ways(m, moe, trace)
  local half, rank_of, hits, all = trace.n_row // 2, {}, {}, 0
  local uses = M.uses(m, moe, trace, half)
  for _, layer in ipairs(moe) do
    local ids = {}
    for x = 1, m.n_expert do ids[x] = (layer - 1) * m.n_expert + x end
    for rank, id in ipairs(hottest_first(ids, uses)) do rank_of[id] = rank end
  end
  for ways = 1, m.n_expert do hits[ways] = 0 end
  for row = half + 1, trace.n_row do
    for _, layer in ipairs(moe) do
      for rank = 1, trace.top_k do
        local expert = trace.expert(row, (layer - 1) % trace.n_layer + 1, rank)
        local at = expert and rank_of[(layer - 1) * m.n_expert + expert + 1]
        if at then hits[at], all = hits[at] + 1, all + 1 end
      end
    end
  end
  local share, sum = {}, 0
  for ways = 1, m.n_expert do
    sum = sum + hits[ways]
    share[ways] = all > 0 and sum / all or 0
  end
  return share
end

return M

-- gen/trace.lua -- a routing trace's text -> rows of chosen experts, for gen/plan_hit.lua.
--
-- Formats, as runtime/file/trace.c reads them: the route CSV that `trace` writes, MOETRC01,
-- MOETRC02.  Rows are tokens in the order the model saw them.

local schema = require "gen.schema"

local M = {}

local NONE = 255

-- Expert ids of a byte each, [row][layer][rank], from position `at`.
local function bytes_trace(text, at, n_row, n_layer, n_expert, top_k)
  if n_row < 1 or n_layer < 1 or top_k < 1 then return nil end
  -- As floats, which do not wrap: the file says these numbers.
  if #text < at - 1 + 1.0 * n_row * n_layer * top_k then return nil end
  return {
    n_row = n_row, n_layer = n_layer, n_expert = n_expert, top_k = top_k,
    expert = function(row, layer, rank)
      local x = text:byte(at + ((row - 1) * n_layer + layer - 1) * top_k + rank - 1)
      return x ~= NONE and x < n_expert and x or nil
    end,
  }
end

local function v1(text)
  if #text < 32 then return nil end
  local rows, layers, experts, k = ("<I4I4I4I4"):unpack(text, 9)
  return bytes_trace(text, 33 + 4 * rows, rows, layers, experts, k)
end

local function v2(text)
  if #text < 32 then return nil end
  local docs, _, layers, experts, k, dists, at = ("<I4I4I4I4I4I4"):unpack(text, 9)
  at = at + 4 * dists
  if #text < at + 16 * docs then return nil end
  local rows = 0
  for _ = 1, docs do
    rows = rows + ("<I4"):unpack(text, at)
    at = at + 16
  end
  return bytes_trace(text, at + 4 * rows, rows, layers, experts, k)
end

-- A number of a CSV, which says how many there are of something; none: more than any model has.
local function number(digits)
  return #digits <= 9 and tonumber(digits) or nil
end

-- turn,phase,step,layer,slot,expert,...: a (turn, phase, step) is a row, in the order in which they
-- first appear; a prefill is written layer by layer.
local function csv(text)
  local head = "n_layer=(%d+) n_expert=(%d+) n_expert_used=(%d+)"
  local layers, experts, k = text:match(head)
  if not layers then return nil end
  layers, experts, k = number(layers), number(experts), number(k)
  if not (layers and experts and k) then return nil end
  local rows, row_of, n_row = {}, {}, 0
  for place, layer, slot, expert in text:gmatch("\n(%d+,%d+,%d+),(%d+),(%d+),(%d+),") do
    if not row_of[place] then n_row, row_of[place] = n_row + 1, n_row end
    local id, of, rank = number(expert), number(layer), number(slot)
    if not (id and of and rank) or id >= experts or of >= layers or rank >= k then return nil end
    local at = of * k + rank
    rows[row_of[place] * layers * k + at] = id
  end
  if n_row == 0 then return nil end
  return { n_row = n_row, n_layer = layers, n_expert = experts, top_k = k,
           expert = function(row, layer, rank)
             return rows[(row - 1) * layers * k + (layer - 1) * k + rank - 1]
           end }
end

--- @param m table?  the model whose shape the trace must have
--- @return table? trace { n_row, n_layer, n_expert, top_k, expert(row, layer, rank) from 1 }
function M.parse(text, file, m, problems)
  local read = text:sub(1, 8) == "MOETRC01" and v1 or text:sub(1, 8) == "MOETRC02" and v2 or csv
  local trace = read(text)
  if not trace then
    problems[#problems + 1] = schema.problem(file, "trace", "a route CSV, MOETRC01 or MOETRC02", "none")
  elseif m and (trace.n_expert ~= m.n_expert or trace.top_k ~= m.n_expert_used) then
    problems[#problems + 1] = schema.problem(file, "trace",
      ("%d experts, %d used, as the model's"):format(m.n_expert, m.n_expert_used),
      ("%d, %d used"):format(trace.n_expert, trace.top_k))
    return nil
  end
  return trace
end

return M

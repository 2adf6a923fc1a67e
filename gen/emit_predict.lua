-- gen/emit_predict.lua -- what a predictor has learned, spelled as C tables.

local c = require "gen.c"
local predictor = require "gen.predictor"

local M = {}

local function rows(list, spell)
  local lines, out = {}, {}
  for i, x in ipairs(list) do out[i] = spell and spell(x) or x end
  for at = 1, #out, 32 do
    lines[#lines + 1] = table.concat(out, ", ", at, math.min(at + 31, #out)) .. ","
  end
  return lines
end

-- Static arrays, then the structs that point to them.
local function collector()
  local view = { arrays = {}, lists = {} }
  function view.array(name, type, list, spell)
    view.arrays[#view.arrays + 1] = { name = name, type = type, rows = rows(list, spell) }
    return name
  end
  function view.list(name, type, structs)
    if #structs > 0 then view.lists[#view.lists + 1] = { name = name, type = type, rows = structs } end
    return #structs > 0 and name or "NULL"
  end
  return view
end

local function forests(view, list)
  local out = {}
  for i, g in ipairs(list) do
    out[i] = ("{ %d, %d, %d, %d, %s, %s },"):format(g.first, g.last, g.n_tree, g.depth,
      view.array("forest_node_" .. i, "uint8_t", g.node), view.array("forest_leaf_" .. i, "uint8_t", g.leaf))
  end
  return view.list("forests", "ig_pforest", out)
end

local function mlps(view, list)
  local out = {}
  for i, g in ipairs(list) do
    out[i] = ("{ %d, %d, %d, %d, %s, %s, %s },"):format(g.first, g.last, g.n_hidden, g.width,
      view.array("mlp_weight_" .. i, "int8_t", g.weight), view.array("mlp_scale_" .. i, "float", g.scale, c.f32),
      view.array("mlp_bias_" .. i, "float", g.bias, c.f32))
  end
  return view.list("mlps", "ig_pmlp", out)
end

local function linears(view, list)
  local out = {}
  for i, g in ipairs(list) do
    out[i] = ("{ %d, %d, %d, %s, %s, %s, %s, %s },"):format(g.layer, g.dist, g.rank,
      view.array("linear_v_" .. i, "int8_t", g.v), view.array("linear_u_" .. i, "int8_t", g.u),
      c.f32(g.v_scale), c.f32(g.u_scale), view.array("linear_bias_" .. i, "float", g.bias, c.f32))
  end
  return view.list("linears", "ig_plinear", out)
end

--- The predictor of a tier of kind disk that has one.
function M.view(plan)
  local t, learned = plan.size.tier, plan.predict
  local view = collector()
  view.name, view.least = "ig_predictor_" .. t.predictor:gsub("-", "_"), c.f32(t.least)
  view.features = predictor.FEATURES
  if not learned then
    view.tables = "NULL, 0, 0, 0, 0, NULL, NULL, NULL"
    return view
  end
  local joint = learned.joint and view.array("joint", "uint8_t", learned.joint) or "NULL"
  view.tables = ("%s, %d, %d, %d, %d, %s, %s, %s"):format(joint, learned.n_joint, #learned.forest, #learned.mlp,
    #learned.linear, forests(view, learned.forest), mlps(view, learned.mlp), linears(view, learned.linear))
  return view
end

return M

-- gen/predictor.lua -- a trained predictor's text (docs/FORMAT.md) -> the tables of forest and mlp.
--
-- The text is from outside: every count is compared with what may be, every value with its range
-- (tools/replay/predictor_file.c reads the same file by the same rules).

local schema = require "gen.schema"

local M = {}

M.FEATURES = 9                                   -- enum ig_pfeature of runtime/cache/predict.h
M.MOST_BYTES = 64 << 20
local DIST, RANK, WIDTH, HIDDEN, TREES, DEPTH, GROUPS = 8, 64, 64, 3, 64, 10, 64

-- Words one after the other; `complain(what, want, got)` ends the reading.
local function scanner(text, complain)
  local next_word = text:gmatch("[^ \n]+")
  local s = { section = "header" }
  function s.word() return next_word() or "nothing" end
  function s.integer(what, lo, hi)
    local word = s.word()
    local v = word:match("^%-?%d+$") and math.tointeger(tonumber(word))
    if not v or v < lo or v > hi then complain(s.section .. ": " .. what, ("%d..%d"):format(lo, hi), word) end
    return v
  end
  function s.real(what)
    local word = s.word()
    local v = word:match("^[-+%d.eE]+$") and tonumber(word)
    if not v or v ~= v or math.abs(v) > 3e38 then complain(s.section .. ": " .. what, "a number", word) end
    return v + 0.0
  end
  function s.integers(what, n, lo, hi)
    local list = {}
    for i = 1, n do list[i] = s.integer(what, lo, hi) end
    return list
  end
  function s.reals(what, n)
    local list = {}
    for i = 1, n do list[i] = s.real(what) end
    return list
  end
  return s
end

-- FIRST LAST of a group of layers, after those before it.
local function group(s, list, shape, complain)
  if #list == GROUPS then complain(s.section, ("at most %d groups"):format(GROUPS), "more") end
  local after = #list > 0 and list[#list].last + 1 or 0
  local first = s.integer("first layer", after, shape.n_layer - 1)
  return { first = first, last = s.integer("last layer", first, shape.n_layer - 1) }
end

local READ = {}

function READ.forest(s, t, complain)
  local g = group(s, t.forest, t.shape, complain)
  g.n_tree, g.depth = s.integer("trees", 1, TREES), s.integer("depth", 1, DEPTH)
  local leaves = g.n_tree << g.depth
  g.node = {}
  for i = 1, leaves - g.n_tree do
    g.node[2 * i - 1] = s.integer("feature", 0, M.FEATURES - 1)
    g.node[2 * i] = s.integer("threshold", 0, 255)
  end
  g.leaf = s.integers("leaf", leaves, 0, 255)
  t.forest[#t.forest + 1] = g
end

function READ.mlp(s, t, complain)
  local g = group(s, t.mlp, t.shape, complain)
  g.n_hidden, g.width = s.integer("hidden layers", 1, HIDDEN), s.integer("width", 1, WIDTH)
  g.scale, g.bias = s.reals("scale", g.n_hidden + 1), s.reals("bias", g.n_hidden * g.width + 1)
  g.weight = s.integers("weight", g.width * (M.FEATURES + (g.n_hidden - 1) * g.width + 1), -127, 127)
  t.mlp[#t.mlp + 1] = g
end

function READ.linear(s, t, complain)
  local shape, before = t.shape, t.linear[#t.linear]
  if shape.n_embd == 0 then complain("linear", "a shape with a width", "0") end
  local g = { layer = s.integer("layer", 0, shape.n_layer - 1), dist = s.integer("distance", 1, DIST) }
  if g.dist > g.layer then complain("linear: distance", "at most the layer", tostring(g.dist)) end
  if before and (g.layer < before.layer or g.layer == before.layer and g.dist <= before.dist) then
    complain("linear", "ascending layers and distances", ("%d %d"):format(g.layer, g.dist))
  end
  g.rank = s.integer("rank", 1, RANK)
  g.v_scale, g.u_scale = s.real("scale"), s.real("scale")
  g.bias = s.reals("bias", shape.n_expert)
  g.v = s.integers("v", g.rank * shape.n_embd, -127, 127)
  g.u = s.integers("u", g.rank * shape.n_expert, -127, 127)
  t.linear[#t.linear + 1] = g
end

local function header(s, m, complain)
  local word = s.word()
  if word ~= "ingot-predictor" then complain("header", "ingot-predictor", word) end
  s.integer("version", 1, 1)
  word = s.word()
  if word ~= "shape" then complain("header", "shape", word) end
  local shape = { n_layer = s.integer("layers", 1, 1024), n_expert = s.integer("experts", 1, 8192) }
  shape.top_k = s.integer("top-k", 1, math.min(shape.n_expert, 256))
  shape.n_embd = s.integer("width", 0, 1 << 20)
  s.integer("features", M.FEATURES, M.FEATURES)
  local got = ("%d, %d, %d"):format(shape.n_layer, shape.n_expert, shape.top_k)
  local want = ("%d, %d, %d"):format(m.n_layer, m.n_expert, m.n_expert_used)
  if got ~= want then complain("shape", want .. " (the model's layers, experts, used)", got) end
  if shape.n_embd ~= 0 and shape.n_embd ~= m.n_embd then
    complain("shape: width", ("%d, the model's, or 0"):format(m.n_embd), tostring(shape.n_embd))
  end
  return shape
end

local function read(text, m, complain)
  if #text > M.MOST_BYTES then complain("length", ("at most %d bytes"):format(M.MOST_BYTES), tostring(#text)) end
  local s = scanner(text, complain)
  local t = { shape = header(s, m, complain), forest = {}, mlp = {}, linear = {} }
  for word in s.word do
    if word == "end" then break end
    if not READ[word] then complain("section", "forest, mlp, linear or end", word) end
    s.section = word
    READ[word](s, t, complain)
  end
  if s.word() ~= "nothing" then complain("end", "nothing after it", "more") end
  return t
end

--- @param kind string  forest or mlp: what must be there
--- @return table? tables { forest, mlp, linear }   (nil: `problems` says why)
function M.parse(text, file, kind, m, problems)
  local found
  local function complain(what, want, got)
    found = schema.problem(file, what, want, '"' .. got:sub(1, 20) .. '"')
    error(found, 0)
  end
  local ok, t = pcall(read, text, m, complain)
  if not ok and t ~= found then error(t, 0) end
  if ok and #t[kind] == 0 then
    ok, found = false, schema.problem(file, "predictor", "a section " .. kind, "none")
  end
  if ok then return t end
  problems[#problems + 1] = found
end

return M

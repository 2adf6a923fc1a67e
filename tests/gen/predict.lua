-- Predictors: what a trace and a trained file become, what the cost model makes of a machine.

local lu = require "luaunit"
local lib = require "lib"
local history = require "gen.history"
local plan_predict = require "gen.plan_predict"
local predictor = require "gen.predictor"

local eq = lu.assertEquals
local T = {}

local SHAPE = { n_layer = 4, n_expert = 3, n_expert_used = 2, n_embd = 2 }
local GOOD = "ingot-predictor 1\nshape 4 3 2 2 9\nlinear 2 1 1 0.5 2\n0 0 -1.5\n1 0\n0 3 0\n"
  .. "forest 1 3 2 1\n0 100 1 0\n0 255 51 204\nmlp 0 1 1 1\n0.5 2\n0 0.125\n2 0 0 0 0 0 0 0 -4\n3\nend\n"

local function parse(text, kind)
  local problems = {}
  return predictor.parse(text, "p", kind or "forest", SHAPE, problems), problems
end

function T.test_a_trained_file()
  local t, problems = parse(GOOD)
  eq(problems, {})
  eq(t.forest, { { first = 1, last = 3, n_tree = 2, depth = 1, node = { 0, 100, 1, 0 }, leaf = { 0, 255, 51, 204 } } })
  eq(t.mlp[1].weight, { 2, 0, 0, 0, 0, 0, 0, 0, -4, 3 })
  eq({ t.linear[1].v, t.linear[1].u, t.linear[1].bias }, { { 1, 0 }, { 0, 3, 0 }, { 0.0, 0.0, -1.5 } })
end

-- Each change of the good file has its message.
function T.test_a_hostile_file_is_told_what_is_wrong()
  for _, case in ipairs {
    { "ingot%-predictor", "x", 'p: header: want ingot-predictor, got "x"' },
    { "predictor 1", "predictor 2", 'p: header: version: want 1..1, got "2"' },
    { "shape 4", "shape 5", 'p: shape: want 4, 3, 2 (the model\'s layers, experts, used), got "5, 3, 2"' },
    { "2 2 9", "2 7 9", 'p: shape: width: want 2, the model\'s, or 0, got "7"' },
    { "2 2 9", "2 2 8", 'p: header: features: want 9..9, got "8"' },
    { "linear 2 1", "linear 2 3", 'p: linear: distance: want at most the layer, got "3"' },
    { "linear 2 1 1", "linear 2 1 65", 'p: linear: rank: want 1..64, got "65"' },
    { "1 0%.5 2", "1 nan 2", 'p: linear: scale: want a number, got "nan"' },
    { "forest 1 3", "forest 1 4", 'p: forest: last layer: want 1..3, got "4"' },
    { "forest 1 3 2", "forest 1 3 99999999", 'p: forest: trees: want 1..64, got "99999999"' },
    { "3 2 1\n", "3 2 11\n", 'p: forest: depth: want 1..10, got "11"' },
    { "0 100", "9 100", 'p: forest: feature: want 0..8, got "9"' },
    { "255 51", "256 51", 'p: forest: leaf: want 0..255, got "256"' },
    { "mlp 0 1 1", "mlp 0 1 4", 'p: mlp: hidden layers: want 1..3, got "4"' },
    { "%-4\n", "-128\n", 'p: mlp: weight: want -127..127, got "-128"' },
    { "%-4\n", "1.5\n", 'p: mlp: weight: want -127..127, got "1.5"' },
    { "end\n", "", 'p: section: want forest, mlp, linear or end, got "nothing"' },
    { "end\n", "end end", 'p: end: want nothing after it, got "more"' },
  } do
    local text, n = GOOD:gsub(case[1], case[2], 1)
    eq(n, 1, case[1])
    local t, problems = parse(text)
    eq({ t, problems }, { nil, { case[3] } })
  end
  local _, problems = parse("ingot-predictor 1\nshape 4 3 2 2 9\nend\n", "mlp")
  eq(problems, { "p: predictor: want a section mlp, got none" })
end

-- Every truncation is a complaint, none an error of Lua's.
function T.test_truncations()
  for n = 0, #GOOD - 6 do
    local t, problems = parse(GOOD:sub(1, n))
    eq({ t, #problems }, { nil, 1 })
  end
end

function T.test_history_counts_pairs()
  -- Two layers; row r chooses r % 2 in the first, and the same in the second but for the last row.
  local trace = { n_row = 8, n_layer = 2, top_k = 1, expert = function(row, layer)
    return row == 8 and layer == 2 and 1 or row % 2
  end }
  local m = { n_layer = 2, n_expert = 2 }
  -- 4 rows each and 2 unseen: 255 * 4 / 6, 255 * 3 / 6, 255 / 6.
  eq(history.joint(m, trace, 1), { 128, 43, 0, 170, 0, 0, 0, 0 })
  eq(history.bytes(m, 2), 16)
end

-- The best thresholds of docs/POLICIES.md: 126 us a copy; layers of 65 and 225 us.
function T.test_least_chance()
  local function least(layer_s, stall_s, all_s)
    return plan_predict.least(3 << 20, 25e9, { mem_s = layer_s * 16, disk_s = stall_s, seconds = all_s }, 16).chance
  end
  lu.assertAlmostEquals(least(65e-6, 6.93e-3, 7.97e-3), 0.627, 0.01)
  lu.assertAlmostEquals(least(225e-6, 6.93e-3, 10.5e-3), 0.398, 0.01)
  eq(least(1, 1, 1), 0.5)   -- all of a copy can be hidden, and the link is never free: even odds
end

-- The same values hold runtime/cache/split.c, tests/c/split_test.c: one cost model.
function T.test_least_chance_as_the_runtime_reckons()
  local n = 0
  for line in io.lines "tests/data/least.txt" do
    local copy, layer, busy, p = line:match "^([%d.e-]+) ([%d.e-]+) ([%d.e-]+) ([%d.]+)$"
    if copy then
      n = n + 1
      local pace = { mem_s = layer * 16, disk_s = busy * 1.0, seconds = 1.0 }
      lu.assertAlmostEquals(plan_predict.least(copy * 1e9, 1e9, pace, 16).chance, tonumber(p), 1e-8)
    end
  end
  lu.assertTrue(n > 3)
end

local function tier(options, trace, trained)
  local p, problems = lib.plan("mixtral", "avx2-desktop", options, { trace = trace, predictor = trained })
  return p and p.size.tier, problems, p
end

function T.test_default_is_none_where_the_disk_is_the_bottleneck()
  local t = tier { "experts_ram=30" }
  eq(t.predictor, "none")
  lu.assertStrContains(t.predict_why, "it would pay above a chance of 0.8")
  local asked, _, p = tier { "experts_ram=30", "predict=hybrid", "least=0.25" }
  eq({ asked.predictor, asked.least, asked.predict_next }, { "hybrid", 0.25, 1 })
  local files = lib.files(p)
  lu.assertStrContains(files["config.h"], "#define IG_PREDICTOR      ig_predictor_hybrid")
  lu.assertStrContains(files["config.h"], "#define IG_PREDICT_LEAST  0.25f")
end

function T.test_default_is_hybrid_where_copies_hide()
  local p = lib.plan("mixtral", "avx2-desktop", { "experts_ram=30" })
  local t = p.size.tier
  t.pace = { mem_s = 10, disk_s = 1, seconds = 11 }
  plan_predict.choose(p.model, { disk_bw = 1e9 }, t, {})
  eq(t.predictor, "hybrid")
  lu.assertTrue(t.least < 0.1)
end

function T.test_options_that_need_each_other()
  local function problems(options) return select(2, tier(options)) end
  eq(problems { "experts_ram=30", "predict=forest" },
    { "--set: predict=forest: want predictor=FILE, from tools/train_predictor.py, got none" })
  eq(problems { "experts_ram=30", "predict=history" },
    { "--set: predict=history: want trace=FILE to count co-occurrences in, got none" })
  eq(problems { "experts_ram=30", "predict=hybrid", "predictor=x" },
    { "--set: predict=hybrid: want no predictor=FILE, which only forest and mlp read, got one" })
  eq(problems { "experts_ram=30", "least=1.5" }, { "--set: least: want a number from 0 to 1, got 1.5" })
end

-- What is emitted compiles, with the numbers of the file in it.
function T.test_tables_compile()
  local root = lib.root .. "./"
  for _, case in ipairs {
    { "history", "trace=x", "static const uint8_t joint[]" },
    { "forest", "predictor=x", "forests, NULL, linears" }, { "mlp", "predictor=x", "NULL, mlps, linears" },
  } do
    local trace = lib.read(root .. "tests/data/tiny-route.trace")
    local p, problems = lib.plan("tiny-mixtral", "avx2-desktop", { "experts_ram=50", "predict=" .. case[1], case[2] },
      { trace = case[1] == "history" and trace or nil,
        predictor = case[1] ~= "history" and lib.read(root .. "tests/data/tiny.predictor") or nil })
    eq(problems, {})
    local files, folder = lib.files(p), lib.temp_folder()
    lu.assertStrContains(files["tables.c"], case[3])
    for _, name in ipairs { "config.h", "tables.h", "tables.c" } do lib.write(folder .. "/" .. name, files[name]) end
    local out, code = lib.run(("cc -std=c11 -Wall -Wextra -Wconversion -Werror -fsyntax-only -I'%s' -I'%skernels' "
      .. "-I'%sruntime/base' -I'%sruntime/cache' '%s/tables.c'"):format(folder, root, root, root, folder))
    lib.run("rm -rf '" .. folder .. "'")
    eq({ out, code }, { "", 0 })
  end
end

-- A predictor's text decides the plan hash.
function T.test_plan_hash_covers_what_was_learned()
  local emit = require "gen.emit"
  local text = lib.read(lib.root .. "./tests/data/tiny.predictor")
  local function hash(of)
    local p = lib.plan("tiny-mixtral", "avx2-desktop", { "experts_ram=50", "predict=mlp", "predictor=x" },
      { predictor = of })
    return emit.plan_hash(p, {}, {})
  end
  lu.assertNotEquals(hash(text), hash((text:gsub("mlp (%d+ %d+ %d+ %d+)\n%S+", "mlp %1\n0.5"))))
  eq(hash(text), hash(text))
end

return T

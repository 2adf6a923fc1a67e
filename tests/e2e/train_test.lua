-- tools/train_predictor.py: the same inputs give the same file, which the build and the simulator take, and
-- which recalls about what the router alone does after 128 tokens, or more.
package.path = "tests/e2e/?.lua;" .. package.path
local lu = require "luaunit"
local L = require "lib"

local T, TRACE = {}, "tests/data/tiny-route.trace"

local function train(name)
  local out = L.tmp() .. "/" .. name
  local _, err, code = L.run(("python3 -W ignore tools/train_predictor.py %s --docs 0,1 --every 1 --groups 2 --trees 4 "
    .. "--depth 4 --width 8 -o %s"):format(TRACE, out))
  lu.assertEquals(code, 0, err)
  return out
end

function T.test_train_build_judge()
  local _, _, missing = L.run("python3 -c 'import numpy, sklearn'")
  lu.skipIf(missing ~= 0, "no numpy and scikit-learn")
  lu.skipIf(not L.exists("out/tools/replay"), "out/tools/replay is not built")
  local file = train "a"
  lu.assertTrue(L.read(file) == L.read(train "b"))
  for _, kind in ipairs { "forest", "mlp" } do
    local out, err, code = L.run(("lua5.4 build.lua tests/data/tiny-mixtral.gguf hw/TEMPLATE.lua --set experts_ram=50 "
      .. "--set predict=%s --set predictor=%s --explain"):format(kind, file))
    lu.assertEquals(code, 0, err)
    lu.assertStrContains(out, "prefetch   " .. kind)
  end
  local table, err, code = L.run(("out/tools/replay %s --docs 2 --train 0,1 --predictor %s --recall -o csv")
    :format(TRACE, file))
  lu.assertEquals(code, 0, err)
  local function recall(name) return tonumber(table:match("\n" .. name .. ",1,([%d.]+)")) end
  lu.assertTrue(recall "forest" >= recall "next%-router" - 5, table)
  lu.assertTrue(recall "mlp" >= recall "next%-router" - 5, table)
end

TestTrain = T
local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

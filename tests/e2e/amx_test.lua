-- Engines for AMX, over tiles in scalar code: the bits of the same plan's AVX-512 engine.
--
-- Which engines: TILED of tests/tests.mk.  A batch's rows are packed for the tiles from some rows on
-- (IG_PACK_LEAST); fewer, and experts that few rows chose, go as they are.
local lu = require "luaunit"
local L = dofile("tests/e2e/lib.lua")

TestTiles = {}

local function ids(n, vocab)
  local t, x = {}, 4711
  for i = 1, n do
    x = (x * 1103515245 + 12345) % 2147483648
    t[i] = x // 65536 % vocab
  end
  return t
end

for name, n in pairs { ["blocks-a"] = 120, ["blocks-b"] = 120, ["blocks-c"] = 120, ["blocks-d"] = 120,
                       ["latent-q8_0"] = 90, ["dense-q4_0"] = 100 } do
  TestTiles["test_" .. name:gsub("%-", "_")] = function()
    local plain, tiles = L.engine("t-" .. name), L.engine("tiles-" .. name)
    lu.skipIf(not plain or not tiles, name .. " is not built")
    local _, err, code = L.run(tiles .. " info")
    lu.skipIf(code ~= 0 and err:find("cpu"), "this CPU lacks AVX-512 with BF16: " .. (err or ""))
    local weights = L.tmp() .. "/" .. name .. ".ingot"
    _, err, code = L.run(("%s pack --synth 3 -o %s"):format(plain, weights))
    lu.assertEquals({ err = code == 0 and "" or err, code = code }, { err = "", code = 0 })
    local prompt = ids(n, 64)
    local _, want = L.dump(plain, weights, prompt)
    lu.assertTrue(#want > 1000)
    for _, options in ipairs { "-t 1", "-t 2 -b 64", "-t 3 -b 37", "-t 2 -b 7" } do
      local _, got = L.dump(tiles, weights, prompt, options)
      lu.assertTrue(got == want, ("%s: %s: other bits"):format(name, options))
    end
    os.remove(weights)
  end
end

local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

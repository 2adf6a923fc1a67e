-- Engines for AMX, over tiles in scalar code: the same bits whatever the threads and the batch, and near
-- AVX-512's, whose activations are not rounded.  Which engines: TILED of tests/tests.mk.
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

--- The engine; skipped where it was not built or cannot run.
local function engine(name)
  local path = L.engine("tiles-" .. name)
  lu.skipIf(not path, "tiles-" .. name .. " is not built")
  lu.skipIf(not (L.read("/proc/cpuinfo") or ""):find("avx512_bf16"), "this CPU lacks AVX-512 with BF16")
  return path
end

--- Dumps are the same; the first, decoded.
local function invariant(path, weights, prompt)
  local first, bytes = L.dump(path, weights, prompt, "-t 1")
  lu.assertTrue(#bytes > 1000)
  for _, options in ipairs { "-t 2 -b 64", "-t 3 -b 37", "-t 2 -b 7", "-t 2 -b 1" } do
    local _, got = L.dump(path, weights, prompt, options)
    lu.assertTrue(got == bytes, options .. ": other bits")
  end
  return first
end

function TestTiles:testExperts()
  local path, weights = engine("mixtral-bf16-sharded"), L.tmp() .. "/tiles.ingot"
  local _, err, code = L.run(("%s pack tests/golden/mixtral-bf16-sharded -o %s"):format(path, weights))
  lu.assertEquals(code, 0, err)
  invariant(path, weights, ids(90, 64))
end

function TestTiles:testNearAvx512()
  local path, plain, weights = engine("dense-bf16"), L.engine("t-dense-bf16"), L.tmp() .. "/dense.ingot"
  lu.assertNotNil(plain, "t-dense-bf16 is not built")
  local _, err, code = L.run(("%s pack --synth 3 -o %s"):format(plain, weights))
  lu.assertEquals(code, 0, err)
  local prompt = ids(100, 64)
  local got, want = invariant(path, weights, prompt).logits, L.dump(plain, weights, prompt).logits
  lu.assertTrue(#want >= 64 and #got == #want)
  local most, off = 0, 0
  for i = 1, #want do
    most, off = math.max(most, math.abs(want[i])), math.max(off, math.abs(want[i] - got[i]))
  end
  lu.assertTrue(off > 0 and off < 0.02 * most, ("largest logit %g, largest difference %g"):format(most, off))
end

local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

-- How weights come into memory: mapped from their file or copied, checked either way, and no more memory
-- than the plan says.
package.path = "tests/e2e/?.lua;" .. package.path
local json = require "dkjson"
local lu = require "luaunit"
local lib = require "lib"

local T = {}
local CHECKPOINT = "tests/data/tiny-mixtral.gguf"

local function info(engine, weights)
  local out, err, code = lib.run(("%s info -m %s -o json"):format(lib.engine(engine), weights))
  return code == 0 and json.decode(out).run, err, code
end

function T.test_mapped_or_copied()
  local weights, got = lib.pack("t-demo", CHECKPOINT), {}
  for engine, want in pairs { ["t-demo"] = "^mapped from the page cache, ", ["t-demo-copy"] = "^copied" } do
    lu.assertStrMatches(info(engine, weights).weights, want .. ".*")
    local dump = lib.tmp() .. "/dump"
    local out, err, code = lib.run(("%s eval -m %s --tokens 1,2,3,4,5 --greedy 20 --dump %s"):format(
      lib.engine(engine), weights, dump))
    lu.assertEquals(code, 0, err)
    got[#got + 1] = lib.read(dump) .. out
  end
  lu.assertTrue(got[1] == got[2])
end

-- A file that is open for writing is copied, and the reason is said.
function T.test_not_mapped_while_open_for_writing()
  local weights = lib.pack("t-demo", CHECKPOINT)
  local out, err, code = lib.run(("exec 9<>%s; %s info -m %s -o json"):format(weights, lib.engine("t-demo"), weights))
  lu.assertEquals(code, 0, err)
  lu.assertStrContains(json.decode(out).run.weights, "copied, not mapped: the system gives no lease on it")
end

-- The last byte of the data section's last block.
function T.test_damage_is_found()
  local bad = lib.tmp() .. "/damaged.ingot"
  local text = lib.read(lib.pack("t-demo", CHECKPOINT))
  local at = #text - 4096 * 8
  lib.write(bad, text:sub(1, at) .. string.char(text:byte(at + 1) ~ 1) .. text:sub(at + 2))
  for _, engine in ipairs { "t-demo", "t-demo-copy" } do
    local _, err, code = info(engine, bad)
    lu.assertEquals(code, 1, engine)
    lu.assertStrContains(err, "checksum of block", engine)
  end
end

-- The whole process, weights and 32 k of KV among it, or prefill of 2048 rows at once: within 3 % of the
-- plan's figure, by the kernel's own count of its most resident pages.
function T.test_peak_is_the_plans()
  local weights = lib.tmp() .. "/memory.ingot"
  local _, err, code = lib.run(("%s pack --synth 1 -o %s"):format(lib.engine("t-memory-long"), weights))
  lu.assertEquals(code, 0, err)
  for engine, options in pairs { ["t-memory-long"] = "-p 300 -n 4", ["t-memory-wide"] = "-p 2048 -n 4" } do
    local out, why, rc = lib.run(("%s bench -m %s -r 1 -o json %s"):format(lib.engine(engine), weights, options))
    lu.assertEquals(rc, 0, why)
    local got = json.decode(out)
    lu.assertTrue(math.abs(got.peak_bytes - got.plan_bytes) <= 0.03 * got.plan_bytes,
      ("%s: want %d within 3 %%, got %d"):format(engine, got.plan_bytes, got.peak_bytes))
  end
  os.remove(weights)
end

TestLoad = T
local code = lu.LuaUnit.run()
lib.cleanup()
os.exit(code)

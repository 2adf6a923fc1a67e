-- Where experts are never changes a result: every engine against the one with all in its arena.
package.path = "tests/e2e/?.lua;" .. package.path
local lu = require "luaunit"
local lib = require "lib"

local T = {}
local CHECKPOINT = "tests/data/tiny-mixtral.gguf"
local ids = {}
for i = 1, 90 do ids[i] = (i * 37 + 5) % 4096 end

-- Logits, hidden states, router choices and greedy tokens of a run, as one file's bytes.
local function values(engine, options)
  local weights, dump = lib.pack("t-demo", CHECKPOINT), lib.tmp() .. "/dump"
  local out, err, code = lib.run(("%s eval -m %s --tokens %s --greedy 40 --dump %s %s"):format(
    lib.engine(engine), weights, lib.ids(ids), dump, options or ""))
  lu.assertEquals(code, 0, err)
  return lib.read(dump) .. out
end

local function same(engine, options)
  lu.assertTrue(values(engine, options) == values("t-demo"), engine .. " " .. (options or ""))
end

function T.test_two_ways() same("t-tier") end
function T.test_two_ways_one_thread() same("t-tier", "-t 1") end
function T.test_two_ways_small_batches() same("t-tier", "-b 3") end
function T.test_one_set_of_half() same("t-tier-half") end
function T.test_one_set_of_half_rows_alone() same("t-tier-half", "-b 1") end
function T.test_all_ways() same("t-tier-all") end
function T.test_page_cache() same("t-tier-mmap") end

TestTier = T
local code = lu.LuaUnit.run()
lib.cleanup()
os.exit(code)

-- Where experts are never changes a result: every engine against the one with all in its arena.
package.path = "tests/e2e/?.lua;" .. package.path
local lu = require "luaunit"
local lib = require "lib"

local T = {}
local ids = {}
for i = 1, 60 do ids[i] = (i * 37 + 5) % 90 end

-- Logits, hidden states, router choices and greedy tokens of a run, as one file's bytes.
local function values(engine, options, base, checkpoint)
  local weights, dump = lib.pack(base, checkpoint), lib.tmp() .. "/dump"
  local out, err, code = lib.run(("%s eval -m %s --tokens %s --greedy 20 --dump %s %s"):format(
    lib.engine(engine), weights, lib.ids(ids), dump, options or ""))
  lu.assertEquals(code, 0, err)
  return lib.read(dump) .. out
end

local function same(engine, options, base, checkpoint)
  base, checkpoint = base or "t-demo", checkpoint or "tests/data/tiny-mixtral.gguf"
  lu.assertTrue(values(engine, options, base, checkpoint) == values(base, nil, base, checkpoint),
    engine .. " " .. (options or ""))
end

function T.test_two_ways() same("t-tier") end
function T.test_two_ways_one_thread() same("t-tier", "-t 1") end
function T.test_two_ways_small_batches() same("t-tier", "-b 3") end
function T.test_one_set_of_half() same("t-tier-half") end
function T.test_one_set_of_half_rows_alone() same("t-tier-half", "-b 1") end
function T.test_all_ways() same("t-tier-all") end
-- A dense first layer and shared experts; biases beside the experts' matrices.
function T.test_dense_blocks() same("t-tier-deepseek-v2", nil, "t-deepseek-v2", "tests/golden/deepseek-v2") end
function T.test_biases() same("t-tier-gpt-oss", nil, "t-gpt-oss", "tests/golden/gpt-oss") end
-- An encoder's layers and a decoder's share the slots; random weights.
function T.test_two_stacks()
  local weights = lib.tmp() .. "/switch.ingot"
  local _, err, code = lib.run(("%s pack --synth 3 -o %s"):format(lib.engine("t-switch-f32"), weights))
  lu.assertEquals(code, 0, err)
  local function run(engine, options)
    local out, why, rc = lib.run(("%s eval -m %s --tokens %s --decoder-tokens %s --greedy 20 --dump %s %s"):format(
      lib.engine(engine), weights, lib.ids(ids), "3,7,9,70", lib.tmp() .. "/dump", options))
    lu.assertEquals(rc, 0, why)
    return lib.read(lib.tmp() .. "/dump") .. out
  end
  local want = run("t-switch-f32", "")
  for _, options in ipairs { "", "-t 1", "-b 7", "-b 1" } do
    lu.assertTrue(run("t-tier-switch", options) == want, options)
  end
end
-- Every predictor that something was learned for; t-tier has hybrid, t-tier-half next-router.
function T.test_history() same("t-tier-history") same("t-tier-history", "-b 1") end
function T.test_forest() same("t-tier-forest") same("t-tier-forest", "-b 1 -t 1") end
function T.test_mlp() same("t-tier-mlp") same("t-tier-mlp", "-b 1") end
-- A hot table: it is there from the start and never changes, and does not change a bit either.
function T.test_hot_table()
  same("t-tier-static")
  same("t-tier-static", "-b 1")
  local weights = lib.pack("t-demo", "tests/data/tiny-mixtral.gguf")
  local out, err, code = lib.run(("%s bench -m %s -p 20 -n 20 -r 1 -o json"):format(
    lib.engine("t-tier-static"), weights))
  lu.assertEquals(code, 0, err)
  local changes, hits = 0, 0
  for n in out:gmatch('"fill": *([%d.]+)') do changes = changes + tonumber(n) end
  for n in out:gmatch('"evict": *([%d.]+)') do changes = changes + tonumber(n) end
  for n in out:gmatch('"hit": *([%d.]+)') do hits = hits + tonumber(n) end
  lu.assertEquals(changes, 0)
  lu.assertTrue(hits > 0)
end
function T.test_no_predictor() same("t-tier-none") end

-- Whether prefetch is on is said at the end of a run and in JSON, with the reason.
function T.test_prefetch_is_never_silent()
  local weights = lib.pack("t-demo", "tests/data/tiny-mixtral.gguf")
  for engine, want in pairs { ["t-tier"] = "hybrid: on, because no trial has ended yet",
      ["t-tier-none"] = "off, because the plan has no predictor", ["t-tier-mmap"] = "off, because the page cache" } do
    local _, err, code = lib.run(("%s run -m %s -p Once -n 4"):format(lib.engine(engine), weights))
    lu.assertEquals(code, 0, err)
    if engine ~= "t-tier-mmap" then lu.assertStrContains(err, "prefetch: " .. want) end
    local info = lib.run(("%s info -m %s -o json"):format(lib.engine(engine), weights))
    lu.assertStrContains(info, want)
  end
  -- 64 steps, and a trial's 128 later, there is a verdict, whichever.
  local out, err, code = lib.run(("%s bench -m %s -p 0 -n 140 -r 1 -o json"):format(lib.engine("t-tier"), weights))
  lu.assertEquals(code, 0, err)
  lu.assertStrMatches(out, ".*\"prefetch\": *\"hybrid: o[nf]f?, because a step takes .* with it %(trial 1%)\".*")
end

-- What the cache did: at the end of every command that computes, layer by layer with --stats; in bench and info.
function T.test_counters()
  local weights = lib.pack("t-demo", "tests/data/tiny-mixtral.gguf")
  local engine, text = lib.engine("t-tier"), lib.tmp() .. "/text"
  lib.write(text, ("Once upon a time there was a little girl. "):rep(4))
  local decode = "experts: decode: [%d.]+ %% hits, [%d.]+ %% late, [%d.]+ misses and [%d.]+ us of stalls a step\n"
  local prefill = decode:gsub("decode", "prefill")
  local both = "experts: (%d+) fills, (%d+) evictions, (%d+) prefetched %((%d+) used, (%d+) wasted%), "
    .. "[%d.]+ MB copied, stride [%d.]+\n"
  for _, c in ipairs { { "run -m %s -p Once -n 30", decode }, { "chat -m %s -p Once -n 30", decode },
      { "eval -m %s -f " .. text, prefill }, { "trace -m %s -f " .. text, prefill } } do
    local _, err, code = lib.run((engine .. " " .. c[1]):format(weights))
    if not err:find("no chat template", 1, true) then
      lu.assertEquals(code, 0, err)
      lu.assertNotNil(err:find(c[2]), err)
      local fills, evictions, early, used, wasted = err:match(both)
      lu.assertNotNil(fills, err)
      lu.assertTrue(fills + early > 0 and fills + early >= evictions + 0 and early + 0 >= used + wasted, err)
    end
  end
  local _, err = lib.run(("%s run -m %s -p Once -n 30 --stats"):format(engine, weights))
  for layer = 0, 6 do lu.assertEquals(select(2, err:gsub("\nlayer " .. layer .. " ", "")), 2) end
  lu.assertStrMatches(err, ".*\nstride   mean over the layers, every 1 steps: [%d. ]+\n.*")
  local json = lib.run(("%s bench -m %s -p 0 -n 30 -r 1 -o json"):format(engine, weights))
  lu.assertEquals(select(2, json:gsub('"stride_over_time": *%[', "")), 7)
  for _, name in ipairs { "hit", "late", "miss", "stall", "fill", "evict", "early", "used", "lost", "copied",
      "stride" } do
    lu.assertEquals(select(2, json:gsub('"' .. name .. '": *[%d.]+', "")), 8, name)   -- all, and 7 layers
  end
  json = lib.run(("%s info -m %s -o json"):format(engine, weights))
  lu.assertEquals(select(2, json:gsub('"stride_over_time": *%[', "")), 7)
end
-- Mapped experts are not checked, so the file shall not change while they are in use.
-- Harmed after its first words of an answer and before the next question: loading would meet the harm
-- first, and say so in words of its own.
local function harmed(how)
  local folder = lib.tmp() .. "/" .. how:match "%a+"
  local weights, source = folder .. "/cut.ingot", lib.pack("t-demo", "tests/data/tiny-mixtral.gguf")
  local out = lib.run(([[trap '' PIPE; mkdir FOLDER; cp %s FOLDER/cut.ingot; mkfifo FOLDER/questions
    %s chat -m FOLDER/cut.ingot -n 8 <FOLDER/questions >FOLDER/answers 2>FOLDER/err & pid=$!
    exec 9>FOLDER/questions; echo Hello. >&9
    until [ -s FOLDER/answers ] || ! kill -0 $pid; do sleep 0.01; done
    %s FOLDER/cut.ingot; echo More. >&9; exec 9>&-; wait $pid; echo "exit $?"]]):gsub("FOLDER", folder)
    :format(source, lib.engine("t-tier-mmap"), how))
  lu.assertEquals(out, "exit 1\n")
  lu.assertStrContains(lib.read(folder .. "/err"),
    weights .. ": opened for writing while its weights are in use; ended before they change")
end
function T.test_page_cache_of_a_file_cut_short() harmed "truncate -s 4M" end
function T.test_page_cache_of_a_file_overwritten() harmed "printf garbage 1<>" end
function T.test_page_cache() same("t-tier-mmap") end

TestTier = T
local code = lu.LuaUnit.run()
lib.cleanup()
os.exit(code)

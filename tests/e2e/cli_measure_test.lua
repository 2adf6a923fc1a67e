-- tokenize, eval, bench, plan and info: what they print and write.
local lu = require "luaunit"
local json = require "dkjson"
local C = dofile("tests/e2e/cli.lua")
local L, bin, weights, ingot, assert_code, refuses, tmp =
  C.L, C.bin, C.weights, C.ingot, C.assert_code, C.refuses, C.tmp

TestTokens = {}

function TestTokens:testRoundTrip()
  local text = "Héllo, wörld!\n\n  \"Quoted\" — 1905 🙂\t"
  L.write(tmp("text"), text)
  local ids, err, code = ingot("tokenize %m", nil, "<" .. tmp("text"))
  assert_code(0, code, err)
  lu.assertEquals(ids:match("^(%d+),"), "0")
  L.write(tmp("ids"), ids)
  lu.assertEquals((ingot("detokenize %m", nil, "<" .. tmp("ids"))), text)
  lu.assertEquals((ingot("detokenize %m --special", nil, "<" .. tmp("ids"))), "<s>" .. text)
  lu.assertEquals(json.decode((ingot("tokenize %m -o json", nil, "<" .. tmp("text")))).ids,
    load("return {" .. ids .. "}")())
end

function TestTokens:testOptions()
  lu.assertEquals((ingot("tokenize %m --no-bos ''")), "\n")
  lu.assertEquals((ingot("tokenize %m ''")), "0\n")
  lu.assertEquals((ingot("tokenize %m --no-bos --special '<|end|>'")), "4\n")
  lu.assertStrContains((ingot("tokenize %m --no-bos '<|end|>'")), ",")
  lu.assertEquals((ingot("detokenize %m 4")), "")
  lu.assertEquals((ingot("detokenize %m ' 4, 4 '  --special")), "<|end|><|end|>")
  lu.assertEquals((ingot("detokenize %m ''")), "")
end

function TestTokens:testSources()
  L.write(tmp("hello"), "Hello")
  local want = ingot("tokenize %m Hello")
  lu.assertEquals((ingot("tokenize %m -p Hello")), want)
  lu.assertEquals((ingot("tokenize %m -f " .. tmp("hello"))), want)
  refuses(2, "tokenize %m Hello -p Hello", "want one of TEXT, -p and -f")
end

function TestTokens:testListsOfIds()
  local want = ingot("detokenize %m 40,50,60")
  for _, list in ipairs { "40 50 60", "'[40, 50, 60]'", "40, 50, 60", "40 --special '50 60'",
                          [['{"ids": [40,50,60]}']] } do
    lu.assertEquals((ingot("detokenize %m " .. list)), want, list)
  end
  local hello = ingot("tokenize %m --no-bos -o json Hello")
  lu.assertEquals((ingot("detokenize %m " .. L.quote(hello))), "Hello")
  refuses(2, "detokenize %m 5 99999 6", 'want token ids from 0 to 4095, got "99999"\n')
  refuses(2, "detokenize %m 5 7x 6", 'got "7x"\n')
  local nul = L.tmp() .. "/nul"
  L.write(nul, "5,6\0 7")
  refuses(2, "detokenize %m <" .. nul, "got a NUL byte")
  refuses(2, [[detokenize %m '{"ids": [5, 6]']], "got ")
end

TestEval = {}

function TestEval:testPerplexity()
  L.write(tmp("story"), ("The old man went down to the sea and looked at the ships. "):rep(12))
  local ids = ingot("tokenize %m --no-bos", nil, "<" .. tmp("story"))
  local _, commas = ids:gsub(",", "")
  local n = commas + 1
  local by = {}
  for _, batch in ipairs { 1, 7, 40 } do
    local out, err, code = ingot(("eval %%m -f %s -c 50 -b %d -o json"):format(tmp("story"), batch))
    assert_code(0, code, err)
    local got = json.decode(out)
    lu.assertEquals(got.tokens, n)
    lu.assertEquals(got.windows, (n + 49) // 50)
    lu.assertEquals(got.predicted_tokens, n - got.windows)
    lu.assertAlmostEquals(math.exp(got.mean_nll), got.perplexity, 1e-3 * got.perplexity)
    by[#by + 1] = got.mean_nll
  end
  lu.assertEquals({ by[2], by[3] }, { by[1], by[1] })
end

function TestEval:testRefusals()
  refuses(1, "eval %m -f /nonexistent", "/nonexistent")
  L.write(tmp("empty"), "")
  refuses(1, "eval %m -f " .. tmp("empty"), "want 2 tokens or more")
  refuses(1, "eval %m --tokens 1,2 --dump /nonexistent/x", "/nonexistent/x: cannot create")
  L.run(("mkfifo %s; ln -s /dev/null %s"):format(tmp("fifo"), tmp("null")))
  for _, name in ipairs { "fifo", "null" } do
    refuses(1, "eval %m --tokens 1,2 --dump " .. tmp(name),
      name .. ": want the name of a regular file, got something else")
  end
  lu.assertEquals({ L.run("test -p " .. tmp("fifo")) }, { "", "", 0 })
  local out, err, code = ingot("eval %m --tokens 1,2 --dump " .. tmp("cut"), "ulimit -f 2;")
  lu.assertEquals({ out, code }, { "", 1 })
  lu.assertStrContains(err, "cut: cannot write: File too large")
  lu.assertEquals((L.run(("ls %s | grep cut"):format(L.tmp()))), "")
  refuses(1, "eval %m --tokens 1,2 --greedy 2000000", "the context has")
  refuses(2, "eval %m --tokens 1,4096 --greedy 1", "want token ids from 0 to 4095")
end

function TestEval:testDump()
  local path = tmp("d.safetensors")
  local out, err, code = ingot("eval %m --tokens 0,5,9,200 --greedy 3 --dump " .. path)
  assert_code(0, code, err)
  lu.assertStrMatches(err, ".*" .. path:gsub("%p", "%%%0") .. ": written, [%d.]+ MB\n.*")
  local t = L.safetensors(path)
  lu.assertEquals(t["input_ids"], { 0, 5, 9, 200, shape = { 4 } })
  lu.assertEquals(t["logits"].shape, { 4, 4096 })
  lu.assertEquals(t["hidden.embed"].shape, { 4, 256 })
  lu.assertEquals(t["hidden.layer6"].shape, { 4, 256 })
  lu.assertEquals(t["hidden.final_norm"].shape, { 4, 256 })
  lu.assertEquals(t["router.layer0.topk_idx"].shape, { 4, 2 })
  lu.assertEquals(t["greedy.logits"].shape, { 3, 4096 })
  lu.assertEquals(L.ids(t["greedy.tokens"]) .. "\n", out)
  local w = t["router.layer3.topk_weight"]
  for i = 1, #w, 2 do
    lu.assertTrue(w[i] >= w[i + 1])
    lu.assertAlmostEquals(w[i] + w[i + 1], 1, 1e-5)
  end
  lu.assertEquals((ingot("eval %m --tokens 0,5,9,200 --greedy 3")), out)
end

TestBench = {}

function TestBench:testJson()
  local out, err, code = ingot("bench %m -p 32 -n 8 -r 3 -o json")
  assert_code(0, code, err)
  local got = json.decode(out)
  lu.assertEquals(got.repetitions, 3)
  lu.assertEquals({ got.tests[1].test, got.tests[2].test }, { "prefill", "decode" })
  for _, t in ipairs(got.tests) do
    local ms = t.ms_per_token
    lu.assertTrue(ms.min > 0 and ms.min <= ms.median and ms.median <= ms.max)
    lu.assertAlmostEquals(t.fraction_of_bound, t.tokens_per_s / t.bound_tokens_per_s, 1e-6)
    lu.assertAlmostEquals(t.bound_tokens_per_s * t.bytes_per_token / (t.bound_gb_per_s * 1e9), 1,
      1e-6)
  end
  lu.assertTrue(got.peak_bytes > 0 and got.plan_bytes > 0)
end

-- JSON's readers keep numbers as doubles: a seed of 64 bits is read exactly as a string.
function TestBench:testLargestSeed()
  local out, err, code = ingot("bench %m -p 0 -n 1 -r 1 -s 18446744073709551615 -o json")
  assert_code(0, code, err)
  lu.assertEquals(json.decode(out).seed, "18446744073709551615")
end

function TestBench:testCsvAndText()
  local out, err, code = ingot("bench %m -p 8 -n 4 -r 1 -o csv")
  assert_code(0, code, err)
  local rows, columns = {}, nil
  for line in out:gmatch("[^\n]+") do
    local _, commas = line:gsub(",", "")
    columns = columns or commas
    lu.assertEquals(commas, columns, line)
    rows[#rows + 1] = line
  end
  lu.assertEquals(#rows, 3)
  out = ingot("bench %m -p 0 -n 4 -r 2")
  lu.assertStrContains(out, "decode")
  lu.assertNotStrContains(out, "prefill")
  lu.assertStrMatches(out, ".*\npeak memory [%d.]+ MB: the plan's arena [%d.]+ MB.*")
  out = ingot("bench %m -p 0 -n 1 -r 1 -t 1")
  lu.assertStrContains(out, "\n1 thread, ")
  lu.assertStrContains(out, ", 1 repetition\n")
end

TestInfo = {}

function TestInfo:testPlan()
  local out, _, code = ingot("plan")
  assert_code(0, code)
  lu.assertTrue(#out > 200)
end

function TestInfo:testInfo()
  local out, err, code = ingot("info %m -o json")
  assert_code(0, code, err)
  local got = json.decode(out)
  lu.assertTrue(got.machine.isa_ok)
  lu.assertTrue(got.weights.matches)
  lu.assertEquals(got.weights.layout, got.build.layout)
  lu.assertNotNil(got.run.downgrades)
  lu.assertTrue(#got.build.regions > 5)
  out, err, code = ingot("info")
  assert_code(0, code, err)
  lu.assertStrContains(out, "no weights")
  out, err, code = ingot("info %m --no-load")
  assert_code(0, code, err)
  lu.assertStrContains(out, "run: not loaded")
  out = ingot("info %m")
  lu.assertStrMatches(out, "weights:\n  file: .-\n  matches: yes\n.*\nrun:\n  on: CPU\n  link: none\n  pinned: none\n"
    .. "  misses: none\n  batches: none\n  downgrades:.*"
    .. "\nbuild:\n.*  weights: 18%.3 MiB\n.*\n  regions:\n.* MiB at +[%d.]+\n")
end

--- A plan for more threads than the machine has is said, unless -t asked for a number.
function TestInfo:testPlannedThreads()
  local f = assert(io.popen("nproc"))
  local cpus = f:read("n")
  f:close()
  lu.skipIf(cpus >= 32, "the machine has what was planned")
  local _, err = ingot("run %m -p x -n 1")
  local cores = tonumber(err:match("threads: planned for 32, the machine has (%d+) usable core"))
  lu.assertTrue(cores and cores >= 1 and cores <= cpus, err)
  _, err = ingot("run %m -p x -n 1 -t 1")
  lu.assertNotStrContains(err, "downgrade: threads")
end

function TestInfo:testOtherLayoutNamesBoth()
  local other = L.engine("t-mixtral")
  lu.skipIf(not other, "t-mixtral is not built")
  local out, err, code = L.run(("%s info -m %s"):format(other, weights))
  assert_code(3, code, err)
  lu.assertStrContains(out, "matches: no")
  for _, binary in ipairs { bin, other } do
    lu.assertStrContains(err, L.run(binary .. " --version"):match("layout (%x+)"))
  end
  out, err, code = L.run(("%s run -p x -m %s"):format(other, weights))
  lu.assertEquals(out, "")
  assert_code(3, code, err)
  local path = tmp("other.ingot")
  _, err, code = L.run(("%s pack %s -o %s"):format(other, C.src, path))
  assert_code(3, code, err)
  lu.assertStrContains(err, ("; this binary is for mixtral; make MODEL=%s builds one for it"):format(
    C.src))
  _, err = L.run(("%s info -m %s"):format(other, weights))
  local sides = "packed for another model; .-\n  this binary: %x+, .-\n  the file: +%x+, .-\n"
  lu.assertStrMatches(err, ".*" .. sides .. ".*")
  _, err = L.run(("%s run -p x -m %s"):format(other, weights))
  lu.assertStrMatches(err, ".*" .. sides .. ".*")
end

C.finish()

-- The command line as a user meets it: every command, every refusal, signals, closed outputs.
local lu = require "luaunit"
local L = dofile("tests/e2e/lib.lua")
local json = require "dkjson"

local ID, SRC = "t-demo", "tests/data/tiny-mixtral.gguf"
local bin = assert(L.engine(ID), ID .. " is not built")
local weights = L.pack(ID, SRC)
local COMMANDS = {
  "run", "chat", "pack", "eval", "bench", "tokenize", "detokenize", "plan", "info",
}

--- Run the binary; %m in the arguments stands for -m WEIGHTS.
local function ingot(arguments, before, after)
  return L.run(("%s %s %s %s"):format(before or "", bin,
    (arguments:gsub("%%m", "-m " .. weights)), after or ""))
end

local function assert_code(want, code, err) lu.assertEquals(code, want, err) end

--- It must end with `code`, say each of `patterns` on stderr in one line, and print nothing.
local function refuses(code, arguments, ...)
  local out, err, got = ingot(arguments)
  lu.assertEquals(got, code, arguments .. ": " .. err)
  lu.assertEquals(out, "", arguments)
  for _, pattern in ipairs { ... } do
    lu.assertStrContains(err, pattern, false, arguments)
  end
end

local function tmp(name) return L.tmp() .. "/" .. name end

TestHelp = {}

function TestHelp:testProgram()
  for _, flag in ipairs { "--help", "-h", "help" } do
    local out, err, code = ingot(flag)
    assert_code(0, code, err)
    lu.assertEquals(err, "")
    for _, command in ipairs(COMMANDS) do lu.assertStrContains(out, "\n  " .. command) end
  end
end

function TestHelp:testCommands()
  for _, command in ipairs(COMMANDS) do
    for _, flag in ipairs { "--help", "-h" } do
      local out, err, code = ingot(command .. " " .. flag)
      assert_code(0, code, err)
      lu.assertStrContains(out, "usage: ")
      lu.assertStrContains(out, "--help")
    end
  end
end

function TestHelp:testVersionNamesPlanAndLayout()
  local out, _, code = ingot("--version")
  assert_code(0, code)
  local hash = ("%x"):rep(16)
  lu.assertStrMatches(out, "ingot: model [%w.-]+, machine [%w.-]+, plan " .. hash:gsub("%%x", "%%x")
    .. ", layout " .. hash .. "\n")
end

TestUsage = {}

function TestUsage:testCommandNames()
  refuses(2, "", "want a command, got none")
  refuses(2, "rnu", 'unknown command "rnu"; the nearest is run')
  refuses(2, "tokenise", "the nearest is tokenize")
end

function TestUsage:testUnknownOptionsSuggest()
  refuses(2, "run --tmp 1", 'unknown option "--tmp"; the nearest is --temp')
  refuses(2, "run --topk 1", "the nearest is --top-k")
  refuses(2, "chat --top_p=1", "the nearest is --top-p")
  refuses(2, "bench --repetition 1", "the nearest is --repetitions")
  refuses(2, "plan -n 3", 'unknown option "-n"')
end

function TestUsage:testNumbers()
  refuses(2, "run %m -n abc", "-n: want a whole number of -1 or more", 'got "abc"')
  refuses(2, "run %m -n -2", "-n: want", 'got "-2"')
  refuses(2, "run %m -n 1.5", 'got "1.5"')
  refuses(2, "run %m -n 99999999999999999999", "-n: want")
  refuses(2, "run %m -n ''", "-n: want", 'got ""')
  refuses(2, "run %m -c 0", "-c: want a whole number from 1 to ", 'got "0"')
  refuses(2, "run %m -c 999999999", "-c: want")
  refuses(2, "run %m -t 0", "-t: want")
  refuses(2, "run %m -b 0", "-b: want")
  refuses(2, "run %m --temp nan", "--temp: want a number from 0 to 100", 'got "nan"')
  refuses(2, "run %m --temp -1", "--temp: want")
  refuses(2, "run %m --temp inf", "--temp: want")
  refuses(2, "run %m --top-p 1.01", "--top-p: want a number from 0 to 1")
  refuses(2, "run %m --min-p x", "--min-p: want")
  refuses(2, "run %m --top-k -1", "--top-k: want")
  refuses(2, "run %m --repeat-penalty 0", "--repeat-penalty: want")
  refuses(2, "run %m --repeat-last-n 65", "--repeat-last-n: want a whole number from 0 to 64")
  refuses(2, "run %m -s -1", "-s: want a whole number from 0 to 2^64 - 1")
  refuses(2, "run %m -s 18446744073709551616", "-s: want")
  refuses(2, "bench %m -r 0", "-r: want")
  refuses(2, "bench %m -o xml", "-o: want text|json|csv", 'got "xml"')
  refuses(2, "eval %m -f x -o csv", "-o: want text|json")
end

function TestUsage:testShapes()
  refuses(2, "run -p", "-p: want a value (TEXT), got none")
  refuses(2, "run hello", "a prompt goes behind -p")
  refuses(2, "run -p a -f b", "want -p or -f, got both")
  refuses(2, "run --ignore-eos=1", "--ignore-eos: want no value")
  refuses(2, "tokenize a b", "want one argument")
  refuses(2, "pack", "want -o FILE or --embed FILE")
  refuses(2, "pack -o x", "want SRC")
  refuses(2, "pack src --synth 1 -o x", "want SRC or --synth, got both")
  refuses(2, "pack src -o ''", "-o: want a file name")
  refuses(2, "eval %m", "want -f FILE or --tokens IDS, got neither")
  refuses(2, "eval %m -f x --tokens 1", "got both")
  refuses(2, "eval %m -f x --greedy 1", "--greedy: want --tokens")
  refuses(2, "eval %m --tokens 1", "--tokens: want --dump FILE or --greedy N")
  refuses(2, "bench %m -p 0 -n 0", "want -p or -n above 0")
  refuses(2, "detokenize %m 5,x", "want token ids from 0 to 4095", 'got "x"')
  refuses(2, "detokenize %m 4096", 'got "4096"')
  refuses(2, "detokenize %m -- -1", 'got "-1"')
  refuses(2, "eval %m --tokens '' --greedy 1", "got none")
end

function TestUsage:testLongOptionsTakeEquals()
  local _, err, code = ingot("run %m --n-predict=3 --temp=0 -p Once")
  assert_code(0, code, err)
  lu.assertStrContains(err, "decode: 3 tokens")
end

TestWeights = {}

function TestWeights:testNone()
  refuses(1, "run -p x", "no weights: want -m FILE", "pack CHECKPOINT -o FILE")
  refuses(1, "tokenize x", "no weights")
end

function TestWeights:testMissingFile() refuses(1, "run -m /nonexistent -p x", "/nonexistent") end

function TestWeights:testBesideTheProgram()
  local folder = tmp("beside")
  L.run(("mkdir %s && ln %s %s/engine"):format(folder, bin, folder))
  L.run(("cp %s %s/engine"):format(bin, folder))
  local name = ingot("--version"):match("model ([^,]+)")
  L.run(("cp %s %s/%s.ingot"):format(weights, folder, name))
  local out, err, code = L.run(folder .. "/engine tokenize --no-bos Hello")
  assert_code(0, code, err)
  lu.assertStrMatches(out, "[%d,]+\n")
end

function TestWeights:testEmbedded()
  local one = tmp("one")
  local _, err, code = ingot(("pack %s --embed %s"):format(SRC, one))
  assert_code(0, code, err)
  local out
  out, err, code = L.run(one .. " run -p Once -n 4 --temp 0")
  assert_code(0, code, err)
  lu.assertEquals(out, (ingot("run %m -p Once -n 4 --temp 0")))
  lu.assertStrContains((L.run(one .. " info")), "(embedded)")
end

--- Damage `weights` at `offset` (nil: cut there) and say what a command makes of it.
local function damaged(name, edit)
  local path = tmp(name)
  L.write(path, edit(L.read(weights)))
  return path
end

function TestWeights:testDamaged()
  local half = damaged("half", function(s) return s:sub(1, #s // 2) end)
  local bit = damaged("bit", function(s)
    local at = #s - 5000
    return s:sub(1, at - 1) .. string.char(s:byte(at) ~ 1) .. s:sub(at + 1)
  end)
  local head = damaged("head", function(s) return s:sub(1, 40) .. "\255" .. s:sub(42) end)
  local empty = damaged("empty", function() return "" end)
  for _, path in ipairs { half, bit, head, empty } do
    for _, command in ipairs { "run -p x -n 1", "bench -p 1 -n 1 -r 1",
                               "eval --tokens 1 --greedy 1" } do
      local out, err, code = ingot(command .. " -m " .. path)
      lu.assertTrue(code == 1 or code == 3, ("%s -m %s: %d"):format(command, path, code))
      lu.assertEquals(out, "")
      lu.assertStrContains(err, path)
    end
  end
end

TestRun = {}

function TestRun:testStreamsAndReports()
  local out, err, code = ingot("run %m -p 'Once upon a time' -n 12 --temp 0")
  assert_code(0, code, err)
  lu.assertTrue(#out > 12)
  lu.assertStrMatches(err, ".*prompt: %d+ tokens, [%d.]+ tokens/s\n.*")
  lu.assertStrMatches(err,
    ".*decode: 12 tokens, [%d.]+ tokens/s, [%d.]+ ms each; bound [%d.]+ tokens/s %(.*%), "
    .. "%d+ %% of it reached\n.*")
  lu.assertStrContains(err, "ended: the limit of -n")
end

function TestRun:testPromptSources()
  L.write(tmp("prompt"), "Once upon a time")
  L.write(tmp("prompt-nl"), "Once upon a time\n")
  local tail = " -n 6 --temp 0"
  local want = ingot("run %m -p 'Once upon a time'" .. tail)
  lu.assertEquals((ingot("run %m -f " .. tmp("prompt") .. tail)), want)
  lu.assertEquals((ingot("run %m -f " .. tmp("prompt-nl") .. tail)), want)
  lu.assertEquals((ingot("run %m" .. tail, nil, "<" .. tmp("prompt-nl"))), want)
  lu.assertEquals((ingot("run %m -f -" .. tail, nil, "<" .. tmp("prompt"))), want)
  lu.assertEquals((ingot("run %m --display-prompt -p 'Once upon a time'" .. tail)),
    "Once upon a time" .. want)
  refuses(1, "run %m -f /nonexistent", "/nonexistent")
end

function TestRun:testNothingToGenerate()
  local out, err, code = ingot("run %m -p 'Once upon' -n 0")
  assert_code(0, code, err)
  lu.assertEquals(out, "")
  lu.assertStrContains(err, "decode: 0 tokens")
end

function TestRun:testEmptyPromptBeginsWithBos()
  local _, err, code = ingot("run %m -p '' -n 2")
  assert_code(0, code, err)
  lu.assertStrContains(err, "prompt: 1 tokens")
end

function TestRun:testSeedRepeats()
  local tail = " -p 'It was' -n 24 --temp 1.5 --min-p 0"
  local one, err = ingot("run %m" .. tail)
  local seed = err:match("seed (%d+)")
  lu.assertEquals((ingot("run %m -s " .. seed .. tail)), one)
  lu.assertEquals((ingot("run %m -t 1 -b 1 -s " .. seed .. tail)), one)
  lu.assertNotEquals((ingot("run %m" .. tail)), one)
end

function TestRun:testLongPromptIsRefused()
  refuses(1, "run %m -c 8 -p 'one two three four five six seven eight nine ten'",
    "tokens, the context has room for 8")
end

function TestRun:testContextFills()
  local out, err, code = ingot("run %m -c 16 -p 'Once' --ignore-eos")
  assert_code(0, code, err)
  lu.assertTrue(#out > 0)
  lu.assertStrContains(err, "ended: the context is full; 16 of 16 positions used")
end

function TestRun:testInvalidUtf8()
  local _, err, code = ingot("run %m -n 2 -p \"$(printf 'a\\377\\300b')\"")
  assert_code(0, code, err)
end

function TestRun:testControlTokensStayText()
  local count = function(options)
    local _, err, code = ingot("run %m -n 0 -p '<|end|>'" .. options)
    assert_code(0, code, err)
    return tonumber(err:match("prompt: (%d+) tokens"))
  end
  lu.assertEquals(count(" --special"), 2)
  lu.assertTrue(count("") > 2)
end

TestOutput = {}

function TestOutput:testReaderThatLeaves()
  local out, err, code = L.run(("{ %s run -m %s -p Once --ignore-eos; echo $? >%s; } | head -c 5")
    :format(bin, weights, tmp("status")))
  assert_code(0, code, err)
  lu.assertEquals(#out, 5)
  lu.assertEquals(L.read(tmp("status")), "141\n")
  lu.assertNotStrContains(err, "write")
end

function TestOutput:testFullDisk()
  for _, command in ipairs { "run %m -p x -n 9", "plan", "info", "--help", "tokenize %m x",
                             "bench %m -p 1 -n 1 -r 1", "eval %m --tokens 1 --greedy 2" } do
    local _, err, code = ingot(command, nil, ">/dev/full")
    assert_code(1, code, command)
    lu.assertStrContains(err, "standard output: cannot write: No space left on device")
  end
end

function TestOutput:testClosed()
  for _, command in ipairs { "plan", "run %m -p x -n 9" } do
    local _, err, code = ingot(command, nil, ">&-")
    assert_code(1, code, command)
    lu.assertStrContains(err, "standard output: cannot write")
  end
end

--- Nothing that is written may land in a file that took a closed descriptor's number.
function TestOutput:testClosedDescriptorsHarmNoFile()
  local path = tmp("synth-closed.ingot")
  local _, _, code = ingot("pack --synth 1 -o " .. path, nil, "<&- >&- 2>&-")
  assert_code(0, code)
  local _, err
  _, err, code = ingot("bench -m " .. path .. " -p 1 -n 1 -r 1")
  assert_code(0, code, err)
end

TestSignals = {}

--- Start, wait until there is output, send the signal; stderr and exit code.
local function interrupted(arguments, signal)
  local _, err, code = L.run(([[
    env --default-signal=INT %s %s >%s & p=$!
    n=0; while [ ! -s %s ] && [ $n -lt 1000 ]; do sleep 0.01; n=$((n+1)); done
    kill -%s $p; wait $p]]):format(bin, (arguments:gsub("%%m", "-m " .. weights)), tmp("signal-out"),
    tmp("signal-out"), signal))
  return err, code
end

function TestSignals:testRun()
  for signal, want in pairs { INT = 130, TERM = 143 } do
    os.remove(tmp("signal-out"))
    local err, code = interrupted("run %m -p Once --ignore-eos -t 1", signal)
    assert_code(want, code, err)
    lu.assertStrContains(err, "ended: interrupted")
    lu.assertStrMatches(err, ".*decode: %d+ tokens.*")
  end
end

TestChat = {}

function TestChat:testOneTurn()
  local out, err, code = ingot("chat %m -p 'Tell me a story.' -n 16 --temp 0")
  assert_code(0, code, err)
  lu.assertTrue(#out > 1)
  lu.assertNotStrContains(out, "<|")
end

function TestChat:testTurnsReuseTheCache()
  L.write(tmp("turns"), "Hello.\nAnd then?\n/reset\nHello.\n/exit\nnever read\n")
  local out, err, code = ingot("chat %m -n 8 --temp 0", nil, "<" .. tmp("turns"))
  assert_code(0, code, err)
  local turns = {}
  for prompt in err:gmatch("prompt: [^\n]*") do turns[#turns + 1] = prompt end
  lu.assertEquals(#turns, 3)
  lu.assertStrContains(turns[2], "still known")
  local first = out:match("^([^\n]*)\n")
  lu.assertStrContains(out:sub(#first + 1), first) -- a fresh start answers as the first time
end

function TestChat:testSystemMessageCounts()
  local tokens = function(options)
    local _, err, code = ingot("chat %m -n 1 -p Hi" .. options)
    assert_code(0, code, err)
    return tonumber(err:match("prompt: (%d+) tokens"))
  end
  lu.assertTrue(tokens(" --system 'You are a sailor.'") >= tokens(""))
end

function TestChat:testUserTextHasNoControlTokens()
  local tokens = function(text)
    local _, err, code = ingot("chat %m -n 0 -p " .. L.quote(text))
    assert_code(0, code, err)
    return tonumber(err:match("prompt: (%d+) tokens"))
  end
  lu.assertTrue(tokens("<|end|>") > tokens("x") + 1)
end

function TestChat:testTooLongAndInvalid()
  refuses(1, "chat %m -c 8 -p 'one two three four five six seven'", "the context has room for 8")
  local _, err, code = ingot("chat %m -n 2 -p \"$(printf 'a\\377b')\"")
  assert_code(0, code, err)
  _, err, code = ingot("chat %m -n 2", nil, "</dev/null")
  assert_code(0, code, err)
end

--- At a terminal: Ctrl-C stops the answer, a second one at the prompt leaves.
function TestChat:testTerminal()
  lu.skipIf(not os.execute("command -v script >/dev/null"), "no script(1) to make a terminal")
  local log = tmp("terminal")
  for _, leave in ipairs { { "\\003", 130 }, { "/exit\\r", 0 }, { "\\004", 0 } } do
    local _, _, code = L.run(([[
      seen() { n=0; until [ "$(grep -c "$1" %s)" -ge $2 ] || [ $n -gt 500 ]; do
                 sleep 0.02; n=$((n+1)); done; }
      : >%s
      { seen '^> ' 1; printf 'Hello.\r'; seen Hello 1; sleep 0.1; printf '\003'
        seen 'ended:' 1; printf '%s'; sleep 0.1; seen never 1; } |
      script -qefc '%s chat -m %s --ignore-eos -t 1' %s]]):format(log, log, leave[1], bin, weights,
      log))
    local text = L.read(log)
    lu.assertEquals(code, leave[2], text)
    lu.assertStrContains(text, "ended: interrupted")
    lu.assertStrContains(text, "decode: ")
  end
end

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
  refuses(1, "eval %m --tokens 1,2 --greedy 2000000", "the context has")
  refuses(2, "eval %m --tokens 1,4096 --greedy 1", "want token ids from 0 to 4095")
end

function TestEval:testDump()
  local path = tmp("d.safetensors")
  local out, err, code = ingot("eval %m --tokens 0,5,9,200 --greedy 3 --dump " .. path)
  assert_code(0, code, err)
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
  lu.assertStrContains(out, "peak memory")
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
  out, _, code = ingot("info")
  assert_code(0, code)
  lu.assertStrContains(out, "no weights")
  out, _, code = ingot("info %m --no-load")
  assert_code(0, code)
  lu.assertStrContains(out, "run: not loaded")
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
  _, err, code = L.run(("%s run -p x -m %s"):format(other, weights))
  assert_code(3, code, err)
end

local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

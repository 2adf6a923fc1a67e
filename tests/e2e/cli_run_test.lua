-- run: prompts, sampling, closed outputs, signals.
local lu = require "luaunit"
local C = dofile("tests/e2e/cli.lua")
local L, bin, weights, ingot = C.L, C.bin, C.weights, C.ingot
local assert_code, refuses, tmp = C.assert_code, C.refuses, C.tmp

TestRun = {}

function TestRun:testStreamsAndReports()
  local out, err, code = ingot("run %m -p 'Once upon a time' -n 12 --temp 0")
  assert_code(0, code, err)
  lu.assertTrue(#out > 12)
  lu.assertStrMatches(err, ".*prompt: %d+ tokens, [%d.]+ tokens/s\n.*")
  lu.assertStrMatches(err,
    ".*decode: 12 tokens, [%d.]+ tokens/s, [%d.]+ ms each\nbound: [%d.]+ tokens/s "
    .. "%([%d.]+ MB a token at the plan's [%d.]+ GB/s%), [%d.]+ %% of it reached\n.*")
  for line in err:gmatch("[^\n]+") do lu.assertTrue(#line < 100, line) end
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
  lu.assertStrContains(err, "prompt: 1 token,")
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

--- Text without a newline at its end and remarks behind it, in one pipe and in two.
function TestOutput:testRemarksStartALine()
  local text = ingot("run %m -p Once -n 3 --temp 0")
  lu.assertNotEquals(text:sub(-1), "\n")
  local both = L.run(("%s run -m %s -p Once -n 3 --temp 0 2>&1 | cat"):format(bin, weights))
  lu.assertStrContains(both, text .. "\nprompt: ")
  local _, err = ingot("run %m -p Once -n 3 --temp 0")
  lu.assertNotStrContains(err, "\n\n")
  lu.assertNotEquals(err:sub(1, 1), "\n")
end

TestSignals = {}

--- Start, wait until there is output, send the signal; stderr and exit code.
local function interrupted(arguments, signal)
  local _, err, code = L.run(([[
    env --default-signal=INT %s %s >%s & p=$!
    n=0; while [ ! -s %s ] && [ $n -lt 1000 ]; do sleep 0.01; n=$((n+1)); done
    kill -%s $p; wait $p]]):format(bin, (arguments:gsub("%%m", "-m " .. weights)),
    tmp("signal-out"), tmp("signal-out"), signal))
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

C.finish()

-- run and chat: prompts, sampling, closed outputs, signals, a terminal.
local lu = require "luaunit"
local C = dofile("tests/e2e/cli.lua")
local L, bin, weights, ingot, assert_code, refuses, tmp =
  C.L, C.bin, C.weights, C.ingot, C.assert_code, C.refuses, C.tmp

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

TestChat = {}

function TestChat:testOneTurn()
  local out, err, code = ingot("chat %m -p 'Tell me a story.' -n 16 --temp 0")
  assert_code(0, code, err)
  lu.assertTrue(#out > 1)
  lu.assertNotStrContains(out, "<|")
end

function TestChat:testMessageFromAFile()
  L.write(tmp("message"), "Tell me a story.\n")
  local tail = " -n 8 --temp 0"
  lu.assertEquals((ingot("chat %m -f " .. tmp("message") .. tail)),
    (ingot("chat %m -p 'Tell me a story.'" .. tail)))
  refuses(2, "chat %m -p a -f b", "want -p or -f, got both")
  lu.assertNotStrContains((ingot("chat --help")), "the prompt")
end

function TestChat:testUnknownCommand()
  L.write(tmp("commands"), "/rest\n/a/path is text\n")
  local _, err, code = ingot("chat %m -n 1", nil, "<" .. tmp("commands"))
  assert_code(0, code, err)
  lu.assertStrContains(err, "/rest: unknown command; /exit, /reset\n")
  lu.assertEquals(select(2, err:gsub("prompt: ", "")), 1)
end

--- What an arrow key types is dropped: what is left is a command.
function TestChat:testArrowKeys()
  lu.skipIf(not os.execute("command -v script >/dev/null"), "no script(1) to make a terminal")
  local log = tmp("arrows")
  L.run(([[: >%s
    { n=0; until grep -q '^> ' %s || [ $n -gt 500 ]; do sleep 0.02; n=$((n+1)); done
      printf '/re\033[D\033[1;5Cset\033OA\r'; sleep 0.3; printf '/exit\r'; sleep 0.2; } |
    script -qfc '%s chat -m %s -t 1' %s]]):format(log, log, bin, weights, log))
  lu.assertStrContains(L.read(log), "started over")
end

function TestChat:testTurnsReuseTheCache()
  L.write(tmp("turns"), "Hello.\nAnd then?\n/reset\nHello.\n/exit\nnever read\n")
  local out, err, code = ingot("chat %m -n 8 --temp 0", nil, "<" .. tmp("turns"))
  assert_code(0, code, err)
  local turns = {}
  for prompt in err:gmatch("prompt: [^\n]*") do turns[#turns + 1] = prompt end
  lu.assertEquals(#turns, 3)
  lu.assertStrContains(turns[2], "known")
  for _, line in ipairs(turns) do lu.assertTrue(#line < 100, line) end
  lu.assertStrContains(err, "started over\n")
  lu.assertStrMatches(err, ".*\nseed %d+\n")
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
    L.run(([[
      seen() { n=0; until grep -q "$1" %s || [ $n -gt 500 ]; do sleep 0.02; n=$((n+1)); done; }
      : >%s
      { seen '^> '; printf 'Hello.\r'; seen Hello; sleep 0.1; printf '\003'
        seen 'ended:'; printf '%s'; seen 'left='; } |
      script -qfc 'trap : INT; %s chat -m %s --ignore-eos -t 1; echo left=$?' %s]]):format(log, log,
      leave[1], bin, weights, log))
    local text = L.read(log)
    lu.assertStrContains(text, "ended: interrupted")
    lu.assertStrContains(text, "decode: ")
    lu.assertStrContains(text, ("left=%d"):format(leave[2]))
  end
end

C.finish()

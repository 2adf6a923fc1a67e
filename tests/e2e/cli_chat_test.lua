-- chat: turns, commands, a terminal.
local lu = require "luaunit"
local C = dofile("tests/e2e/cli.lua")
local L, bin, weights, ingot = C.L, C.bin, C.weights, C.ingot
local assert_code, refuses, tmp = C.assert_code, C.refuses, C.tmp

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

-- Help and refusals: what the command line says before it looks at weights.
local lu = require "luaunit"
local C = dofile("tests/e2e/cli.lua")
local ingot, assert_code, refuses, tmp = C.ingot, C.assert_code, C.refuses, C.tmp
local SRC = C.src
local COMMANDS = {
  "run", "chat", "pack", "eval", "bench", "trace", "tokenize", "detokenize", "plan", "info",
}

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
    lu.assertEquals(ingot("help " .. command), (ingot(command .. " --help")))
  end
  refuses(2, "help frobnicate", 'unknown command "frobnicate"\n')
  refuses(2, "help run bench", "help: want one command, got 2\n")
end

function TestHelp:testVersionNamesPlanAndLayout()
  local out, _, code = ingot("--version")
  assert_code(0, code)
  local hash = ("%x"):rep(16)
  lu.assertStrMatches(out, "ingot: model [%w.-]+, machine [%w.-]+, plan " .. hash
    .. ", layout " .. hash .. "\n")
end

TestUsage = {}

function TestUsage:testCommandNames()
  refuses(2, "", "want a command, got none")
  refuses(2, "frobnicate", 'unknown command "frobnicate"\n')
  refuses(2, "rnu", 'unknown command "rnu"; the nearest is run')
  refuses(2, "tokenise", "the nearest is tokenize")
end

function TestUsage:testUnknownOptionsSuggest()
  refuses(2, "run --tmp 1", 'unknown option "--tmp"; the nearest is --temp')
  refuses(2, "run --topk 1", "the nearest is --top-k")
  refuses(2, "chat --top_p=1", "the nearest is --top-p")
  refuses(2, "bench --repetition 1", "the nearest is --repetitions")
  refuses(2, "plan -n 3", 'unknown option "-n"\n')
  refuses(2, "run -z", 'unknown option "-z"\n')
  refuses(2, "run --colour", 'unknown option "--colour"\n')
  refuses(2, "run --colour", " run --help says what can be given")
end

function TestUsage:testWordsOfLlamaCpp()
  refuses(2, "perplexity -f x", "perplexity: here it is eval")
  refuses(2, "server", "no server in this version")
  refuses(2, "quantize a b", "here it is pack", 'make SET="quant=')
  refuses(2, "pack a --quant q8_0", '--quant: pack makes the formats that were planned',
    'make SET="quant=q8_0 quant.expert=q4_k"')
  refuses(2, "run -ngl 99", "-ngl: no GPU layers here")
  refuses(2, "chat --chat-template=x", "--chat-template: the template comes with the checkpoint")
  refuses(2, "run -fa", "-fa: not needed")
  refuses(2, "run --no-mmap", "--no-mmap: not needed")
  refuses(2, "-p Hi", "options follow a command: ", " run -p ...")
end

function TestUsage:testValuesOfLlamaCpp()
  local _, err, code = ingot("run %m -p Once -c 0 -s -1 --repeat-last-n -1 --predict 3 --temp 0")
  assert_code(0, code, err)
  lu.assertStrContains(err, "decode: 3 tokens")
  lu.assertStrContains(err, " of 2048 positions")
end

function TestUsage:testNumbers()
  refuses(2, "run %m -n abc", "-n: want a whole number of -1 or more", 'got "abc"')
  refuses(2, "run %m -n -2", "-n: want", 'got "-2"')
  refuses(2, "run %m -n 1.5", 'got "1.5"')
  refuses(2, "run %m -n 99999999999999999999", "-n: want")
  refuses(2, "run %m -n ''", "-n: want", 'got ""')
  refuses(2, "run %m -c -1", "-c: want 0 to 2048 (planned)", 'got "-1"')
  refuses(2, "run %m -c 4096", '-c: want 0 to 2048 (planned; SET="ctx=4096" plans more)')
  refuses(2, "run %m -t 4096", '; SET="threads=4096" plans more)')
  refuses(2, "run %m -b 4096", '; SET="batch=4096" plans more)')
  refuses(2, "bench %m -p 4096", '; SET="ctx=4096" plans more)')
  refuses(2, "eval %m -f x -c 1", "-c: want a window of 2 tokens or more")
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
  refuses(2, "run %m --repeat-last-n 65", "--repeat-last-n: want a whole number from -1 to 64")
  refuses(2, "run %m -s -2", "-s: want a whole number from 0 to 2^64 - 1, or -1")
  refuses(2, "bench %m -s -1", "-s: want a whole number from 0 to 2^64 - 1, got")
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

C.finish()

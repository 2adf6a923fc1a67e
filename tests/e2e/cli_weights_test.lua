-- Weights files: found, embedded, damaged, packed; a machine or a name that does not fit.
local lu = require "luaunit"
local C = dofile("tests/e2e/cli.lua")
local L, bin, weights, ingot = C.L, C.bin, C.weights, C.ingot
local assert_code, refuses, tmp = C.assert_code, C.refuses, C.tmp
local SRC = C.src

TestWeights = {}

function TestWeights:testNone()
  refuses(1, "run -p x", "no weights: want -m FILE", "pack CHECKPOINT -o FILE")
  refuses(1, "tokenize x", "no weights")
end

function TestWeights:testOtherFiles()
  refuses(1, "run -p x -m " .. SRC, SRC .. ": not a weights file (GGUF checkpoint): first ",
    (" pack %s -o FILE.ingot"):format(SRC))
  local st = tmp("x.safetensors")
  L.write(st, ("<s8"):pack('{"a":{}}'))
  refuses(1, "run -p x -m " .. st, "not a weights file (safetensors checkpoint): first ")
  refuses(1, "run -p x -m README.md", "README.md: not a weights file: its first bytes are not")
  refuses(1, "run -p x -m tests", "tests: is a folder; pack it first: ")
end

function TestWeights:testPackOfAPart()
  local one, json, out = tmp("model-00001-of-00002.safetensors"), tmp("config.json"), tmp("no")
  L.write(one, "")
  L.write(json, "{}")
  for _, path in ipairs { one, json } do
    refuses(2, ("pack %s -o %s"):format(path, out),
      ("; give the folder that holds it: pack %s/"):format(L.tmp()))
  end
  refuses(1, ("pack %s -o %s/no/x"):format(SRC, L.tmp()),
    ("cannot create: the folder %s/no does not exist"):format(L.tmp()))
  refuses(2, ("pack %s --embed %s"):format(SRC, bin), "this is the running program")
  local _, err = ingot(("pack %s -o %s"):format(SRC, out))
  lu.assertStrMatches(err, ".*/no: written, 19%.%d MB\n")
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

--- Random weights with a real tokenizer.
function TestWeights:testOtherTokenizer()
  local path = tmp("words.ingot")
  local _, err, code = ingot(("pack --synth 1 --tokenizer %s -o %s"):format(SRC, path))
  assert_code(0, code, err)
  local text = "'Once upon a time, 3 < 4'"
  lu.assertEquals((ingot("tokenize -m " .. path .. " " .. text)), (ingot("tokenize %m " .. text)))
  refuses(1, "pack --synth 1 --tokenizer tests -o " .. tmp("none"), "tests: want a tokenizer, got none")
  refuses(1, "pack --synth 1 --tokenizer /nonexistent -o " .. tmp("none"), "/nonexistent: cannot open")
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
  L.run(("head -c -1 %s >%s; chmod +x %s"):format(one, tmp("cut"), tmp("cut")))
  out, err, code = L.run(tmp("cut") .. " run -p Once -n 4")
  lu.assertEquals({ out, code }, { "", 1 })
  lu.assertStrContains(err, "cut: its embedded weights are cut short: want the trailer INGOTEMB")
end

function TestWeights:testPackHarmsNothing()
  local src, out = tmp("src.gguf"), tmp("harmless")
  L.run(("cp %s %s"):format(SRC, src))
  local same = "want an output that is not the checkpoint itself"
  refuses(2, ("pack %s -o %s"):format(src, src), same)
  refuses(2, ("pack %s -o %s --embed %s"):format(src, out, src), same)
  refuses(2, ("pack %s -o %s --embed %s"):format(src, out, out), "the same file twice")
  refuses(2, ("pack %s -o %s --embed %s"):format(src, out, bin), "this is the running program")
  lu.assertFalse(L.exists(out))
  lu.assertTrue(L.read(src) == L.read(SRC))
  os.remove(src)
end

function TestWeights:testPackUnderPressure()
  local out = tmp("pressed")
  local _, err, code = ingot(("pack %s -o %s"):format(SRC, out), "OMP_NUM_THREADS=1000000")
  assert_code(0, code, err)
  lu.assertTrue(L.read(out) == L.read(weights))
  os.remove(out)
  -- Two kinds of signal at once: the first one's orderly end.  Twice the same: at once, and tidy.
  for _, kinds in ipairs { { "HUP", "TERM" }, { "TERM", "TERM" } } do
    L.run(("bash -c '%s pack --synth 1 -o %s & p=$!; " ..
      "for i in $(seq 500); do [ -e %s.partial-$p ] && break; sleep 0.002; done; " ..
      "kill -%s $p; kill -%s $p; wait $p'"):format(bin, out, out, kinds[1], kinds[2]))
    lu.assertEquals((L.run(("ls %s | grep partial"):format(L.tmp()))), "")
  end
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

TestMachine = {}

--- The demo engine, built as if it needed an instruction set that no CPU has.
function TestMachine:testLacksAnInstructionSet()
  local from, to = "out/test/t-demo", "out/test/t-noisa"
  local _, err, code = L.run("mkdir -p " .. to)
  assert_code(0, code, err)
  for _, name in ipairs { "build.mk", "tables.c", "tables.h", "config.h" } do
    local text, n = L.read(from .. "/" .. name), 1
    if name == "config.h" then
      text, n = text:gsub("(#define IG_NEED_CPU%s+)%d+u", "%10x80000000u")
    elseif name == "tables.c" then -- which knows better
      text, n = text:gsub("_Static_assert%(%(IG_NEED_CPU[^\n]*", "")
    end
    lu.assertEquals(n, 1, name)
    if L.read(to .. "/" .. name) ~= text then L.write(to .. "/" .. name, text) end
  end
  _, err, code = L.run("env -u MAKEFLAGS -u MFLAGS make -s ID=test/t-noisa build")
  assert_code(0, code, err)
  local engine = assert(L.engine("t-noisa"))
  for _, command in ipairs { "run -p x", "chat -p x", "eval --tokens 1 --greedy 1", "bench -r 1" } do
    local out
    out, err, code = L.run(("%s %s -m %s"):format(engine, command, weights))
    assert_code(3, code, err)
    lu.assertEquals(out, "")
    lu.assertStrContains(err, "needs a CPU with unnamed bits 0x80000000; this machine has: ")
  end
  for command, want in pairs { plan = 0, ["--help"] = 0, ["tokenize x"] = 0, info = 3 } do
    if want == 3 or command:find("tokenize") then command = command .. " -m " .. weights end
    _, err, code = L.run(("%s %s"):format(engine, command))
    lu.assertEquals(code, want, command .. ": " .. err)
  end
end

-- Whatever names a user gives, messages do not steer the terminal; links are written through.
TestNames = {}

function TestNames:testControlBytes()
  local name = "a\27[31m\7\194\155b"
  local path, shown = tmp(name), "a\\x1b[31m\\x07\\xc2\\x9bb"
  local q = "'" .. path .. "'"
  local none = "'" .. path .. "-none'"
  for _, command in ipairs {
    "pack " .. SRC .. " -o " .. q, "info -m " .. q, "info -m " .. none, "eval %m --tokens 1,2 --dump " .. q,
    "pack " .. none .. " -o x", "eval %m -f " .. none, "run %m -f " .. none, "run -p x -m " .. none,
    "tokenize %m -f " .. none, "trace %m -f " .. none, "bench %m --route " .. none, "run " .. q, "'" .. name .. "'",
    "run %m -p x -s '" .. name .. "'", "pack " .. SRC .. " -o '" .. path .. "/no/folder'",
  } do
    local out, err = ingot(command)
    lu.assertStrContains(out .. err, shown, false, command)
    lu.assertNil((out .. err):find("[\7\27]"), command)
    lu.assertNil((out .. err):find("\194\155", 1, true), command)
  end
end

function TestNames:testLinkIsWrittenThrough()
  local link, file = tmp("link.ingot"), tmp("folder/weights.ingot")
  L.run(("mkdir -p %s; ln -s folder/weights.ingot %s"):format(tmp("folder"), link))
  for _ = 1, 2 do -- first the link leads nowhere
    local _, err, code = ingot(("pack %s -o %s"):format(SRC, link))
    assert_code(0, code, err)
    lu.assertEquals((L.run(("readlink %s; cmp %s %s && ls %s"):format(link, file, weights, tmp("folder")))),
      "folder/weights.ingot\nweights.ingot\n")
  end
end

C.finish()

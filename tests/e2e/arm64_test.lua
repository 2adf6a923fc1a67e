-- Engines for AArch64 under an emulator: the bits of this machine's engines.
--
-- Which engines: ARM64_* in tests/tests.mk.  Where they are not built (make setup-arm64, make arm64),
-- every test counts as skipped.
local lu = require "luaunit"
local L = dofile("tests/e2e/lib.lua")

local EMULATOR = "qemu-aarch64-static"
local HAS_EMULATOR = os.execute("command -v " .. EMULATOR .. " >/dev/null 2>&1")
local IDS = "1,5,80,7,33,21,90,14,3,250,77,12,9,200"

--- Command of the emulated engine, path of this machine's own engine, weights packed by the latter.
local function engines(name, source, emulator)
  local own, other = L.engine("t-" .. name), L.engine("arm64-" .. name, "-aarch64")
  lu.skipIf(not other or not HAS_EMULATOR, "no engine for AArch64, or no emulator: make setup-arm64, make arm64")
  assert(own, "t-" .. name .. " is not built")
  return (emulator or EMULATOR) .. " " .. other, own, L.pack("t-" .. name, source)
end

local function ok(command)
  local out, err, code = L.run(command)
  assert(code == 0, command .. ": " .. err)
  return out
end

--- What eval says of a prompt and 8 tokens after it: logits, hidden states, router choices.
local function dump(engine, weights, options)
  local path = L.tmp() .. "/dump.safetensors"
  ok(("%s eval -m %s --tokens %s --greedy 8 --dump %s %s"):format(engine, weights, IDS, path, options or ""))
  return L.read(path), path
end

local function same_bits(name, source)
  local emulated, own, weights = engines(name, source)
  local want = dump(own, weights)
  lu.assertTrue(#want > 1000)
  for _, options in ipairs { "", "-t 3 -b 5" } do
    lu.assertTrue(dump(emulated, weights, options) == want, name .. " " .. options .. ": another dump")
  end
end

TestArm64 = {}

function TestArm64:testFloat32() same_bits("mixtral", "tests/golden/mixtral") end
function TestArm64:testSinksAndBiases() same_bits("gpt-oss", "tests/golden/gpt-oss") end
function TestArm64:testExpertsOnDisk() same_bits("tier", "tests/data/tiny-mixtral.gguf") end

--- Formats that only the trained tiny model is made in.
local function tiny(name)
  local source = L.shared .. "/models/tiny-mixtral"
  lu.skipIf(not L.exists(source .. "/config.json"), "no ../shared/models/tiny-mixtral")
  same_bits(name, source)
end
function TestArm64:testQ4K() tiny("tiny-q4_k") end
function TestArm64:testKvQ80() tiny("tiny-kvq8") end

function TestArm64:testGoldenLogits()
  local emulated, _, weights = engines("mixtral", "tests/golden/mixtral")
  local gold = L.safetensors("tests/golden/mixtral/golden.safetensors")
  for _, prefix in ipairs { "prompt0.", "prompt1." } do
    local path = L.tmp() .. "/gold.safetensors"
    ok(("%s eval -m %s --tokens %s --dump %s --greedy 16")
      :format(emulated, weights, L.ids(gold[prefix .. "input_ids"]), path))
    local got, want = L.safetensors(path), gold[prefix .. "logits"]
    lu.assertTrue(L.max_diff(want, got["logits"]) <= 1e-3 * L.std(want), prefix .. "logits")
    lu.assertEquals(L.ids(got["greedy.tokens"]), L.ids(gold[prefix .. "greedy.tokens"]))
  end
end

function TestArm64:testPacksTheSameFile()
  local emulated, _, weights = engines("mixtral", "tests/golden/mixtral")
  local path = L.tmp() .. "/arm64.ingot"
  ok(("%s pack tests/golden/mixtral -o %s"):format(emulated, path))
  lu.assertTrue(L.read(path) == L.read(weights), "another weights file")
end

--- A core without dot products, and one that has them but not i8mm.
function TestArm64:testLacksAnInstructionSet()
  for name, lacks in pairs {
    mixtral = { cpu = "cortex-a72", says = "NEON with dot products" },
    ["gpt-oss"] = { cpu = "neoverse-n1", says = "NEON's matrix products (i8mm)" },
  } do
    local emulated, _, weights = engines(name, "tests/golden/" .. name, EMULATOR .. " -cpu " .. lacks.cpu)
    local _, err, code = L.run(("%s eval -m %s --tokens 1 --greedy 1"):format(emulated, weights))
    lu.assertEquals(code, 3)
    lu.assertStrContains(err, "needs a CPU with " .. lacks.says)
  end
end

local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

-- The same bits: whatever the threads and the batch, from GGUF as from safetensors, fused or not.
local lu = require "luaunit"
local L = dofile("tests/e2e/lib.lua")

TestBits = {}

--- The same bits whatever the threads and the prefill batch.
local function invariant(id, src, ids, options, path)
  local engine = L.engine(id)
  lu.skipIf(not engine, id .. " is not built")
  local weights, first = path or L.pack(id, src), nil
  for _, threads in ipairs { 1, 2, 3 } do
    for _, batch in ipairs { 1, 7, 64 } do
      local _, bytes = L.dump(engine, weights, ids,
        ("--greedy 24 -t %d -b %d %s"):format(threads, batch, options or ""))
      first = first or bytes
      lu.assertTrue(bytes == first, ("%s: -t %d -b %d"):format(id, threads, batch))
    end
  end
end

local function pseudo_ids(n, vocab)
  local ids, x = {}, 12345
  for i = 1, n do
    x = (x * 1103515245 + 12345) % 2147483648
    ids[i] = x // 65536 % vocab
  end
  return ids
end

for _, name in ipairs(L.FAMILIES) do
  TestBits["testBits_" .. name:gsub("%-", "_")] = function()
    local folder = L.golden_folder(name)
    lu.skipIf(not folder or not L.engine("t-" .. name), "no goldens of " .. name)
    invariant("t-" .. name, folder, pseudo_ids(150, 512))
  end
end
--- Latent attention, two stacks, and dense blocks in block formats; past 1024 positions, too.
for _, case in ipairs { "latent-q8_0", "latent-q4_0", "switch-f32", "switch-q8_0", "switch-kvq8" } do
  TestBits["testBitsSynth_" .. case:gsub("%-", "_")] = function()
    local id = "t-" .. case
    lu.skipIf(not L.engine(id), id .. " is not built")
    local path = L.tmp() .. "/" .. id .. ".ingot"
    local _, err, code = L.run(("%s pack --synth 1 -o %s"):format(L.engine(id), path))
    assert(code == 0, err)
    for _, n in ipairs { 150, 1150 } do
      local decoder = case:find("^switch") and "--decoder-tokens " .. L.ids(pseudo_ids(n - 7, 100)) or nil
      invariant(id, nil, pseudo_ids(n, 100), decoder, path)
    end
  end
end
function TestBits:testBitsBlocksOf256() invariant("t-tiny-q4_k", L.tiny.model, pseudo_ids(150, 4096)) end
function TestBits:testBitsBlocks() invariant("t-demo", "tests/data/tiny-mixtral.gguf", pseudo_ids(150, 4096)) end
--- Past 1024 positions attention is split into spans between threads.
function TestBits:testBitsLongContext()
  invariant("t-demo", "tests/data/tiny-mixtral.gguf", pseudo_ids(1150, 4096))
end
function TestBits:testBitsKvQ8_0()
  for _, n in ipairs { 150, 1150 } do
    invariant("t-demo-kvq8", "tests/data/tiny-mixtral.gguf", pseudo_ids(n, 4096))
  end
end

--- A GGUF of lossless types gives the bits of the safetensors it was made from.
function TestBits:testGgufEqualsSafetensors()
  for _, case in ipairs {
    { "t-mixtral", "t-mixtral-gguf", "mixtral", "tests/data/mixtral-f32.gguf" },
    { "t-mixtral-bf16-sharded", "t-mixtral-bf16-gguf", "mixtral-bf16-sharded", "tests/data/mixtral-bf16.gguf" },
  } do
    local a, b = L.engine(case[1]), L.engine(case[2])
    assert(a and b, case[2])
    local ids = pseudo_ids(40, 512)
    local _, x = L.dump(a, L.pack(case[1], "tests/golden/" .. case[3]), ids, "--greedy 16")
    local _, y = L.dump(b, L.pack(case[2], case[4]), ids, "--greedy 16")
    lu.assertTrue(x == y, case[4])
  end
end

for _, name in ipairs {
  "llama-dense", "qwen3-moe", "olmoe", "qwen2-moe", "granitemoe", "glm4-moe", "dbrx", "gpt-oss", "deepseek-v2",
  "deepseek-v3", "phimoe",
} do
  TestBits["testGgufEqualsSafetensors_" .. name:gsub("%-", "_")] = function()
    local folder, file = L.golden_folder(name), "out/tests/gguf/" .. name .. ".gguf"
    local a, b = L.engine("t-" .. name), L.engine("t-" .. name .. "-gguf")
    lu.skipIf(not (a and b and folder and L.exists(file)), "no engines of " .. name)
    local ids = pseudo_ids(40, 512)
    local _, x = L.dump(a, L.pack("t-" .. name, folder), ids, "--greedy 16")
    local _, y = L.dump(b, L.pack("t-" .. name .. "-gguf", file), ids, "--greedy 16")
    lu.assertTrue(x == y, file)
  end
end

--- q, k, v in one tensor, gate and up in one: the generator reads such a file, and pack makes the same bytes.
for _, name in ipairs { "qwen2-moe", "granitemoe" } do
  TestBits["testGgufFused_" .. name:gsub("%-", "_")] = function()
    local folder, engine = L.golden_folder(name), L.engine("t-" .. name)
    lu.skipIf(not (folder and engine), "no engine of " .. name)
    local file, packed = L.tmp() .. "/" .. name .. "-fused.gguf", L.tmp() .. "/fused.ingot"
    local _, err, code = L.run(("lua5.4 tests/e2e/make_gguf.lua %s %s fused"):format(folder, file))
    lu.assertEquals(code, 0, err)
    _, err, code = L.run(("lua5.4 build.lua %s hw/TEMPLATE.lua --explain"):format(file))
    lu.assertEquals(code, 0, err)
    _, err, code = L.run(("%s pack %s -o %s"):format(engine, file, packed))
    lu.assertEquals(code, 0, err)
    lu.assertTrue(L.read(packed) == L.read(L.pack("t-" .. name, folder)))
  end
end

local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

-- Whole models against the outputs of an independent implementation.
-- Tolerances: tests/golden/README.md.
local lu = require "luaunit"
local L = dofile("tests/e2e/lib.lua")
local json = require "dkjson"

--- eval --tokens of a prompt; the dumped tensors and the file's bytes.
local function dump(engine, weights, ids, options)
  local path = L.tmp() .. "/dump.safetensors"
  local _, err, code = L.run(("%s eval -m %s --tokens %s --dump %s %s")
    :format(engine, weights, L.ids(ids), path, options or ""))
  assert(code == 0, err)
  return L.safetensors(path), L.read(path)
end

--- Hidden states and router choices of a stack of layers (`of`: "", "enc." or "dec.").
local function check_layers(gold, got, prefix, of, n_layer)
  local function want(name) return gold[prefix .. name] end
  for layer = 0, n_layer - 1 do
    local name = ("%shidden.layer%d"):format(of, layer)
    if want(name) then
      lu.assertTrue(L.max_diff(want(name), got[name]) <= 1e-3 * L.std(want(name)), prefix .. name)
    end
    name = ("%srouter.layer%d.topk_"):format(of, layer)
    if want(name .. "idx") then
      lu.assertTrue(L.same(want(name .. "idx"), got[name .. "idx"]), prefix .. name .. "idx")
      lu.assertTrue(L.max_diff(want(name .. "weight"), got[name .. "weight"]) <= 1e-4,
        prefix .. name .. "weight")
    end
  end
end

--- The logits' largest difference over their deviation, which must be small.
local function check_logits(gold, got, prefix)
  local want = gold[prefix .. "logits"]
  if not want then return 0.0 end
  local worst = L.max_diff(want, got["logits"]) / L.std(want)
  lu.assertTrue(worst <= 1e-3, prefix .. "logits")
  return worst
end

--- Compare what `got` has of a golden prompt with it.
local function check_prompt(gold, got, prefix, n_layer, greedy)
  local worst = check_logits(gold, got, prefix)
  check_layers(gold, got, prefix, "", n_layer)
  if greedy then
    lu.assertEquals(L.ids(got["greedy.tokens"]), L.ids(gold[prefix .. "greedy.tokens"]))
  end
  return worst
end

--- A folder of goldens: the repository's copy, else the one beside it.
local function golden_folder(name)
  for _, folder in ipairs { "tests/golden/" .. name, L.shared .. "/goldens/" .. name } do
    if L.exists(folder .. "/golden.safetensors") then return folder end
  end
end

local function family(name)
  local id, folder = "t-" .. name, golden_folder(name)
  lu.skipIf(not folder, "no goldens of " .. name)
  local engine = L.engine(id)
  lu.skipIf(not engine, id .. " is not built")
  local weights = L.pack(id, folder)
  local gold = L.safetensors(folder .. "/golden.safetensors")
  local config = json.decode(L.read(folder .. "/config.json"))
  local worst = 0.0
  for _, prefix in ipairs { "prompt0.", "prompt1." } do
    local got = dump(engine, weights, gold[prefix .. "input_ids"], "--greedy 16")
    worst = math.max(worst, check_prompt(gold, got, prefix, config.num_hidden_layers or config.n_layers, true))
    lu.assertTrue(L.max_diff(gold[prefix .. "hidden.embed"], got["hidden.embed"])
      <= 1e-6 * L.std(gold[prefix .. "hidden.embed"]))
    lu.assertTrue(L.max_diff(gold[prefix .. "hidden.final_norm"], got["hidden.final_norm"]) <= 1e-3)
    lu.assertTrue(L.max_diff(gold[prefix .. "greedy.logits"], got["greedy.logits"])
      <= 1e-3 * L.std(gold[prefix .. "logits"]))
  end
  io.stderr:write(("%s: logits within %.1e of their standard deviation\n"):format(name, worst))
end

-- One test a folder of goldens.
local FAMILIES = {
  "mixtral", "mixtral-swa", "mixtral-bf16-sharded", "qwen3-moe", "qwen3-moe-bf16-sharded", "olmoe", "qwen2-moe",
  "granitemoe", "llama-dense", "glm4-moe", "phimoe", "dbrx", "gpt-oss", "deepseek-v2", "deepseek-v3",
}

TestGolden = {}
for _, name in ipairs(FAMILIES) do
  TestGolden["testGolden_" .. name:gsub("%-", "_")] = function() family(name) end
end

--- An encoder and a decoder; greedy decoding begins with the start token, not with the golden's decoder ids.
function TestGolden:testGolden_switch_transformer()
  local id, folder = "t-switch-transformer", golden_folder("switch-transformer")
  lu.skipIf(not folder or not L.engine(id), "no goldens of switch-transformer")
  local engine, weights = L.engine(id), L.pack(id, folder)
  local gold, worst = L.safetensors(folder .. "/golden.safetensors"), 0.0
  for _, prefix in ipairs { "prompt0.", "prompt1." } do
    local ids = gold[prefix .. "input_ids"]
    local got = dump(engine, weights, ids, "--decoder-tokens " .. L.ids(gold[prefix .. "decoder_input_ids"]))
    worst = math.max(worst, check_logits(gold, got, prefix))
    for _, of in ipairs { "enc.", "dec." } do
      check_layers(gold, got, prefix, of, 2)
      for _, name in ipairs { of .. "hidden.embed", of .. "hidden.final_norm" } do
        lu.assertTrue(L.max_diff(gold[prefix .. name], got[name]) <= 1e-4 * L.std(gold[prefix .. name]), name)
      end
    end
    got = dump(engine, weights, ids, "--greedy 16")
    lu.assertEquals(L.ids(got["greedy.tokens"]), L.ids(gold[prefix .. "greedy.tokens"]))
    lu.assertTrue(L.max_diff(gold[prefix .. "greedy.logits"], got["greedy.logits"])
      <= 1e-3 * L.std(gold[prefix .. "logits"]))
  end
  io.stderr:write(("switch-transformer: logits within %.1e of their standard deviation\n"):format(worst))
end

--- The trained tiny Mixtral; needs its checkpoint and goldens beside the repository.
local tiny = { gold = L.shared .. "/goldens/tiny-mixtral", model = L.shared .. "/models/tiny-mixtral" }

local function tiny_engine(id)
  lu.skipIf(not L.exists(tiny.model .. "/config.json"), "no ../shared/models/tiny-mixtral")
  local engine = L.engine(id)
  assert(engine, id .. " is not built")
  return engine, L.pack(id, tiny.model)
end

function TestGolden:testTinyF32()
  local engine, weights = tiny_engine("t-tiny-f32")
  local gold = L.safetensors(tiny.gold .. "/golden.safetensors")
  for p = 0, 3 do
    local prefix = ("prompt%d."):format(p)
    local ids = gold[prefix .. "input_ids"]
    local got = dump(engine, weights, ids, "--greedy 64")
    check_prompt(gold, got, prefix, 7, true)
    local last, all = gold[prefix .. "last_logits"], got["logits"]
    local row = table.move(all, #all - #last + 1, #all, 1, {})
    lu.assertTrue(L.max_diff(last, row) <= 1e-3 * L.std(last), prefix .. "last_logits")
  end
end

--- Perplexity of the held-out text within `bound` (relative) of the float32 reference.
local function perplexity(id, bound)
  local engine, weights = tiny_engine(id)
  local want = json.decode(L.read(tiny.gold .. "/eval-text.json"))
  local out, err, code = L.run(("%s eval -m %s -f %s/eval-text.txt -c 512 -o json")
    :format(engine, weights, tiny.gold))
  lu.assertEquals(code, 0, err)
  local got = json.decode(out)
  io.stderr:write(("%s: perplexity %.5f, reference %.5f (%+.3f %%)\n"):format(id,
    got.perplexity, want.perplexity, 100 * (got.perplexity / want.perplexity - 1)))
  lu.assertEquals(got.predicted_tokens, want.predicted_tokens)
  if bound then
    lu.assertTrue(math.abs(got.perplexity / want.perplexity - 1) <= bound, tostring(got.perplexity))
  end
end

function TestGolden:testPerplexityF32() perplexity("t-tiny-f32", 1e-5) end
function TestGolden:testPerplexityBf16() perplexity("t-tiny-bf16", 1e-3) end
function TestGolden:testPerplexityQ8_0() perplexity("t-tiny-q8_0", 5e-3) end
function TestGolden:testPerplexityKvQ8_0() perplexity("t-tiny-kvq8", 5e-3) end
function TestGolden:testPerplexityQ4_0() perplexity("t-tiny-q4_0", 2e-2) end
function TestGolden:testPerplexityQ4_K() perplexity("t-tiny-q4_k", 1.2e-2) end
function TestGolden:testPerplexityMxfp4() perplexity("t-tiny-mxfp4", 3e-2) end

--- The same bits whatever the threads and the prefill batch.
local function invariant(id, src, ids, options, path)
  local engine = L.engine(id)
  lu.skipIf(not engine, id .. " is not built")
  local weights, first = path or L.pack(id, src), nil
  for _, threads in ipairs { 1, 2, 3 } do
    for _, batch in ipairs { 1, 7, 64 } do
      local _, bytes = dump(engine, weights, ids,
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

for _, name in ipairs(FAMILIES) do
  TestGolden["testBits_" .. name:gsub("%-", "_")] = function()
    local folder = golden_folder(name)
    lu.skipIf(not folder or not L.engine("t-" .. name), "no goldens of " .. name)
    invariant("t-" .. name, folder, pseudo_ids(150, 512))
  end
end
--- Latent attention, two stacks, and dense blocks in block formats; past 1024 positions, too.
for _, case in ipairs { "latent-q8_0", "latent-q4_0", "switch-f32", "switch-q8_0", "switch-kvq8" } do
  TestGolden["testBitsSynth_" .. case:gsub("%-", "_")] = function()
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
function TestGolden:testBitsBlocksOf256() invariant("t-tiny-q4_k", tiny.model, pseudo_ids(150, 4096)) end
function TestGolden:testBitsBlocks() invariant("t-demo", "tests/data/tiny-mixtral.gguf", pseudo_ids(150, 4096)) end
--- Past 1024 positions attention is split into spans between threads.
function TestGolden:testBitsLongContext()
  invariant("t-demo", "tests/data/tiny-mixtral.gguf", pseudo_ids(1150, 4096))
end
function TestGolden:testBitsKvQ8_0()
  for _, n in ipairs { 150, 1150 } do
    invariant("t-demo-kvq8", "tests/data/tiny-mixtral.gguf", pseudo_ids(n, 4096))
  end
end

--- A GGUF of lossless types gives the bits of the safetensors it was made from.
function TestGolden:testGgufEqualsSafetensors()
  for _, case in ipairs {
    { "t-mixtral", "t-mixtral-gguf", "mixtral", "tests/data/mixtral-f32.gguf" },
    { "t-mixtral-bf16-sharded", "t-mixtral-bf16-gguf", "mixtral-bf16-sharded", "tests/data/mixtral-bf16.gguf" },
  } do
    local a, b = L.engine(case[1]), L.engine(case[2])
    assert(a and b, case[2])
    local ids = pseudo_ids(40, 512)
    local _, x = dump(a, L.pack(case[1], "tests/golden/" .. case[3]), ids, "--greedy 16")
    local _, y = dump(b, L.pack(case[2], case[4]), ids, "--greedy 16")
    lu.assertTrue(x == y, case[4])
  end
end

for _, name in ipairs {
  "llama-dense", "qwen3-moe", "olmoe", "qwen2-moe", "granitemoe", "glm4-moe", "dbrx", "gpt-oss", "deepseek-v2",
  "deepseek-v3", "phimoe",
} do
  TestGolden["testGgufEqualsSafetensors_" .. name:gsub("%-", "_")] = function()
    local folder, file = golden_folder(name), "out/tests/gguf/" .. name .. ".gguf"
    local a, b = L.engine("t-" .. name), L.engine("t-" .. name .. "-gguf")
    lu.skipIf(not (a and b and folder and L.exists(file)), "no engines of " .. name)
    local ids = pseudo_ids(40, 512)
    local _, x = dump(a, L.pack("t-" .. name, folder), ids, "--greedy 16")
    local _, y = dump(b, L.pack("t-" .. name .. "-gguf", file), ids, "--greedy 16")
    lu.assertTrue(x == y, file)
  end
end

--- q, k, v in one tensor, gate and up in one: the generator reads such a file, and pack makes the same bytes.
for _, name in ipairs { "qwen2-moe", "granitemoe" } do
  TestGolden["testGgufFused_" .. name:gsub("%-", "_")] = function()
    local folder, engine = golden_folder(name), L.engine("t-" .. name)
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

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

--- Compare what `got` has of a golden prompt with it.
local function check_prompt(gold, got, prefix, n_layer, greedy)
  local function want(name) return gold[prefix .. name] end
  if want("logits") then
    lu.assertTrue(L.max_diff(want("logits"), got["logits"]) <= 1e-3 * L.std(want("logits")),
      prefix .. "logits")
  end
  for layer = 0, n_layer - 1 do
    local name = ("hidden.layer%d"):format(layer)
    if want(name) then
      lu.assertTrue(L.max_diff(want(name), got[name]) <= 1e-3 * L.std(want(name)), prefix .. name)
    end
    name = ("router.layer%d.topk_"):format(layer)
    if want(name .. "idx") then
      lu.assertTrue(L.same(want(name .. "idx"), got[name .. "idx"]), prefix .. name .. "idx")
      lu.assertTrue(L.max_diff(want(name .. "weight"), got[name .. "weight"]) <= 1e-4,
        prefix .. name .. "weight")
    end
  end
  if greedy then
    lu.assertEquals(L.ids(got["greedy.tokens"]), L.ids(want("greedy.tokens")))
  end
end

local function family(id, folder)
  local engine = L.engine(id)
  lu.skipIf(not engine, id .. " is not built")
  local weights = L.pack(id, folder)
  local gold = L.safetensors(folder .. "/golden.safetensors")
  local config = json.decode(L.read(folder .. "/config.json"))
  for _, prefix in ipairs { "prompt0.", "prompt1." } do
    local got = dump(engine, weights, gold[prefix .. "input_ids"], "--greedy 16")
    check_prompt(gold, got, prefix, config.num_hidden_layers, true)
    lu.assertTrue(L.max_diff(gold[prefix .. "hidden.embed"], got["hidden.embed"]) == 0)
    lu.assertTrue(L.max_diff(gold[prefix .. "hidden.final_norm"], got["hidden.final_norm"]) <= 1e-3)
    lu.assertTrue(L.max_diff(gold[prefix .. "greedy.logits"], got["greedy.logits"])
      <= 1e-3 * L.std(gold[prefix .. "logits"]))
  end
end

TestGolden = {}
function TestGolden:testMixtral() family("t-mixtral", "tests/golden/mixtral") end
function TestGolden:testMixtralSlidingWindow() family("t-mixtral-swa", "tests/golden/mixtral-swa") end
function TestGolden:testMixtralBf16Sharded()
  family("t-mixtral-bf16", "tests/golden/mixtral-bf16-sharded")
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
function TestGolden:testPerplexityQ4_0() perplexity("t-tiny-q4_0") end
function TestGolden:testPerplexityQ4_K() perplexity("t-tiny-q4_k", 1.2e-2) end
function TestGolden:testPerplexityMxfp4() perplexity("t-tiny-mxfp4", 3e-2) end

--- The same bits whatever the threads and the prefill batch.
local function invariant(id, src, ids, options)
  local engine = L.engine(id)
  lu.skipIf(not engine, id .. " is not built")
  local weights, first = L.pack(id, src), nil
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

function TestGolden:testBitsF32() invariant("t-mixtral", "tests/golden/mixtral", pseudo_ids(150, 512)) end
function TestGolden:testBitsWindow()
  invariant("t-mixtral-swa", "tests/golden/mixtral-swa", pseudo_ids(150, 512))
end
function TestGolden:testBitsBf16()
  invariant("t-mixtral-bf16", "tests/golden/mixtral-bf16-sharded", pseudo_ids(150, 512))
end
function TestGolden:testBitsBlocksOf256() invariant("t-tiny-q4_k", tiny.model, pseudo_ids(150, 4096)) end
function TestGolden:testBitsBlocks() invariant("t-demo", "tests/data/tiny-mixtral.gguf", pseudo_ids(150, 4096)) end
--- Past 1024 positions attention is split into spans between threads.
function TestGolden:testBitsLongContext()
  invariant("t-demo", "tests/data/tiny-mixtral.gguf", pseudo_ids(1150, 4096))
end

--- A GGUF of lossless types gives the bits of the safetensors it was made from.
function TestGolden:testGgufEqualsSafetensors()
  for _, case in ipairs {
    { "t-mixtral", "t-mixtral-gguf", "mixtral", "tests/data/mixtral-f32.gguf" },
    { "t-mixtral-bf16", "t-mixtral-bf16-gguf", "mixtral-bf16-sharded", "tests/data/mixtral-bf16.gguf" },
  } do
    local a, b = L.engine(case[1]), L.engine(case[2])
    assert(a and b, case[2])
    local ids = pseudo_ids(40, 512)
    local _, x = dump(a, L.pack(case[1], "tests/golden/" .. case[3]), ids, "--greedy 16")
    local _, y = dump(b, L.pack(case[2], case[4]), ids, "--greedy 16")
    lu.assertTrue(x == y, case[4])
  end
end

local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

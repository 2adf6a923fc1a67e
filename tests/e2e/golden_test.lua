-- Whole models against the outputs of an independent implementation.
-- Tolerances: tests/golden/README.md.
local lu = require "luaunit"
local L = dofile("tests/e2e/lib.lua")
local json = require "dkjson"

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

local function family(name)
  local id, folder = "t-" .. name, L.golden_folder(name)
  lu.skipIf(not folder, "no goldens of " .. name)
  local engine = L.engine(id)
  lu.skipIf(not engine, id .. " is not built")
  local weights = L.pack(id, folder)
  local gold = L.safetensors(folder .. "/golden.safetensors")
  local config = json.decode(L.read(folder .. "/config.json"))
  local worst = 0.0
  for _, prefix in ipairs { "prompt0.", "prompt1." } do
    local got = L.dump(engine, weights, gold[prefix .. "input_ids"], "--greedy 16")
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
TestGolden = {}
for _, name in ipairs(L.FAMILIES) do
  TestGolden["testGolden_" .. name:gsub("%-", "_")] = function() family(name) end
end

--- An encoder and a decoder; greedy decoding begins with the start token, not with the golden's decoder ids.
function TestGolden:testGolden_switch_transformer()
  local id, folder = "t-switch-transformer", L.golden_folder("switch-transformer")
  lu.skipIf(not folder or not L.engine(id), "no goldens of switch-transformer")
  local engine, weights = L.engine(id), L.pack(id, folder)
  local gold, worst = L.safetensors(folder .. "/golden.safetensors"), 0.0
  for _, prefix in ipairs { "prompt0.", "prompt1." } do
    local ids = gold[prefix .. "input_ids"]
    local got = L.dump(engine, weights, ids, "--decoder-tokens " .. L.ids(gold[prefix .. "decoder_input_ids"]))
    worst = math.max(worst, check_logits(gold, got, prefix))
    for _, of in ipairs { "enc.", "dec." } do
      check_layers(gold, got, prefix, of, 2)
      for _, name in ipairs { of .. "hidden.embed", of .. "hidden.final_norm" } do
        lu.assertTrue(L.max_diff(gold[prefix .. name], got[name]) <= 1e-4 * L.std(gold[prefix .. name]), name)
      end
    end
    got = L.dump(engine, weights, ids, "--greedy 16")
    lu.assertEquals(L.ids(got["greedy.tokens"]), L.ids(gold[prefix .. "greedy.tokens"]))
    lu.assertTrue(L.max_diff(gold[prefix .. "greedy.logits"], got["greedy.logits"])
      <= 1e-3 * L.std(gold[prefix .. "logits"]))
  end
  io.stderr:write(("switch-transformer: logits within %.1e of their standard deviation\n"):format(worst))
end

local tiny = L.tiny

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
    local got = L.dump(engine, weights, ids, "--greedy 64")
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

local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

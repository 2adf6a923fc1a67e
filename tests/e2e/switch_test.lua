-- The command line of an encoder-decoder, against goldens: `run` gives the prompt to the encoder and
-- prints what the decoder chose there; the commands that make no sense of it say why.
package.path = "tests/e2e/?.lua;" .. package.path
local lu = require "luaunit"
local json = require "dkjson"
local lib = require "lib"

local FOLDER = "tests/golden/switch-transformer"
local engine = assert(lib.engine("t-switch-transformer"), "t-switch-transformer is not built")
local gold = lib.safetensors(FOLDER .. "/golden.safetensors")

-- A tokenizer with a letter of its own for every id that is not special.
local function letter(id) return utf8.char(0x4E00 + id) end
local function text_of(ids)
  local out = {}
  for i = 1, #ids do out[i] = ids[i] < 3 and "" or letter(ids[i]) end
  return table.concat(out)
end

local function tokenizer()
  local vocab, added = { { "<pad>", 0 }, { "</s>", 0 }, { "<unk>", 0 } }, {}
  for i = 1, 3 do added[i] = { id = i - 1, content = vocab[i][1], special = true, normalized = false } end
  for id = 3, 511 do vocab[id + 1] = { letter(id), -id / 100 } end
  local folder = lib.tmp() .. "/tok"
  os.execute("mkdir -p " .. lib.quote(folder))
  lib.write(folder .. "/tokenizer.json", json.encode {
    added_tokens = added, decoder = { type = "Fuse" }, model = { type = "Unigram", unk_id = 2, vocab = vocab } })
  return folder
end

local weights = lib.tmp() .. "/switch.ingot"
local _, err, code = lib.run(("%s pack %s --tokenizer %s -o %s"):format(engine, FOLDER, tokenizer(), weights))
assert(code == 0, err)

local function ingot(arguments) return lib.run(("%s %s"):format(engine, (arguments:gsub("%%m", "-m " .. weights)))) end

TestSwitch = {}
function TestSwitch:testRun()
  for _, prompt in ipairs { "prompt0.", "prompt1." } do
    for _, more in ipairs { "", "-t 1 -b 5" } do
      local out, why, rc = ingot(("run %%m -p %s --temp 0 -n 16 %s"):format(
        lib.quote(text_of(gold[prompt .. "input_ids"])), more))
      lu.assertEquals(rc, 0, why)
      lu.assertEquals(out, text_of(gold[prompt .. "greedy.tokens"]))
    end
  end
end

local refuses = lib.refuser(ingot)

function TestSwitch:testRefusals()
  refuses(1, "chat %m -p x", "chat: a model with an encoder does not chat; use run")
  refuses(2, "eval %m -f README.md",
    "eval: -f: want --tokens IDS: a model with an encoder has no perplexity of one text")
  refuses(1, "trace %m -f README.md", "trace: a model with an encoder has no trace of one text")
  refuses(2, "eval %m --tokens 3", "want --dump FILE or --greedy N")
end

-- Bytes: every matrix of the one layer with experts and of the dense one, once; one of 4 experts a row.
function TestSwitch:testBench()
  local out, why, rc = ingot("bench %m -p 64 -n 8 -r 1 -o json")
  lu.assertEquals(rc, 0, why)
  local tests = json.decode(out).tests
  local attn, dense, expert, router = 4 * 64 * 64 * 4, 2 * 64 * 32 * 4, 2 * 64 * 32 * 4, 16 * 64 * 4
  local cross = 2 * attn // 4 * 2 -- cross_k and cross_v of two decoder layers
  lu.assertEquals(tests[1].bytes_per_token * 64, 2 * attn + dense + router + 4 * expert + cross)
  lu.assertEquals(tests[2].bytes_per_token, 2 * (attn + attn // 2) + dense + router + expert + 512 * 64 * 4)
  local route = lib.tmp() .. "/route.csv"
  local rows = { "# route_trace v1\n# model=x arch=x n_layer=4 n_expert=4 n_expert_used=1\n",
    "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n" }
  for step = 0, 7 do
    for layer = 0, 3 do rows[#rows + 1] = ("0,1,%d,%d,0,%d,1.0,0,16384\n"):format(step, layer, (step + layer) % 4) end
  end
  lib.write(route, table.concat(rows))
  out, why, rc = ingot("bench %m -p 0 -n 8 -r 1 --route " .. route)
  lu.assertEquals(rc, 0, why)
  lu.assertStrContains(out, "decode took its experts from")
end

code = lu.LuaUnit.run()
lib.cleanup()
os.exit(code)

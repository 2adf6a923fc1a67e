-- An encoder-decoder's `run`: the prompt, with its end token, is the encoder's; the decoder starts its
-- own text.  What it prints is what `eval` chooses from the same ids.
package.path = "tests/e2e/?.lua;" .. package.path
local lu = require "luaunit"
local json = require "dkjson"
local lib = require "lib"

local LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
local vocab = { { "<pad>", 0 }, { "</s>", 0 }, { "<unk>", 0 }, { "▁", -2 } }
for c in LETTERS:gmatch(".") do vocab[#vocab + 1] = { c, -3 - #vocab / 100 } end

local function tokenizer()
  local added = {}
  for i = 1, 3 do added[i] = { id = i - 1, content = vocab[i][1], special = true, normalized = false } end
  local metaspace = { type = "Metaspace", replacement = "▁", prepend_scheme = "always" }
  local folder = lib.tmp() .. "/tok"
  os.execute("mkdir -p " .. lib.quote(folder))
  lib.write(folder .. "/tokenizer.json", json.encode {
    added_tokens = added, pre_tokenizer = metaspace, decoder = metaspace,
    post_processor = { type = "TemplateProcessing", single = { { Sequence = { id = "A" } }, { SpecialToken = { id = "</s>" } } },
      special_tokens = { ["</s>"] = { ids = { 1 } } } },
    model = { type = "Unigram", unk_id = 2, vocab = vocab },
  })
  return folder
end

TestSwitch = {}
function TestSwitch:testRun()
  local engine, weights = lib.engine("t-switch-f32"), lib.tmp() .. "/switch.ingot"
  local _, err, code = lib.run(("%s pack --synth 3 --tokenizer %s -o %s"):format(engine, tokenizer(), weights))
  lu.assertEquals(code, 0, err)
  local prompts = { ["ab c"] = "3,4,5,3,6,1", ["ab d"] = "3,4,5,3,7,1", [""] = "1" }
  for prompt, ids in pairs(prompts) do
    local greedy, why, rc = lib.run(("%s eval -m %s --tokens %s --decoder-tokens 3 --greedy 12"):format(engine, weights, ids))
    lu.assertEquals(rc, 0, why)
    local want = {}
    for id in greedy:gmatch("%d+") do
      local k = tonumber(id)
      if k == 1 then break end
      want[#want + 1] = k == 3 and " " or k > 3 and LETTERS:sub(k - 3, k - 3) or ""
    end
    local out
    out, why, rc = lib.run(("%s run -m %s -p %s --temp 0 -n 12"):format(engine, weights, lib.quote(prompt)))
    lu.assertEquals(rc, 0, why)
    lu.assertEquals(out, (table.concat(want):gsub("^ ", "")), prompt)
  end
end

local code = lu.LuaUnit.run()
lib.cleanup()
os.exit(code)

-- Checkpoints that keep experts in other tensors give the same weights file.
local lu = require "luaunit"
local L = dofile("tests/e2e/lib.lua")
local json = require "dkjson"

--- The safetensors of a folder as { name = { dtype, shape, data } }.
local function load_tensors(folder)
  local s = L.read(folder .. "/model.safetensors")
  local n = ("<I8"):unpack(s)
  local list = {}
  for name, h in pairs(json.decode(s:sub(9, 8 + n))) do
    if name ~= "__metadata__" then
      list[name] = { dtype = h.dtype, shape = h.shape,
                     data = s:sub(9 + n + h.data_offsets[1], 8 + n + h.data_offsets[2]) }
    end
  end
  return list
end

local function save(folder, list, config)
  local names, head, data, at = {}, {}, {}, 0
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local t = list[name]
    head[name] = { dtype = t.dtype, shape = t.shape, data_offsets = { at, at + #t.data } }
    data[i], at = t.data, at + #t.data
  end
  local text = json.encode(head)
  text = text .. (" "):rep(-#text % 8)
  assert(os.execute("mkdir -p " .. folder))
  L.write(folder .. "/model.safetensors", ("<s8"):pack(text) .. table.concat(data))
  L.write(folder .. "/config.json", config)
end

local function packed(id, folder)
  local out = folder .. ".ingot"
  local _, err, code = L.run(("%s pack %s -o %s"):format(L.engine(id), folder, out))
  lu.assertEquals(code, 0, err)
  return L.read(out)
end

TestFused = {}

--- transformers 5 writes gate_up_proj [experts, 2 * width, hidden] and down_proj.
function TestFused:testFusedExperts()
  local folder = "tests/golden/qwen3-moe"
  lu.skipIf(not L.engine("t-qwen3-moe"), "t-qwen3-moe is not built")
  local list, config = load_tensors(folder), L.read(folder .. "/config.json")
  save(L.tmp() .. "/plain", list, config)
  local experts = json.decode(config).num_experts
  for layer = 0, json.decode(config).num_hidden_layers - 1 do
    local both, down = {}, {}
    local function take(e, part)
      local name = ("model.layers.%d.mlp.experts.%d.%s_proj.weight"):format(layer, e, part)
      local t = list[name]
      list[name] = nil
      return t
    end
    local up, last
    for e = 0, experts - 1 do
      local gate = take(e, "gate")
      up, last = take(e, "up"), take(e, "down")
      both[e + 1], down[e + 1] = gate.data .. up.data, last.data
    end
    local prefix = ("model.layers.%d.mlp.experts."):format(layer)
    list[prefix .. "gate_up_proj"] = { dtype = "F32", data = table.concat(both),
                                       shape = { experts, 2 * up.shape[1], up.shape[2] } }
    list[prefix .. "down_proj"] = { dtype = "F32", data = table.concat(down),
                                    shape = { experts, last.shape[1], last.shape[2] } }
  end
  save(L.tmp() .. "/fused", list, config)
  lu.assertTrue(packed("t-qwen3-moe", L.tmp() .. "/plain") == packed("t-qwen3-moe", L.tmp() .. "/fused"))
end

-- Code 8 is -0, which reads as 0.
local E2M1 = { [0] = 0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6 }

--- Random blocks [experts, rows, cols / 32, 16], their scales, and the same values as floats
--- [experts, cols, rows], which is how the float checkpoints lie.
local function random_blocks(experts, rows, cols)
  local blocks, scales, floats = {}, {}, {}
  for e = 0, experts - 1 do
    for r = 0, rows - 1 do
      for b = 0, cols // 32 - 1 do
        local scale = math.random(120, 126)
        scales[#scales + 1] = string.char(scale)
        for i = 0, 15 do
          local lo, hi = math.random(0, 15), math.random(0, 15)
          blocks[#blocks + 1] = string.char(hi << 4 | lo)
          for k, code in ipairs { lo, hi } do
            local col = b * 32 + 2 * i + k - 1
            floats[(e * cols + col) * rows + r + 1] = ("<f"):pack(E2M1[code] * 2.0 ^ (scale - 127))
          end
        end
      end
    end
  end
  return { dtype = "U8", shape = { experts, rows, cols // 32, 16 }, data = table.concat(blocks) },
    { dtype = "U8", shape = { experts, rows, cols // 32 }, data = table.concat(scales) },
    { dtype = "F32", shape = { experts, cols, rows }, data = table.concat(floats) }
end

--- gpt-oss publishes its experts in MXFP4 blocks, which are not on their side.
function TestFused:testMxfp4Blocks()
  local folder = "tests/golden/gpt-oss"
  lu.skipIf(not L.engine("t-gpt-oss"), "t-gpt-oss is not built")
  math.randomseed(7)
  local config = L.read(folder .. "/config.json")
  local c, plain, blocks = json.decode(config), load_tensors(folder), load_tensors(folder)
  for layer = 0, c.num_hidden_layers - 1 do
    local prefix = ("model.layers.%d.mlp.experts."):format(layer)
    for _, of in ipairs { { "gate_up_proj", 2 * c.intermediate_size, c.hidden_size },
                          { "down_proj", c.hidden_size, c.intermediate_size } } do
      local name = prefix .. of[1]
      local b, s, f = random_blocks(c.num_local_experts, of[2], of[3])
      plain[name], blocks[name], blocks[name .. "_blocks"], blocks[name .. "_scales"] = f, nil, b, s
    end
  end
  save(L.tmp() .. "/floats", plain, config)
  save(L.tmp() .. "/blocks", blocks, config)
  lu.assertTrue(packed("t-gpt-oss", L.tmp() .. "/floats") == packed("t-gpt-oss", L.tmp() .. "/blocks"))
end

local code = lu.LuaUnit.run()
L.cleanup()
os.exit(code)

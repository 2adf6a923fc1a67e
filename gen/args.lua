-- gen/args.lua -- build.lua's command line: words in, a request or a complaint out.

local M = {}

M.USAGE = [[
usage: build.lua MODEL HW [--set key=value]... [--explain | --dump] [--probe] [--out DIR]

  MODEL      models/NAME.lua or its NAME, a Hugging Face folder (config.json), or a .gguf file
  HW         hw/NAME.lua or its NAME, or `this`: this machine, measured once into hw/this.lua
  --set      quant=FMT, quant.expert|attn|embed|output|router=FMT
             (FMT: f32 f16 bf16 q8_0 q6_k q5_k q4_k q3_k q2_k q5_1 q5_0 q4_1 q4_0
             iq4_nl iq4_xs mxfp4; quant= leaves the router alone),
             ctx=N, batch=N, logit_rows=N, kv=f32|f16|q8_0, threads=N,
             id=NAME (of the folder in out/), load=map|copy; where experts live: tier=ram|disk|mmap,
             slots=BYTES or experts_ram=PERCENT, sets=N, ways=equal|layers,
             policy=lru|lru2|decay|echo|echo-admit|static, io=auto|direct|cached|plain,
             trace=FILE (to predict hit rates and to choose the policy by; for policy=static,
             ways=layers, predict=history);
             predict=none|next-router|history|hybrid|forest|mlp, predictor=FILE (for forest
             and mlp, from tools/train_predictor.py), least=CHANCE of a prefetch, stride=N;
             with a GPU: vram=BYTES at most, of the cache of experts there vram_ways=N, policy=decay|static,
             gemm=exact|fast (BF16 matrices, and attention with an F16 cache, in a batch: not the CPU's
             bits, within stated bounds),
             gemm_rows=N, tile_rows=N: least rows for matrix units, for tiles of attention
  --explain  print the plan for a person; write nothing
  --dump     print every number of the plan; write nothing
  --probe    measure this machine again (with HW `this`)
  --out      write below DIR instead of out/
]]

local FLAGS = { ["--explain"] = "explain", ["--dump"] = "dump", ["--probe"] = "probe" }

--- @param argv table  the words after `build.lua`
--- @return table? request { model, hw, set = {}, out?, explain?, dump?, probe?, help? }, string? complaint
function M.parse(argv)
  local request, names, i = { set = {} }, {}, 1
  while i <= #argv do
    local word = argv[i]
    if FLAGS[word] then
      request[FLAGS[word]] = true
    elseif word == "--help" or word == "-h" then
      return { help = true }
    elseif word == "--set" or word == "--out" then
      i = i + 1
      if not argv[i] then return nil, word .. ": want a value, got nothing" end
      if word == "--out" and argv[i] == "" then return nil, "--out: want a folder, got an empty word" end
      if word == "--set" then request.set[#request.set + 1] = argv[i] else request.out = argv[i] end
    elseif word:sub(1, 1) == "-" then
      return nil, ("%s: want a known option, got an unknown one"):format(word)
    else
      names[#names + 1] = word
    end
    i = i + 1
  end
  if #names ~= 2 then return nil, ("MODEL HW: want two names, got %d"):format(#names) end
  if names[2] ~= "this" and not names[2]:find("%.lua$") then
    if not names[2]:find("^[^/]+$") then
      return nil, ("HW: want hw/NAME.lua, its NAME or `this`, got %s"):format(names[2])
    end
    names[2] = "hw/" .. names[2] .. ".lua"
  end
  if request.explain and request.dump then return nil, "--explain: want it without --dump, got both" end
  if request.probe and names[2] ~= "this" then
    return nil, ("--probe: want HW `this`, got %s"):format(names[2])
  end
  request.model, request.hw = names[1], names[2]
  return request
end

return M

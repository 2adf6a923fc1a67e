-- Every description on every profile: generated and compiled, or refused with numbers.

local lu = require "luaunit"
local lib = require "lib"
local quant = require "gen.quant"

local T = {}

-- Models that no RAM of the profile can hold, nor with experts on disk where that is planned.
local TOO_LARGE = {
  ["4090"] = "deepseek-v3 qwen3-235b-a22b",
  ["TEMPLATE"] = "dbrx deepseek-v3 glm-4.5-air gpt-oss-120b mixtral-8x22b mixtral phi-3.5-moe qwen2-57b-a14b "
    .. "qwen3-235b-a22b",
  ["box-8gb"] = "dbrx deepseek-v3 glm-4.5-air mixtral-8x22b mixtral qwen2-57b-a14b qwen3-235b-a22b",
  ["h200"] = "deepseek-v3 qwen3-235b-a22b",
  ["3060-12gb"] = "dbrx deepseek-v3 mixtral-8x22b qwen3-235b-a22b",
  ["a6000"] = "deepseek-v3 qwen3-235b-a22b",
  ["a100"] = "deepseek-v3",
  -- Two of them by what the weights share with KV and work: one memory.
  ["orin"] = "dbrx deepseek-v3 glm-4.5-air gpt-oss-120b mixtral-8x22b qwen3-235b-a22b",
}


local REFUSED = {}
for why, list in pairs { [".*: memory: want at most .* GiB.*, got .* GiB.*: .*weights .*"] = TOO_LARGE } do
  for hw, models in pairs(list) do
    for model in models:gmatch("%S+") do REFUSED[model .. " on " .. hw] = why end
  end
end

local function names(folder)
  local list = {}
  for _, file in ipairs(lib.lines(("cd '%s./%s' && ls *.lua"):format(lib.root, folder))) do
    if file ~= "this.lua" then list[#list + 1] = file:gsub("%.lua$", "") end
  end
  return list
end

local function compiles(p)
  local folder = lib.temp_folder()
  local files = lib.files(p)
  for _, name in ipairs { "config.h", "tables.h", "tables.c" } do lib.write(folder .. "/" .. name, files[name]) end
  local out, code = lib.run(("cc -std=c11 -Wall -Wextra -Wshadow -Wconversion -pedantic -Werror -fsyntax-only "
    .. "-I'%s' -I'%skernels' -I'%sruntime/base' -I'%sruntime/cache' '%s/tables.c'"):format(folder, lib.root, lib.root,
    lib.root, folder))
  lib.run("rm -rf '" .. folder .. "'")
  lu.assertEquals({ out, code }, { "", 0 })
end

for _, model in ipairs(names("models")) do
  for _, hw in ipairs(names("hw")) do
    local pair = model .. " on " .. hw
    T["test_" .. pair:gsub("[^%w]", "_")] = function()
      local p, problems = lib.plan(model, hw)
      if REFUSED[pair] then
        lu.assertNil(p)
        lu.assertStrMatches(problems[1], REFUSED[pair])
      else
        lu.assertEquals(problems, {})
        compiles(p)
      end
    end
  end
end

function T.test_formats_compile()
  for _, fmt in ipairs(quant.names) do
    compiles((lib.plan("tiny-mixtral", "box-8gb", { "quant=" .. fmt })))
  end
end

return T

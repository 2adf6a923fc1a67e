-- Every description on every profile: generated and compiled, or refused with numbers.

local lu = require "luaunit"
local lib = require "lib"
local quant = require "gen.quant"

local T = {}

-- Pairs that no RAM of the profile can hold.
local REFUSED = {
  ["mixtral on box-8gb"] = true,
  ["mixtral on TEMPLATE"] = true,
  ["mixtral-8x22b on avx2-desktop"] = true,
  ["mixtral-8x22b on box-8gb"] = true,
  ["mixtral-8x22b on TEMPLATE"] = true,
  ["qwen3-30b-a3b-8l on TEMPLATE"] = true,
  ["qwen3-30b-a3b-48l on box-8gb"] = true,
  ["qwen3-30b-a3b-48l on TEMPLATE"] = true,
}

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
    .. "-I'%s' -I'%skernels' -I'%sruntime' '%s/tables.c'"):format(folder, lib.root, lib.root, folder))
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
        lu.assertStrMatches(problems[1], ".*: memory: want at most .* GiB .*, got .* GiB: weights .*")
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

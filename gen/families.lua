-- gen/families.lua -- the model families; each is one file of data in gen/families/.

local M = {
  list = {
    (require "gen.families.mixtral"),
    (require "gen.families.llama"),
    (require "gen.families.qwen3moe"),
    (require "gen.families.olmoe"),
    (require "gen.families.qwen2moe"),
    (require "gen.families.granitemoe"),
    (require "gen.families.glm4moe"),
    (require "gen.families.phimoe"),
    (require "gen.families.dbrx"),
    (require "gen.families.gptoss"),
    (require "gen.families.deepseek2"),
    (require "gen.families.deepseek3"),
  },
  names = {}, by_name = {},
}

for i, family in ipairs(M.list) do
  M.names[i] = family.name
  M.by_name[family.name] = family
end

return M

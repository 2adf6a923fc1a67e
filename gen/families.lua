-- gen/families.lua -- the model families; each is one file of data in gen/families/.

local M = {
  files = {
    "mixtral", "llama", "qwen3moe", "olmoe", "qwen2moe", "granitemoe", "glm4moe", "phimoe", "dbrx", "gptoss",
    "deepseek2", "deepseek3", "switch",
  },
  list = {}, names = {}, by_name = {},
}

for i, file in ipairs(M.files) do
  local family = require("gen.families." .. file)
  M.list[i], M.names[i], M.by_name[family.name] = family, family.name, family
end

return M

-- gen/families.lua -- the model families; each is one file of data in gen/families/.

local M = { list = { (require "gen.families.mixtral") }, names = {}, by_name = {} }

for i, family in ipairs(M.list) do
  M.names[i] = family.name
  M.by_name[family.name] = family
end

return M

-- The generated text of a few plans against tests/gen/golden/.

local lu = require "luaunit"
local lib = require "lib"

local T = {}

for _, golden in ipairs(lib.goldens()) do
  T["test_" .. golden.path:gsub("[^%w]", "_")] = function()
    local want = lib.read(lib.root .. "tests/gen/golden/" .. golden.path)
    lu.assertEquals(golden.text, want, "run `lua5.4 tests/gen/refresh.lua` if the change is meant")
  end
end

return T

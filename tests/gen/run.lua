-- tests/gen/run.lua -- the generator's tests: lua5.4 tests/gen/run.lua [-o tap] [PATTERN...]

local root = arg[0]:match("^(.*/)tests/gen/") or "./"
package.path = root .. "tests/gen/?.lua;" .. root .. "?.lua;" .. package.path
local lu = require "luaunit"

local suites = {}
for _, name in ipairs { "units", "layout", "plans", "device", "device_policy", "tier",
                      "errors", "hf", "families", "gguf", "gguf_lies",
                      "gguf_vocab", "golden", "predict", "deps", "cli", "matrix" } do
  suites[#suites + 1] = { name, (require(name)) }
end
os.exit(lu.LuaUnit.new():runSuiteByInstances(suites))

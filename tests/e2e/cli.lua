-- cli.lua -- what the tests of the command line share: the demo engine, its weights, refusals.
local lu = require "luaunit"
local L = dofile("tests/e2e/lib.lua")

local M = { L = L, id = "t-demo", src = "tests/data/tiny-mixtral.gguf" }
M.bin = assert(L.engine(M.id), M.id .. " is not built")
M.weights = L.pack(M.id, M.src)

--- Run the binary; %m in the arguments stands for -m WEIGHTS.
function M.ingot(arguments, before, after)
  return L.run(("%s %s %s %s"):format(before or "", M.bin,
    (arguments:gsub("%%m", "-m " .. M.weights)), after or ""))
end

function M.assert_code(want, code, err) lu.assertEquals(code, want, err) end

M.refuses = L.refuser(M.ingot)

function M.tmp(name) return L.tmp() .. "/" .. name end

--- Run the tests of this process and end it.
function M.finish()
  local code = lu.LuaUnit.run()
  L.cleanup()
  os.exit(code)
end

return M

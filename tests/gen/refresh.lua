-- tests/gen/refresh.lua -- rewrite tests/gen/golden/ from the generator and the readers' corpus (`make golden`).

local root = arg[0]:match("^(.*/)tests/gen/") or "./"
package.path = root .. "tests/gen/?.lua;" .. package.path
local lib = require "lib"

for _, golden in ipairs(lib.goldens()) do
  local path = root .. "tests/gen/golden/" .. golden.path
  lib.run("mkdir -p '" .. path:match("^(.*)/") .. "'")
  lib.write(path, golden.text)
  print(path)
end

lib.write(root .. "tests/data/gguf_hostile.bin", require("hostile").corpus())

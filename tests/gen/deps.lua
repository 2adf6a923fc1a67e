-- Who may depend on whom, and no order that depends on a process.

local lu = require "luaunit"
local lib = require "lib"
local sources = require "gen.sources"

local T = {}

local function gen_files() return lib.lines("cd '" .. lib.root .. "./' && ls gen/*.lua gen/families/*.lua") end

function T.test_the_plan_hash_covers_every_file()
  lu.assertItemsEquals(sources.modules, gen_files())
  lu.assertItemsEquals(sources.templates, lib.lines("cd '" .. lib.root .. "./' && ls templates/*"))
end

function T.test_gen_is_pure()
  for _, path in ipairs(gen_files()) do
    local text = lib.read(lib.root .. path)
    for name in text:gmatch('require%s*%(?%s*"([^"]+)"') do
      lu.assertStrMatches(name, "gen%..*", nil, nil, path .. " requires " .. name)
    end
    for line in text:gmatch("[^\n]+") do
      local code = line:gsub("%-%-.*", "")
      for _, word in ipairs { "io", "os", "print", "dofile", "debug" } do
        if word == "debug" and path == "gen/load.lua" then code = code:gsub("debug%.sethook", "") end
        lu.assertNil(code:match("%f[%w_.]" .. word .. "%f[^%w_][.(]"), path .. ": " .. line)
      end
    end
  end
end

-- pairs only to collect keys that the next line sorts.
function T.test_no_order_from_pairs()
  for _, path in ipairs(gen_files()) do
    local lines = {}
    for line in (lib.read(lib.root .. path)):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
    for i, line in ipairs(lines) do
      if line:gsub("%-%-.*", ""):find("%f[%w_]pairs%s*%(") or line:find("%f[%w_]next%s*%(") then
        lu.assertStrContains(lines[i + 1], "table.sort(", false, path .. ": " .. line)
      end
    end
  end
end

function T.test_budgets()
  for _, path in ipairs(gen_files()) do
    local _, n = lib.read(lib.root .. path):gsub("\n", "")
    lu.assertTrue(n <= 250, path .. " has " .. n .. " lines")
  end
  local _, n = lib.read(lib.root .. "build.lua"):gsub("\n", "")
  lu.assertTrue(n <= 120, "build.lua has " .. n .. " lines")
end

-- Every #include "..." of a folder must be one of the allowed files' names.
local function check_includes(folder, allowed, generated)
  local root, known = lib.root .. "./", {}
  for _, of in ipairs(allowed) do
    for _, path in ipairs(lib.lines(("find '%s%s' -name '*.h' -o -name '*.inc'"):format(root, of))) do
      known[path:match("[^/]+$")] = true
    end
  end
  for _, name in ipairs(generated) do known[name] = true end
  for _, path in ipairs(lib.lines(("find '%s'%s -name '*.[ch]' -o -name '*.inc'"):format(root, folder))) do
    for name in lib.read(path):gmatch('#include%s*"([^"]+)"') do
      lu.assertTrue(known[name:match("[^/]+$")] or false, path .. " includes " .. name)
    end
  end
end

function T.test_kernels_know_no_model() check_includes("kernels", { "kernels" }, {}) end

function T.test_runtime_folders_depend_on_those_before_them()
  local below = { "kernels" }
  for _, folder in ipairs { "base", "text", "file", "cache", "device", "model", "cmd" } do
    below[#below + 1] = "runtime/" .. folder
    check_includes("runtime/" .. folder, below, { "config.h", "tables.h" })
  end
end

-- The programs of the build; tools/replay simulates the runtime's own policies.
function T.test_build_tools_depend_on_nothing_of_ours()
  check_includes("tools -maxdepth 1", {}, { "probe.h" })
end

-- The second of a name would replace the first, which then never runs.
function T.test_every_test_has_a_name_of_its_own()
  for _, path in ipairs(lib.lines(("find '%s./tests' -name '*.lua'"):format(lib.root))) do
    local seen = {}
    for name in lib.read(path):gmatch("\nfunction ([%w_.:]+)") do
      lu.assertNil(seen[name], path .. ": " .. name .. " twice")
      seen[name] = true
    end
  end
end

-- A table of results has one header: rows of another shape are another file.
function T.test_results_are_one_table_a_file()
  for _, path in ipairs(lib.lines(("find '%s./bench/results' -name '*.csv' -o -name '*.tsv'"):format(lib.root))) do
    local mark, fields = path:find("%.tsv$") and "\t" or ",", nil
    for line in lib.read(path):gmatch("[^\n]+") do
      if line:sub(1, 1) ~= "#" then
        local n = select(2, line:gsub(mark, ""))
        fields = fields or n
        lu.assertEquals(n, fields, path .. ": " .. line)
      end
    end
  end
end

function T.test_luacheck()
  local _, code = lib.run("command -v luacheck")
  lu.skipIf(code ~= 0, "no luacheck")
  local out, bad = lib.run("cd '" .. lib.root .. "./' && luacheck -q --no-color build.lua gen tests/gen")
  lu.assertEquals(bad, 0, out)
end

return T

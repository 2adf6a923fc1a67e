-- build.lua as a command: exit codes, files, determinism, old Lua.

local lu = require "luaunit"
local lib = require "lib"

local eq = lu.assertEquals
local T = {}

local ROOT = lib.run("cd '" .. lib.root .. "./' && pwd"):gsub("\n", "")
local LUA = arg[-1] or "lua5.4"
local BUILD = ("'%s' '%s/build.lua' "):format(LUA, ROOT)

local folder

function T.setUp() folder = lib.temp_folder() end
function T.tearDown() lib.run("rm -rf '" .. folder .. "'") end

local function build(words) return lib.run(BUILD .. words .. " --out '" .. folder .. "'") end

function T.test_old_lua_is_refused()
  local _, missing = lib.run("command -v lua5.1")
  lu.skipIf(missing ~= 0, "no lua5.1")
  local out, code = lib.run("lua5.1 '" .. ROOT .. "/build.lua' models/tiny-mixtral.lua hw/box-8gb.lua")
  eq(out, "build.lua: want Lua 5.4 or newer (lua5.4 on Debian and Ubuntu), got Lua 5.1\n")
  eq(code, 2)
end

function T.test_names_do_not_steer_the_terminal()
  local out, code = build("'" .. folder .. "/a\27[31m\194\155.gguf' models/\7.lua")
  lu.assertTrue(code ~= 0)
  lu.assertStrContains(out, "/a\\x1b[31m\\xc2\\x9b.gguf")
  lu.assertStrContains(out, "models/\\x07.lua")
  lu.assertNil(out:find("[\7\27]"))
end

function T.test_usage()
  local out, code = build("")
  eq(code, 2)
  lu.assertStrContains(out, "build.lua: MODEL HW: want two names, got 0\n\nusage: build.lua MODEL HW")
  out, code = build("--help")
  eq(code, 0)
  lu.assertStrMatches(out, "usage: .*")
end

function T.test_problems_of_all_inputs_at_once()
  lib.write(folder .. "/bad.lua", "model { n_layer = 0 }")
  lib.write(folder .. "/badhw.lua", "hardware { isa = 'x' }")
  local out, code = build(("'%s/bad.lua' '%s/badhw.lua' --set ctx=x"):format(folder, folder))
  eq(code, 1)
  lu.assertStrContains(out, '--set: ctx: want an integer')
  lu.assertStrContains(out, 'bad.lua: n_layer: want an integer')
  lu.assertStrContains(out, 'badhw.lua: isa: want ref or avx2')
  lu.assertStrContains(out, 'badhw.lua: cores: want an integer')
  eq(lib.lines("ls '" .. folder .. "'"), { "bad.lua", "badhw.lua" })
end

function T.test_missing_inputs()
  local out, code = build("'" .. folder .. "/none.lua' hw/none.lua")
  eq(code, 1)
  lu.assertStrContains(out, "none.lua: file: want a models/*.lua or hw/*.lua (or its name), a folder")
  lu.assertStrContains(out, "hw/none.lua: file: want a models/*.lua or hw/*.lua (or its name), a folder")
  out, code = build("'" .. folder .. "' hw/box-8gb.lua")
  eq(code, 1)
  lu.assertStrContains(out, folder .. ": file: want a models/*.lua or hw/*.lua (or its name), a folder")
  out, code = build("'" .. folder .. "/none.gguf' hw/box-8gb.lua")
  eq(code, 1)
  lu.assertStrContains(out, "none.gguf: file: want a models/*.lua or hw/*.lua (or its name), a folder")
  out, code = build("/ hw/box-8gb.lua")
  eq(code, 1)
  lu.assertStrContains(out, "/: file: want a models")
  out, code = build("'" .. folder .. "/config.json' hw/box-8gb.lua")
  eq(code, 1)
  lu.assertStrContains(out, "config.json: file: want the folder that holds it")
end

function T.test_bare_names()
  local out, code = build("tiny-mixtral box-8gb")
  eq({ out, code }, { "", 0 })
  eq(lib.read(folder .. "/active.mk"), "ID := tiny-mixtral-box-8gb\n")
  out, code = build("nothing nowhere")
  eq(code, 1)
  lu.assertStrContains(out, "nothing: file: want a models/*.lua or hw/*.lua (or its name), a folder")
  lu.assertStrContains(out, "hw/nowhere.lua: file: want a models/*.lua or hw/*.lua (or its name)")
  -- A folder of that name that holds a model is meant.
  lib.run(("mkdir '%s/tiny-mixtral' && echo '{}' >'%s/tiny-mixtral/config.json'"):format(folder, folder))
  out, code = lib.run(("cd '%s' && %s tiny-mixtral box-8gb"):format(folder, BUILD))
  eq(code, 1)
  lu.assertStrContains(out, "tiny-mixtral/config.json: ")
end

function T.test_says_that_the_json_module_is_missing()
  lib.run("mkdir '" .. folder .. "/hf' && echo '{}' >'" .. folder .. "/hf/config.json'")
  local out, code = lib.run("cd '" .. folder .. "' && LUA_PATH=';' LUA_PATH_5_4=';' "
    .. BUILD:gsub("build.lua' $", "build.lua'") .. " hf hw/box-8gb.lua --out '" .. folder .. "'")
  eq(out, "build.lua: config.json: want the Lua module dkjson (lua-dkjson), got none\n")
  eq(code, 1)
end

function T.test_says_what_it_could_not_write()
  lib.run("mkdir -p '" .. folder .. "/x/config.h/taken'")
  local out, code = build("models/tiny-mixtral.lua hw/box-8gb.lua --set id=x")
  lu.assertStrContains(out, "build.lua: " .. folder .. "/x/config.h: want to write it, got: a failed write")
  eq(code, 1)
  eq(lib.lines("ls '" .. folder .. "/x' | grep tmp"), {})
end

function T.test_writes_only_what_changed()
  local words = "models/tiny-mixtral.lua hw/box-8gb.lua"
  eq(select(2, build(words)), 0)
  local made = folder .. "/tiny-mixtral-box-8gb"
  eq(lib.lines("ls '" .. made .. "'"), { "build.mk", "config.h", "tables.c", "tables.h" })
  eq(lib.read(folder .. "/active.mk"), "ID := tiny-mixtral-box-8gb\n")
  lib.run(("touch -d 2001-01-01 '%s'/*"):format(made))
  lib.write(made .. "/build.mk", "damaged")
  eq(select(2, build(words)), 0)
  local old = lib.lines(("find '%s' -type f ! -newermt 2002-01-01 | sort"):format(made))
  eq(#old, 3)
  lu.assertStrContains(lib.read(made .. "/build.mk"), "BINARY      := tiny-mixtral\n")
end

function T.test_id_names_the_folder_and_nothing_else()
  eq(select(2, build("models/tiny-mixtral.lua hw/box-8gb.lua")), 0)
  eq(select(2, build("models/tiny-mixtral.lua hw/box-8gb.lua --set id=other")), 0)
  eq(lib.read(folder .. "/active.mk"), "ID := other\n")
  eq(lib.read(folder .. "/other/config.h"), lib.read(folder .. "/tiny-mixtral-box-8gb/config.h"))
end

function T.test_reports_write_nothing()
  local out = build("models/tiny-mixtral.lua hw/box-8gb.lua --explain")
  lu.assertStrContains(out, "predicted  ")
  out = build("models/tiny-mixtral.lua hw/box-8gb.lua --dump")
  lu.assertStrContains(out, "\nlayout.layers[7].down.fmt = \"bf16\"\n")
  eq(lib.lines("ls '" .. folder .. "'"), {})
end

function T.test_hugging_face_folder()
  lib.run(("mkdir '%s/My Model'"):format(folder))
  lib.write(folder .. "/My Model/config.json", [[{"model_type": "mixtral", "vocab_size": 512, "torch_dtype": "float32",
    "hidden_size": 64, "intermediate_size": 24, "max_position_embeddings": 256, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 3, "num_local_experts": 8, "num_experts_per_tok": 2,
    "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null}]])
  local out, code = build("'" .. folder .. "/My Model/' hw/box-8gb.lua")
  eq(out, "")
  eq(code, 0)
  local config = lib.read(folder .. "/My-Model-box-8gb/config.h")
  lu.assertStrContains(config, " *   model     My-Model/config.json\n")
  lu.assertStrContains(config, '#define IG_MODEL_ID    "My-Model"\n')
  lu.assertNotStrContains(config, folder)
  out, code = build("'" .. folder .. "/My Model' hw/box-8gb.lua --set quant=q8_0")
  eq(code, 1)
  eq(out, "My Model/config.json: weights.expert: want f32, f16 or bf16 "
    .. "(down has 24 columns, and blocks are of 32), got q8_0\n")
end

-- A file's name is text that its finder chose: no banner may run it.
function T.test_names_of_files_are_only_names()
  local name = "x* int y; $(shell touch pwned)\n$(error z)\t\27\xc3\xa9\\.lua"
  lib.write(folder .. "/" .. name, lib.read(ROOT .. "/models/tiny-mixtral.lua"))
  local out, code = build("'" .. folder .. "/" .. name .. "' hw/box-8gb.lua --set id=named")
  eq({ out, code }, { "", 0 })
  for _, file in ipairs { "build.mk", "config.h", "tables.c", "tables.h" } do
    local text = lib.read(folder .. "/named/" .. file)
    local banner = text:match("model +([^\n]*)\n")
    eq(banner, "x--int-y----shell-touch-pwned----error-z------.lua", file)
    lu.assertNil(text:find("[^\n\32-\126]"), file)
  end
end

function T.test_out_must_be_a_folder()
  local out, code = lib.run(BUILD .. "models/tiny-mixtral.lua hw/box-8gb.lua --out ''")
  eq(code, 2)
  lu.assertStrContains(out, "build.lua: --out: want a folder, got an empty word\n")
end

function T.test_a_description_that_does_not_end()
  lib.write(folder .. "/loop.lua", "model { n_layer = (function() while true do end end)() }")
  local out, code = lib.run(("timeout 20 %s '%s/loop.lua' hw/box-8gb.lua"):format(BUILD, folder))
  eq(code, 1)
  lu.assertStrContains(out, "loop.lua: text: want model { ... } and nothing else, got: more than 10000000 steps\n")
end

function T.test_unwritable_output()
  lib.write(folder .. "/file", "")
  local out, code = lib.run(BUILD .. "models/tiny-mixtral.lua hw/box-8gb.lua --out '" .. folder .. "/file'")
  eq(code, 1)
  lu.assertStrContains(out, "want a folder to write to, got none")
end

-- Eight processes, places and locales: one text.
function T.test_determinism()
  local zones = { "UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin", "Pacific/Apia", "Asia/Kolkata",
    "Africa/Cairo", "Australia/Eucla" }
  local locales = { "C", "C.UTF-8", "POSIX", "de_DE.UTF-8", "tr_TR.UTF-8", "en_US.UTF-8", "fr_FR", "ja_JP.UTF-8" }
  local seen
  for i = 1, 8 do
    local out = ("%s/%d"):format(folder, i)
    local command = ("mkdir '%s' && cd '%s' && TZ=%s LC_ALL=%s %s"):format(out, i % 2 == 0 and out or ROOT, zones[i],
      locales[i], BUILD)
    local pair = (i % 3 == 0 and "" or ROOT .. "/") .. "models/mixtral.lua hw/4090.lua"
    local _, code = lib.run(("%s %s --out '%s'"):format(command, pair, out))
    eq(code, 0)
    local text = lib.run(("cd '%s' && cat active.mk */*"):format(out))
      .. lib.run(("cd / && TZ=%s LC_ALL=%s %s %s --dump"):format(zones[i], locales[i], BUILD, pair))
    seen = seen or text
    lu.assertTrue(text == seen, "run " .. i .. " differs")
  end
  lu.assertNotStrContains(seen, ROOT)
end

function T.test_a_probe_that_fails()
  local out, code = lib.run(("CC=false %s models/tiny-mixtral.lua this --probe --out '%s'"):format(BUILD, folder))
  eq(code, 1)
  eq(out, "build.lua: this: want tools/probe*.c to compile and measure, got a failure\n")
end

function T.test_probe_compiles_clean()
  for _, cc in ipairs { "gcc", "clang" } do
    local _, missing = lib.run("command -v " .. cc)
    if missing == 0 then
      local out, code = lib.run(("%s -std=c11 -O2 -fopenmp -Wall -Wextra -Wshadow -Wconversion -Werror "
        .. "-fsyntax-only '%s'/tools/probe*.c"):format(cc, ROOT))
      eq({ out, code }, { "", 0 })
    end
  end
end

return T

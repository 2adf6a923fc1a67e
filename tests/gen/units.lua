-- Units of the pure helpers: literals, hash, template, schema, formats, command line.

local lu = require "luaunit"
local args = require "gen.args"
local c = require "gen.c"
local describe = require "gen.describe"
local dump = require "gen.dump"
local hash = require "gen.hash"
local load_text = require "gen.load"
local num = require "gen.num"
local quant = require "gen.quant"
local schema = require "gen.schema"
local template = require "gen.template"

local eq = lu.assertEquals
local T = {}

function T.test_num()
  eq(num.ceil_div(0, 16), 0)
  eq(num.ceil_div(17, 16), 2)
  eq(num.align_up(1, 64), 64)
  eq(num.align_up(64, 64), 64)
  eq(num.human(1023), "1023 B")
  eq(num.human(1024), "1.0 KiB")
  eq(num.human(352321536), "336.0 MiB")
end

function T.test_hash_is_fnv1a()
  -- The published test vectors of FNV-1a, 64 bits.
  eq(hash.hex(hash.fnv1a64("")), "cbf29ce484222325")
  eq(hash.hex(hash.fnv1a64("a")), "af63dc4c8601ec8c")
  eq(hash.hex(hash.fnv1a64("foobar")), "85944171f73967e8")
end

function T.test_float_literals_read_back()
  eq(c.f32(1e-5), "1e-05f")
  eq(c.f32(1e6), "1e+06f")
  eq(c.f32(1.0), "1.0f")
  eq(c.f32(0.1), "0.1f")
  eq(c.f32(1 / math.sqrt(128)), "0.088388348f")
  for i = 1, 500 do
    local x = string.unpack("<f", string.pack("<f", i * i / 7))
    eq(string.pack("<f", tonumber((c.f32(x):gsub("f$", "")))), string.pack("<f", x))
  end
  lu.assertErrorMsgContains("no float literal", c.f32, 0 / 0)
end

function T.test_other_literals()
  eq(c.u64(5), "UINT64_C(5)")
  eq(c.hex64(-1), "UINT64_C(0xffffffffffffffff)")
  eq(c.str('a"\\\n\t?\1\xff'), [["a\"\\\n\t\?\001\377"]])
  eq(c.remark("a b*/config.json"), "a-b-/config.json")
  eq(c.rows { 1, 2, 3 }, { "1, 2, 3," })
  eq(c.rows { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, { "1, 2, 3, 4, 5, 6, 7, 8,", "9," })
end

function T.test_template_rules()
  local text = "//@ for i, x in ipairs(list) do\n  int a$i = ${x.v}; /* $(keep) $5 */\n//@ end\nend$z\n"
  local out = template.render("t.h", text, { list = { { v = 7 }, { v = "q" } }, z = 1 })
  eq(out, "  int a1 = 7; /* $(keep) $5 */\n  int a2 = q; /* $(keep) $5 */\nend1\n")
end

function T.test_template_errors_name_the_line()
  local function fails(text, view, want)
    local ok, err = pcall(template.render, "t.h", text, view)
    lu.assertFalse(ok)
    lu.assertStrContains(err, want)
  end
  fails("a\n$nope\n", {}, "t.h:2: $nope is undefined, want a string or an integer")
  fails("$x\n", { x = 1.5 }, "t.h:1: $x is a float, want a string or an integer")
  fails("$x\n", { x = {} }, "t.h:1: $x is a table")
  fails("a\nb\n//@ if\n", {}, "t.h:")
  fails("${a b}\n", {}, "malformed {a b} in column 1")
  fails("//@ for k in pairs(t) do\n//@ end\n", { t = {} }, "t.h:1:")
end

function T.test_schema_kinds()
  local fields = {
    { name = "i", kind = "integer", min = 1, max = 9 },
    { name = "n", kind = "number" },
    { name = "b", kind = "boolean", default = false },
    { name = "s", kind = "string", optional = true },
    { name = "c", kind = "choice", choices = { "x", "y" } },
    { name = "t", kind = "table", fields = { { name = "u", kind = "integer" } } },
  }
  local problems = {}
  local got = schema.check(fields, { i = 4.0, n = 2, c = "y", t = { u = 3 } }, "f", problems)
  eq(problems, {})
  eq(got, { i = 4, n = 2.0, b = false, c = "y", t = { u = 3 } })
  eq(math.type(got.i), "integer")

  schema.check(fields, { i = 10, n = "2", b = 1, s = {}, c = "z", t = { u = 1.5, w = 1 }, q = 1 }, "f", problems)
  eq(problems, {
    "f: q: want a known field (i n b s c t), got an unknown one",
    "f: i: want an integer from 1 to 9, got 10",
    'f: n: want a number, got "2"',
    "f: b: want a boolean, got 1",
    "f: s: want a string, got a table",
    'f: c: want x or y, got "z"',
    "f: t.w: want a known field (u), got an unknown one",
    "f: t.u: want an integer, got 1.5",
  })
end

function T.test_show()
  eq(schema.show(nil), "nothing")
  eq(schema.show("a\nb"), '"a\\nb"')
  eq(schema.show(2.0), "2")
  eq(schema.show(0 / 0), "nan")
  eq(schema.show(true), "true")
  eq(#schema.show(("x"):rep(100)), 65)
end

function T.test_dump_sorts()
  eq(dump.text { b = { 2, 1 }, a = "x", c = { z = 1.5, y = true } },
    'a = "x"\nb[1] = 2\nb[2] = 1\nc.y = true\nc.z = 1.5\n')
end

function T.test_load_has_one_word_in_scope()
  local function problem(text)
    local got, why = load_text.description(text, "x.lua", "model")
    eq(got, nil)
    return why
  end
  eq(load_text.description("model { a = 1 << 4 }", "x.lua", "model"), { a = 16 })
  lu.assertStrContains(problem("model {"), "x.lua: syntax: want Lua, got: ")
  lu.assertStrContains(problem("model { a = os.time() }"), "x.lua: text: want model { ... } and nothing else, got: ")
  lu.assertStrContains(problem("hardware {}"), "x.lua: text: want model { ... } and nothing else, got: ")
  eq(problem(""), "x.lua: model: want it stated once, got 0 times")
  eq(problem("model {} model {}"), "x.lua: model: want it stated once, got 2 times")
  eq(problem("model(3)"), "x.lua: model: want a table, got a number")
  lu.assertStrContains(problem("\27Lua"), "x.lua: syntax: want Lua, got: ")
end

function T.test_panel_bytes()
  -- kernels/panel.h: 64 B a column or column pair; 544 B and 288 B a block of 32.
  eq(quant.panel_bytes("f32", 24), 24 * 64)
  eq(quant.panel_bytes("f16", 24), 12 * 64)
  eq(quant.panel_bytes("bf16", 25), 13 * 64)
  eq(quant.panel_bytes("q8_0", 64), 2 * 544)
  eq(quant.panel_bytes("q4_0", 64), 2 * 288)
  eq(quant.xq_bytes(64), 80)
  eq(quant.panel_bytes("q4_k", 512), 2 * 16 * 144)
  eq(quant.panel_bytes("mxfp4", 96), 3 * 16 * 17)
  eq({ quant.by_name.q4_k.enum, quant.by_name.q4_k.id, quant.by_name.iq4_xs.id }, { "IG_Q4_K", 5, 15 })
  lu.assertFalse(quant.fits("q8_0", 24))
  lu.assertFalse(quant.fits("q6_k", 320))
  lu.assertTrue(quant.fits("bf16", 24))
end

function T.test_ids_and_banners()
  eq(describe.id_of("/a/b/My Model (v2).gguf"), "My-Model--v2-")
  eq(describe.id_of("/a/tiny-mixtral//"), "tiny-mixtral")
  eq(describe.id_of("models/mixtral.lua"), "mixtral")
  eq(describe.id_of(".."), nil)
  eq(#describe.id_of(("x"):rep(99)), 63)
  eq(describe.banner_of("/a/b/models/mixtral.lua"), "models/mixtral.lua")
  eq(describe.banner_of("./hw/4090.lua"), "hw/4090.lua")
  eq(describe.banner_of("/secret/place/x.gguf"), "x.gguf")
  eq(describe.complaint({ path = "m", file = "m", id = "m" }, "no such file"),
    "m: file: want a models/*.lua or hw/*.lua (or its name), a folder with config.json, or a .gguf, got no such file")
  eq(describe.complaint { file = "..", text = "" }, "..: name: want letters or digits to make an id of, got none")
  eq(describe.complaint { file = "m", id = "m", text = "" }, nil)
end

function T.test_command_line()
  local r = args.parse { "m.lua", "--set", "ctx=1", "h.lua", "--set", "id=x", "--explain", "--out", "d" }
  eq(r, { model = "m.lua", hw = "h.lua", set = { "ctx=1", "id=x" }, explain = true, out = "d" })
  eq(args.parse { "--help" }, { help = true })
  local function complaint(...) return select(2, args.parse { ... }) end
  eq(complaint(), "MODEL HW: want two names, got 0")
  eq(complaint("a", "b.lua", "c"), "MODEL HW: want two names, got 3")
  eq(complaint("a", "b/c"), "HW: want hw/NAME.lua, its NAME or `this`, got b/c")
  eq(complaint("a", "b.lua", "--wat"), "--wat: want a known option, got an unknown one")
  eq(complaint("a", "b.lua", "--set"), "--set: want a value, got nothing")
  eq(complaint("a", "b.lua", "--dump", "--explain"), "--explain: want it without --dump, got both")
  eq(complaint("a", "b.lua", "--probe"), "--probe: want HW `this`, got b.lua")
end

return T

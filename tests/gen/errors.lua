-- Each message of the generator that the other files do not cover.

local lu = require "luaunit"
local lib = require "lib"
local formats_of = require "gen.formats"
local options = require "gen.options"
local plan_cache = require "gen.plan_cache"

local eq = lu.assertEquals
local T = {}

local MODEL = {
  'family = "mixtral"', "n_layer = 2", "n_embd = 64", "n_head = 4", "n_head_kv = 2", "head_dim = 16", "n_ff = 24",
  "n_expert = 8", "n_expert_used = 2", "n_vocab = 512", "n_ctx_train = 256", "norm_eps = 1e-5", "rope_theta = 1e6",
  'weights = { expert = "f32", attn = "f32", embed = "f32", output = "f32" }',
}

local HW = {
  'source = "a test"', 'isa = "avx2"', "cores = 4", "ram = 8 << 30", "mem_bw = 20e9", "disk_bw = 1e9",
  "cache = { l1d = 0, l2 = 0, l3 = 0 }",
}

-- The description with some lines replaced (by field name) or dropped ("").
local function changed(word, lines, changes)
  local out = {}
  for _, line in ipairs(lines) do
    local field = line:match("^[%w_]+")
    out[#out + 1] = changes[field] or line
  end
  out[#out + 1] = changes.extra
  for i = #out, 1, -1 do
    if out[i] == "" then table.remove(out, i) end
  end
  return word .. " { " .. table.concat(out, ", ") .. " }"
end

local function model_problem(changes) return lib.model_problems(changed("model", MODEL, changes)) end
local function hw_problem(changes) return lib.hw_problems(changed("hardware", HW, changes)) end

function T.test_model_is_good()
  eq(model_problem {}, "")
  eq(hw_problem {}, "")
end

function T.test_model_fields()
  eq(model_problem { n_layer = "" }, "x.lua: n_layer: want an integer from 1 to 1024, got nothing")
  eq(model_problem { n_layer = "n_layer = 0" }, "x.lua: n_layer: want an integer from 1 to 1024, got 0")
  lu.assertStrMatches(model_problem { family = 'family = "rwkv"' }, 'x.lua: family: want mixtral or .*, got "rwkv"')
  eq(model_problem { extra = "n_ff_shared = 8" }, "x.lua: n_ff_shared: want 0 (family mixtral), got 8")
  eq(model_problem { norm_eps = "norm_eps = 0" }, "x.lua: norm_eps: want a number from 1e-12 to 0.1, got 0")
  eq(model_problem { extra = "tied = 1" }, "x.lua: tied: want a boolean, got 1")
  eq(model_problem { weights = 'weights = "f32"' }, 'x.lua: weights: want a table, got "f32"')
  lu.assertStrMatches(model_problem { extra = "n_exprt = 8" },
    "x.lua: n_exprt: want a known field %(family .*%), got an unknown one")
end

-- The text is the same in every process, and nothing in it moves a terminal's cursor.
function T.test_unknown_keys_are_shown_clean()
  local known = ": want a known field %(family .*%), got an unknown one"
  for key, shown in ipairs { "a%?%[31m%?b%?", "a table", "a function", "true", "1.5" } do
    local text = ({ '["a\\27[31m\\nb\\xff"]', "[{}]", "[function() end]", "[true]", "[1.5]" })[key]
    lu.assertStrMatches(model_problem { extra = text .. " = 8" }, "x.lua: " .. shown .. known)
  end
  lu.assertStrMatches(model_problem { extra = ("k"):rep(99) .. " = 8" },
    "x.lua: " .. ("k"):rep(60) .. "%.%.%." .. known)
  eq(model_problem { n_layer = 'n_layer = "a\\nb"' },
    'x.lua: n_layer: want an integer from 1 to 1024, got "a\\nb"')
end

function T.test_model_contradictions()
  eq(model_problem { n_head_kv = "n_head_kv = 3" }, "x.lua: n_head_kv: want a divisor of n_head (4), got 3")
  eq(model_problem { head_dim = "head_dim = 15" }, "x.lua: head_dim: want an even number (RoPE turns pairs), got 15")
  eq(model_problem { n_embd = "n_embd = 65" },
    "x.lua: n_embd: want an even number (16-bit weights lie in pairs of columns), got 65")
  eq(model_problem { n_expert_used = "n_expert_used = 9" },
    "x.lua: n_expert_used: want at most n_expert (8), got 9")
  eq(model_problem { n_head_kv = "n_head_kv = 3", head_dim = "head_dim = 15" },
    "x.lua: n_head_kv: want a divisor of n_head (4), got 3\n"
    .. "x.lua: head_dim: want an even number (RoPE turns pairs), got 15")
end

function T.test_hardware_fields()
  eq(hw_problem { isa = 'isa = "sse"', cores = "" },
    'x.lua: isa: want ref or avx2 or avx512 or amx or neon or i8mm, got "sse"\n'
    .. 'x.lua: cores: want an integer from 1 to 1024, got nothing')
  eq(hw_problem { source = 'source = " "' }, 'x.lua: source: want where these numbers come from, got " "')
  eq(hw_problem { cache = "cache = { l1d = 1, l2 = 2 }" },
    "x.lua: cache.l3: want an integer from 0 to 1125899906842624, got nothing")
  local gpu = 'gpu = { name = "g", arch = "%s", vram = 1 << 30, vram_reserve = %s, vram_bw = 1e12, link_bw = 1e10 }'
  eq(hw_problem { extra = gpu:format("89", "0") },
    'x.lua: gpu.arch: want an architecture such as "sm_89", got "89"')
  eq(hw_problem { extra = gpu:format("sm_89", "1 << 30") },
    "x.lua: gpu.vram_reserve: want less than gpu.vram (1073741824), got 1073741824")
end

function T.test_options()
  local function problem(...)
    local problems = {}
    options.parse({ ... }, problems)
    return table.concat(problems, "\n")
  end
  eq(problem("quant=q8_0", "quant.expert=q4_0", "ctx=5", "id=a.b-c_1"), "")
  eq(problem("ctx"), "--set: ctx: want key=value, got no '='")
  eq(problem("ctx=1", "ctx=2"), "--set: ctx: want one value, got two")
  eq(problem("ctx=lots"), '--set: ctx: want an integer from 1 to 16777216, got "lots"')
  eq(problem("quant=q4_k", "quant.attn=mxfp4"), "")
  lu.assertStrContains(problem("quant=iq2_xs"), '--set: quant: want f32 or f16 or bf16 or q8_0 or q4_0 or q4_k or ')
  eq(problem("kv=q4_0"), '--set: kv: want f32 or f16 or q8_0, got "q4_0"')
  eq(problem("id=../up"), "--set: id: want a name of letters, digits, '.', '_' and '-', got \"../up\"")
  for _, id in ipairs { "active.mk", "common", "tools", "tests", "test", "probe", "common-assert", "tests-address" } do
    eq(problem("id=" .. id), ('--set: id: want a name that the build does not use itself, got "%s"'):format(id))
  end
  eq(problem("id=tester", "ctx=5"), "")
  lu.assertStrContains(problem("wat=1"), "--set: wat: want a known field (quant quant.expert")
end

local function refused(model, hw, set)
  local p, problems = lib.plan(model, hw, set)
  eq(p, nil)
  return table.concat(problems, "\n")
end

function T.test_sizes_that_contradict()
  eq(refused("tiny-mixtral", "box-8gb", { "ctx=64", "batch=65" }), "--set: batch: want at most ctx (64), got 65")
  eq(refused("tiny-mixtral", "box-8gb", { "batch=8", "logit_rows=9" }),
    "--set: logit_rows: want at most batch (8), got 9")
end

function T.test_ram_refusal_has_numbers()
  eq(refused("mixtral-8x22b", "box-8gb", { "tier=ram" }),
    "models/mixtral-8x22b.lua on hw/box-8gb.lua: memory: want at most 7.5 GiB (8.0 GiB of RAM less 512.0 MiB "
    .. "for the system), got 77.2 GiB: weights 76.2 GiB, KV for 4096 positions 896.0 MiB, work 47.9 MiB; "
    .. "no format of its weights fits; --set tier=disk keeps experts on disk")
  lu.assertStrContains(refused("mixtral", "avx2-desktop", { "quant=bf16", "tier=ram" }),
    "; --set quant= would fit with q8_0 (46.8 GiB) or q6_k (36.3 GiB) or q5_1 (33.2 GiB) or q5_0 (30.5 GiB)")
  -- A context that was asked for is not shrunk.
  lu.assertStrContains(refused("mixtral", "avx2-desktop", { "ctx=1000000" }), "KV for 1000000 positions 122.1 GiB")
  eq(refused("mixtral-8x22b", "box-8gb"),
    "models/mixtral-8x22b.lua on hw/box-8gb.lua: memory: want at most 7.5 GiB, got 24.0 GiB with experts on disk: "
    .. "resident weights 5.3 GiB, KV for 4096 positions 896.0 MiB, 112 slots 17.7 GiB, work 61.9 MiB; "
    .. "no format of its weights fits")
  -- What it says would fit does, and larger ones do not.
  lu.assertStrContains(refused("mixtral", "box-8gb"), "--set quant= would fit with iq4_nl (6.9 GiB) or q4_0 (6.9 GiB)")
  lu.assertNotNil((lib.plan("mixtral", "box-8gb", { "quant=iq4_nl" })))
  refused("mixtral", "box-8gb", { "quant=q5_0" })
end

function T.test_cache_that_cannot_hit_is_refused()
  lu.assertStrContains(refused("mixtral", "avx2-desktop", { "experts_ram=20" }),
    "cache: want at least 64 slots (32 layers x 2 experts a token, ")
  lu.assertStrContains(refused("mixtral", "avx2-desktop", { "experts_ram=20" }),
    "), got 51 (--set experts_ram, percent: want 25 or more)")
  lu.assertStrContains(refused("mixtral", "avx2-desktop", { "slots=1000000000" }), "(--set slots, bytes: 1000000000)")
  eq(refused("mixtral", "avx2-desktop", { "experts_ram=30", "slots=9000000000" }),
    "--set: slots: want slots or experts_ram, got both")
  lu.assertStrContains(refused("mixtral", "avx2-desktop", { "experts_ram=30", "sets=33" }),
    "cache: want at most 32 sets")
  eq(refused("mixtral", "avx2-desktop", { "tier=mmap", "experts_ram=30" }),
    "--set: experts_ram: want tier=disk with it, got tier=mmap")
end

function T.test_blocks_that_do_not_fit()
  local problems = {}
  local m = { family = "mixtral", n_layer = 2, n_embd = 64, n_head = 4, n_head_kv = 2, head_dim = 16, n_ff = 24,
    n_expert = 8, n_vocab = 9, n_layer_dense = 0, n_ff_shared = 0, qk_norm = "none", attn_bias = "none",
    weights = { expert = "f32", attn = "f32", embed = "f32", output = "f32", router = "f32" } }
  formats_of.resolve(m, { quant = "q8_0" }, "x.lua", problems)
  eq(problems, { "x.lua: weights.expert: want f32, f16 or bf16 (down has 24 columns, and blocks are of 32), got q8_0" })
end

function T.test_tied_output_has_the_embedding_s_format()
  local problems = {}
  local m = { family = "mixtral", n_layer = 1, n_embd = 64, n_head = 4, n_head_kv = 2, head_dim = 16, n_ff = 32,
    n_expert = 8, n_vocab = 9, n_layer_dense = 0, n_ff_shared = 0, qk_norm = "none", attn_bias = "none",
    tied = true, weights = { expert = "f32", attn = "f32", embed = "f32", output = "f32", router = "f32" } }
  formats_of.resolve(m, { ["quant.output"] = "q8_0" }, "x.lua", problems)
  eq(problems, { "--set: quant.output: want f32 (the output matrix is the token embedding), got q8_0" })
end

function T.test_vram_refusals()
  local p = lib.plan("mixtral", "4090", { "quant=bf16", "batch=256" })
  local function why(vram)
    p.hw.gpu.vram = vram
    return select(2, plan_cache.plan(p.model, p.hw, p.layout, p.mem))
  end
  eq(why(4 << 30), "vram: want at most 2.1 GiB (4.0 GiB less 1.9 GiB reserved), got 3.6 GiB: "
    .. "resident weights 3.0 GiB, KV 512.0 MiB, work 54.9 MiB")
  eq(why(6 << 30), "cache: want 2 expert slots of 336.0 MiB for one layer's choice, got 1 in 588.1 MiB of VRAM")
end

function T.test_load_map_wants_everything_in_ram()
  for _, case in ipairs { { "avx2-desktop", "tier=mmap", "tier=mmap" },
      { "avx2-desktop", "experts_ram=50", "tier=disk" }, { "h200", "ctx=64", "a machine with a GPU" } } do
    local plan, problems = lib.plan("tiny-mixtral", case[1], { "load=map", case[2] })
    lu.assertNil(plan)
    lu.assertStrContains(problems[1], "--set: load: want copy for " .. case[3] .. ", got map")
  end
end

function T.test_a_gpu_has_no_experts_on_disk()
  for set, name in pairs { ["tier=disk"] = "tier", ["tier=mmap"] = "tier", ["experts_ram=50"] = "experts_ram" } do
    local plan, problems = lib.plan("tiny-mixtral", "h200", { set })
    lu.assertNil(plan)
    lu.assertStrContains(problems[1], "--set: " .. name .. ": a GPU's experts are in VRAM and RAM; want tier=ram")
  end
end

function T.test_vram_options_want_a_gpu()
  for _, set in ipairs { "vram=1000000", "vram_ways=2", "gemm=fast", "gemm_rows=8", "tile_rows=8" } do
    local plan, problems = lib.plan("tiny-mixtral", "avx2-desktop", { set })
    lu.assertNil(plan)
    lu.assertStrContains(problems[1], "--set: " .. set:match("^[^=]+") .. ": want a profile with a GPU, got ")
  end
end

return T

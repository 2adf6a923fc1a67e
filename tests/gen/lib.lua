-- tests/gen/lib.lua -- what the generator's tests share: files, commands, plans.

local root = arg[0]:match("^(.*/)tests/gen/") or "./"
package.path = root .. "?.lua;" .. package.path

local describe = require "gen.describe"
local emit = require "gen.emit"
local formats_of = require "gen.formats"
local model_of = require "gen.model"
local options = require "gen.options"
local plan = require "gen.plan"
local sources = require "gen.sources"

local M = { root = root }

-- Stands in for the plan hash in goldens, which would otherwise change with
-- every change of the generator.
M.HASH = "0123456789abcdef"

function M.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

function M.write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

--- Run a shell command: its output (both streams) and exit code.
function M.run(command)
  local pipe = io.popen("{ " .. command .. "; } 2>&1; echo $?")
  local out = pipe:read("a")
  pipe:close()
  local text, code = out:match("^(.-)(%d+)\n$")
  return text, tonumber(code)
end

--- A fresh folder; the caller removes it.
function M.temp_folder()
  return (M.run("mktemp -d"):gsub("\n", ""))
end

--- Lines of a command's output.
function M.lines(command)
  local list = {}
  for line in M.run(command):gmatch("[^\n]+") do list[#list + 1] = line end
  return list
end

--- A model small enough for a pencil: E 64, 4 heads over 2 of 16, FF 96, 5 experts.
function M.small(weights)
  return model_of.check({
    family = "mixtral", n_layer = 2, n_embd = 64, n_head = 4, n_head_kv = 2, head_dim = 16, n_ff = 96,
    n_expert = 5, n_expert_used = 2, n_vocab = 40, n_ctx_train = 256, norm_eps = 1e-5, rope_theta = 1e4,
    window = 0, tied = false,
    weights = { expert = weights, attn = weights, embed = weights, output = weights, router = "f32" },
  }, "x.lua", {})
end

--- The formats of a model's matrices, which must be possible.
function M.resolved(m, opts)
  local problems = {}
  local formats = formats_of.resolve(m, opts or {}, "x.lua", problems)
  assert(#problems == 0, problems[1])
  return formats
end

local function described(path, kind, problems)
  local input = { id = describe.id_of(path), file = describe.banner_of(path), text = M.read(root .. path) }
  return describe[kind](input, problems), input
end

--- models/NAME.lua on hw/NAME.lua with options; texts: trace and predictor, where options name them.
--- @return table? plan, table problems
function M.plan(model_name, hw_name, set, texts)
  local problems = {}
  local model, m_in = described("models/" .. model_name .. ".lua", "model", problems)
  local hw, h_in = described("hw/" .. hw_name .. ".lua", "hardware", problems)
  local opts = options.parse(set or {}, problems)
  if #problems > 0 then return nil, problems end
  return plan.plan { model = model, hw = hw, opts = opts, model_id = m_in.id, hw_id = h_in.id,
                     model_file = m_in.file, hw_file = h_in.file,
                     trace = texts and texts.trace, predictor = texts and texts.predictor }
end

--- A description's text -> problems as one string.
function M.model_problems(text)
  local problems = {}
  describe.model({ id = "x", file = "x.lua", text = text }, problems)
  return table.concat(problems, "\n")
end

function M.hw_problems(text)
  local problems = {}
  describe.hardware({ id = "x", file = "x.lua", text = text }, problems)
  return table.concat(problems, "\n")
end

--- The generated files of a plan, by name.
function M.files(p)
  local templates, by_name = {}, {}
  for i, path in ipairs(sources.templates) do templates[i] = { path = path, text = M.read(root .. path) } end
  for _, file in ipairs(emit.files(p, M.HASH, templates)) do by_name[file.name] = file.text end
  return by_name
end

--- The committed goldens: list of { path, text }.
function M.goldens()
  local list = {}
  local function add(folder, name, text) list[#list + 1] = { path = folder .. "/" .. name, text = text } end
  local tiny = M.files(M.plan("tiny-mixtral", "avx2-desktop"))
  for _, name in ipairs { "config.h", "tables.h", "tables.c", "build.mk" } do
    add("tiny-mixtral-avx2-desktop", name, tiny[name])
  end
  local q8 = M.plan("tiny-mixtral", "box-8gb", { "quant=q8_0", "ctx=1000", "batch=48", "kv=f32", "threads=3" })
  add("tiny-mixtral-box-8gb-q8_0", "config.h", M.files(q8)["config.h"])
  add("tiny-mixtral-box-8gb-q8_0", "plan.txt", emit.explain(q8, M.HASH))
  local gpu = M.plan("mixtral", "4090", { "quant=bf16", "quant.router=bf16" })
  add("mixtral-4090-bf16", "config.h", M.files(gpu)["config.h"])
  add("mixtral-4090-bf16", "plan.txt", emit.explain(gpu, M.HASH))
  return list
end

return M

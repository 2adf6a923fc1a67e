-- gen/options.lua -- the --set key=value pairs.

local model = require "gen.model"
local quant = require "gen.quant"
local plan_predict = require "gen.plan_predict"
local plan_tier = require "gen.plan_tier"
local schema = require "gen.schema"

local M = {}

local function fields()
  local list = { { name = "quant", kind = "choice", choices = quant.names, optional = true } }
  for _, class in ipairs(model.classes) do
    list[#list + 1] = { name = "quant." .. class, kind = "choice", choices = quant.names,
                        optional = true }
  end
  local rest = {
    { name = "ctx",        kind = "integer", min = 1, max = 1 << 24, optional = true },
    { name = "batch",      kind = "integer", min = 1, max = 8192, optional = true },
    { name = "logit_rows", kind = "integer", min = 1, max = 8192, optional = true },
    { name = "kv",         kind = "choice",  choices = { "f32", "f16", "q8_0" }, optional = true },
    { name = "threads",    kind = "integer", min = 1, max = 1024, optional = true },
    { name = "tier",       kind = "choice",  choices = { "ram", "disk", "mmap" }, optional = true },
    { name = "load",       kind = "choice",  choices = { "map", "copy" }, optional = true },
    { name = "slots",      kind = "integer", min = 1, max = 1 << 50, optional = true },
    { name = "experts_ram", kind = "number", min = 0, max = 100, optional = true },
    { name = "vram",       kind = "integer", min = 1, max = 1 << 50, optional = true },
    { name = "gemm",       kind = "choice",  choices = { "exact", "fast" }, optional = true },
    { name = "gemm_rows",  kind = "integer", min = 2, max = 8192, optional = true },
    { name = "tile_rows",  kind = "integer", min = 2, max = 8192, optional = true },
    { name = "vram_ways",  kind = "integer", min = 1, max = 65535, optional = true },
    { name = "sets",       kind = "integer", min = 1, max = 65535, optional = true },
    { name = "ways",       kind = "choice",  choices = { "equal", "layers" }, optional = true },
    { name = "policy",     kind = "choice",  choices = plan_tier.POLICY_NAMES, optional = true },
    { name = "predict",    kind = "choice",  choices = plan_predict.NAMES, optional = true },
    { name = "predictor",  kind = "string",  optional = true },
    { name = "least",      kind = "number",  min = 0, max = 1, optional = true },
    { name = "stride",     kind = "integer", min = 1, max = 8, optional = true },
    { name = "io",         kind = "choice",  choices = { "auto", "direct", "cached", "plain" },
      optional = true },
    { name = "trace",      kind = "string",  optional = true },
    { name = "id",         kind = "string",  optional = true, pattern = "^[%w][%w._-]*$",
      want = "a name of letters, digits, '.', '_' and '-'" },
  }
  return table.move(rest, 1, #rest, #list + 1, list)
end

M.fields = fields()

-- What the build itself keeps in out/, and those with a flavour (common-assert).
local RESERVED = { ["active.mk"] = true, ["active.mk.tmp"] = true, common = true, tools = true, tests = true,
                   test = true, probe = true }

local function is_reserved(id)
  return type(id) == "string" and (RESERVED[id] or RESERVED[id:match("^(%l+)%-")])
end

--- @param pairs_given table  list of "key=value"
--- @return table options     (complete only when no problem was added)
function M.parse(pairs_given, problems)
  local stated = {}
  for _, text in ipairs(pairs_given) do
    local key, value = text:match("^([^=]+)=(.*)$")
    if not key then
      problems[#problems + 1] = schema.problem("--set", text, "key=value", "no '='")
    elseif stated[key] ~= nil then
      problems[#problems + 1] = schema.problem("--set", key, "one value", "two")
    else
      stated[key] = math.tointeger(tonumber(value)) or (key:find("^quant") and value:lower() or value)
      if key == "experts_ram" or key == "least" then stated[key] = tonumber(value) or value end
      if key == "id" or key == "trace" or key == "predictor" then stated[key] = value end
    end
  end
  if is_reserved(stated.id) then
    problems[#problems + 1] = schema.problem("--set", "id", "a name that the build does not use itself",
      schema.show(stated.id))
  end
  if stated.slots and stated.experts_ram then
    problems[#problems + 1] = schema.problem("--set", "slots", "slots or experts_ram", "both")
  end
  return schema.check(M.fields, stated, "--set", problems)
end

return M

-- gen/hf.lua -- a Hugging Face config.json -> a checked model.

local facts = require "gen.facts"
local families = require "gen.families"
local model = require "gen.model"
local schema = require "gen.schema"

local M = {}

local DTYPES = { float32 = "f32", float16 = "f16", bfloat16 = "bf16" }

-- The whole text as one JSON object, or nil and what is wrong.
local function decode(text, json)
  local ok, config, past, err = pcall(json.decode, text)
  if not ok then return nil, tostring(config) end
  if err then return nil, err end
  if type(config) ~= "table" or #config > 0 then return nil, "no object" end
  if text:find("%S", past) then return nil, ("more text at byte %d"):format(past) end
  return config
end

-- "a.b" is key b of the object at key a.
local function lookup_in(config)
  return function(path)
    local at = config
    for key in path:gmatch("[^.]+") do
      if type(at) ~= "table" then return nil end
      at = at[key]
    end
    return at
  end
end

local function find_family(model_type)
  local known = {}
  for _, family in ipairs(families.list) do
    for _, name in ipairs(family.hf.model_types) do
      if name == model_type then return family end
      known[#known + 1] = name
    end
  end
  return nil, table.concat(known, " or ")
end

-- Checkpoints that keep some weights in blocks: fp8 (read as floats, so the plan
-- has the dtype's format), mxfp4 (gpt-oss: the experts, kept as they are).
local function expert_format(config, file, problems)
  local q = config.quantization_config
  if q == nil then return nil end
  local method = type(q) == "table" and q.quant_method
  local size = method == "fp8" and q.weight_block_size
  if method == "mxfp4" then return "mxfp4" end
  if method ~= "fp8" then
    problems[#problems + 1] = schema.problem(file, "quantization_config.quant_method", '"fp8" or "mxfp4"',
      schema.show(method or nil))
  elseif type(size) ~= "table" or size[1] ~= 128 or size[2] ~= 128 or #size ~= 2 then
    problems[#problems + 1] = schema.problem(file, "quantization_config.weight_block_size", "[128, 128]",
      type(size) == "table" and "another size" or schema.show(size))
  end
end

-- Checkpoints have one dtype; newer ones call it `dtype`.
local function weights_of(config, file, problems)
  local name, value = "torch_dtype", config.torch_dtype
  if value == nil and config.dtype ~= nil then name, value = "dtype", config.dtype end
  local fmt = DTYPES[value]
  if not fmt then
    problems[#problems + 1] = schema.problem(file, name, "float32, float16 or bfloat16", schema.show(value))
    fmt = "f32"
  end
  return { expert = expert_format(config, file, problems) or fmt, attn = fmt, embed = fmt, output = fmt }
end

--- @param text string  of config.json
--- @param json table   a decoder: json.decode(text) -> value, next position, error
--- @param file string  for messages
--- @return table? model (complete only when no problem was added)
function M.describe(text, json, file, problems)
  local config, wrong = decode(text, json)
  if not config then
    problems[#problems + 1] = schema.problem(file, "text", "a JSON object", wrong)
    return nil
  end
  local family, known = find_family(config.model_type)
  if not family then
    problems[#problems + 1] = schema.problem(file, "model_type", known, schema.show(config.model_type))
    return nil
  end
  local lookup = lookup_in(config)
  local stated, names = facts.collect(family.hf.keys, lookup)
  facts.default_head_dim(stated, names)
  facts.check_only(family.hf.only, lookup, file, problems)
  stated.family = family.name
  stated.weights = weights_of(config, file, problems)
  return model.check(stated, file, problems, names)
end

return M

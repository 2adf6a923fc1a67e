-- gen/plan.lua -- model + machine + options -> the plan, which holds every number.
--
-- All arithmetic is in the plan_*.lua modules called here; templates look up.

local formats_of = require "gen.formats"
local plan_background = require "gen.plan_background"
local plan_batch = require "gen.plan_batch"
local plan_device = require "gen.plan_device"
local plan_kernels = require "gen.plan_kernels"
local plan_layout = require "gen.plan_layout"
local plan_predict = require "gen.plan_predict"
local plan_prefetch = require "gen.plan_prefetch"
local plan_rate = require "gen.plan_rate"
local plan_size = require "gen.plan_size"
local trace_of = require "gen.trace"

local M = {}

-- What a GPU adds to a plan: its memory, the cache of experts, what is prefetched and copied.
local function add_device(plan, reasons, trace)
  local m, hw, opts = plan.model, plan.hw, plan.opts
  local function device(options, why)
    return plan_device.plan(m, hw, plan.formats, plan.size, plan.mem, plan.layout, options, why, trace)
  end
  plan.device, plan.cache = device(opts, reasons)
  plan.strides = plan.cache and plan_prefetch.plan(m, hw, plan.layout)
  plan.background = plan.cache and plan.device.cached and plan_background.plan(m, hw, plan.layout, plan.cache)
  if plan.background and plan.cache.policy ~= "static" then
    local _, placed = device(setmetatable({ policy = "static" }, { __index = opts }), {})
    plan.placed = placed and { sets = placed.sets, ways = placed.ways, seconds = placed.seconds,
                               traced = placed.traced }
  end
end

--- @param input table  model (checked) + model_id, model_file; hw (checked) + hw_id, hw_file; opts;
---                     trace?, predictor? (texts of files that opts name)
--- @return table? plan, table problems
function M.plan(input)
  local m, hw, opts, problems = input.model, input.hw, input.opts, {}
  local pair = input.model_file .. " on " .. input.hw_file .. ": "

  local trace = input.trace and trace_of.parse(input.trace, opts.trace, m, problems)
  local formats, notes = formats_of.resolve(m, opts, input.model_file, problems)
  local tables = plan_predict.tables(m, opts, { trace = trace, predictor = input.predictor }, problems)
  if #problems > 0 then return nil, problems end
  local plan = {
    id = opts.id or input.model_id .. "-" .. input.hw_id,
    model_id = input.model_id, model_file = input.model_file,
    hw_id = input.hw_id, hw_file = input.hw_file,
    model = m, hw = hw, opts = opts, formats = formats,
    layout = plan_layout.plan(m, formats),
    kernels = plan_kernels.plan(hw), predict = tables,
  }
  local reasons = {}
  for _, name in ipairs { "vram", "vram_ways", "gemm", "gemm_rows", "tile_rows" } do
    if opts[name] and not hw.gpu then
      reasons[#reasons + 1] = ("--set: %s: want a profile with a GPU, got %s"):format(name, input.hw_file)
    end
  end
  local batch
  if hw.gpu and not opts.batch then
    batch, plan.batches = plan_batch.plan(m, hw, formats, plan.layout, opts, trace)
  end
  plan.size, plan.mem, plan.notes = plan_size.plan(m, hw, formats, plan.layout, opts, reasons, trace, batch)
  table.move(notes, 1, #notes, #plan.notes + 1, plan.notes)
  if plan.size and hw.gpu then add_device(plan, reasons, trace) end
  if #reasons > 0 then
    for i, why in ipairs(reasons) do problems[i] = why:find("^%-%-set") and why or pair .. why end
    return nil, problems
  end
  local tier = plan.size.tier
  plan.rate = plan_rate.plan(plan.layout.token_bytes, hw, plan.device and not plan.device.cached,
    plan.cache and plan.cache.seconds,
    tier.kind == "disk" and tier.pace)
  return plan, problems
end

return M

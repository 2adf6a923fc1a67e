-- gen/plan_batch.lua -- rows of a batch on a device, where none were asked for.
--
-- A batch that streams its layers takes what the link needs for all experts, so more rows make a prompt's
-- token cheaper; their buffers take memory from the cache of experts, so an answer's token gets dearer.
-- Weighed is one token of each: users' prompts and answers are of the same order.

local plan_device = require "gen.plan_device"
local plan_mem = require "gen.plan_mem"
local plan_size = require "gen.plan_size"

local M = {}

M.ROWS = { 2048, 1024, 512, plan_size.BATCH }
M.WORK = 1 / 16 -- of the device's memory, the most for the rows' buffers: all but the last keep to it

-- A prompt's token and an answer's, in seconds; nil where the plan does not fit.
local function seconds(m, hw, formats, layout, opts, trace, batch)
  local size, mem = plan_size.plan(m, hw, formats, layout, opts, {}, trace, batch)
  local device, cache
  if size then device, cache = plan_device.plan(m, hw, formats, size, mem, layout, opts, {}, trace) end
  if not device then return nil end
  -- All in the device's memory: a batch reads it, like a token, and nothing crosses the link.
  if not device.cached then return 0 end
  return cache.seconds + cache.stream_seconds / size.batch
end

--- @return integer batch, table weighed   ({ batch, seconds } of those that fit)
function M.plan(m, hw, formats, layout, opts, trace)
  local vram = math.min(hw.gpu.vram - hw.gpu.vram_reserve, opts.vram or math.huge)
  local best, weighed = nil, {}
  for i, batch in ipairs(M.ROWS) do
    if i == #M.ROWS or plan_mem.row_bytes(m, formats) * batch <= vram * M.WORK then
      local s = seconds(m, hw, formats, layout, opts, trace, batch)
      if s then weighed[#weighed + 1] = { batch = batch, seconds = s } end
      if s and (not best or s < best.seconds) then best = weighed[#weighed] end
    end
  end
  return best and best.batch or plan_size.BATCH, weighed
end

return M

-- gen/plan_rate.lua -- bytes a token, and the rate that the bandwidths allow.
--
-- A bound, not a promise: attention over a long context, barriers and
-- arithmetic come on top of it; weights that stay in a CPU cache go below it.

local M = {}

-- Four digits: what a prediction is worth.
local function rounded(x)
  return tonumber(("%.3e"):format(x))
end

--- @param token_bytes integer  what a decode step reads from RAM
--- @param hw          table    a checked profile
--- @param resident    boolean  everything is in VRAM
--- @param seconds     number?  a token's time with an expert cache, by gen/plan_cache.lua
--- @param pace        table?   of gen/plan_pace.lua, when experts come from disk
function M.plan(token_bytes, hw, resident, seconds, pace)
  if pace then
    return { token_bytes = token_bytes, bound = "disk and memory", tps = rounded(1 / pace.seconds),
             bound_tps = rounded(1 / pace.bound_s) }
  end
  if resident then
    return { token_bytes = token_bytes, bound = "VRAM", bw = hw.gpu.vram_bw,
             tps = rounded(hw.gpu.vram_bw / token_bytes) }
  end
  if seconds then
    return { token_bytes = token_bytes, bound = "gpu plan", tps = rounded(1 / seconds) }
  end
  local bound = hw.cpu_bw < hw.mem_bw and "cores" or "memory"
  return { token_bytes = token_bytes, bound = bound, bw = hw.cpu_bw,
           tps = rounded(hw.cpu_bw / token_bytes) }
end

return M

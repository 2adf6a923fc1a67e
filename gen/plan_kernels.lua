-- gen/plan_kernels.lua -- which kernels the binary carries and which CPU they need.

local M = {}

-- Bits of ig_cpu_features() (kernels.h: IG_CPU_AVX2 1, IG_CPU_AVX512 2, IG_CPU_AMX 4).
local NEED = {
  ref    = 0,
  avx2   = 1,
  avx512 = 3,
  amx    = 7,
}

--- @param hw table  a checked profile
function M.plan(hw)
  return { isa = hw.isa, kern = "ig_kernels_" .. hw.isa, need_cpu = NEED[hw.isa] }
end

return M

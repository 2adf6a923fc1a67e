-- gen/plan_kernels.lua -- which kernels the binary carries and which CPU they need.

local M = {}

-- need: bits of ig_cpu_features() (kernels.h: IG_CPU_AVX2 1, IG_CPU_AVX512 2).
local ISA = {
  ref    = { need = 0, builds = { "ref" } },
  avx2   = { need = 1, builds = { "ref", "avx2" } },
  avx512 = { need = 3, builds = { "ref", "avx512" } },
}

--- @param hw table  a checked profile
function M.plan(hw)
  local isa = ISA[hw.isa]
  return { isa = hw.isa, kern = "ig_kernels_" .. hw.isa, need_cpu = isa.need, builds = isa.builds }
end

return M

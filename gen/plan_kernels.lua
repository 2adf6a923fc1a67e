-- gen/plan_kernels.lua -- which kernels the binary carries and which CPU they need.

local M = {}

-- Bits of ig_cpu_features() (kernels.h: IG_CPU_AVX2 1, IG_CPU_AVX512 2, IG_CPU_AMX 4, IG_CPU_NEON 256,
-- IG_CPU_I8MM 512), and what the compiler has to make programs for, as it and uname call it; "": any.
local NEED = {
  ref    = { cpu = 0,   arch = "" },
  avx2   = { cpu = 1,   arch = "x86_64" },
  avx512 = { cpu = 3,   arch = "x86_64" },
  amx    = { cpu = 7,   arch = "x86_64" },
  neon   = { cpu = 256, arch = "aarch64" },
  i8mm   = { cpu = 768, arch = "aarch64" },
}

--- @param hw table  a checked profile
function M.plan(hw)
  local need = NEED[hw.isa]
  return { isa = hw.isa, kern = "ig_kernels_" .. hw.isa, need_cpu = need.cpu, arch = need.arch }
end

return M

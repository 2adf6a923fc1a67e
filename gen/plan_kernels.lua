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

-- Whether block formats go through AMX's tiles, where the profile asks for AMX; their bits are AVX-512's
-- either way.  On 16 Xeon cores AVX-512 was faster: 64 rows of Q8_0 382-421 against 342-366 GOP/s a thread,
-- Q4_K 266-345 against 280-302 (bench/results/h200/kernels.txt).  BF16 takes the tiles, 1.1 to 2.3 times AVX-512.
local TILES_FOR_BLOCKS = false

--- @param hw table  a checked profile
function M.plan(hw)
  local need = NEED[hw.isa]
  local kern = hw.isa == "amx" and not TILES_FOR_BLOCKS and "amx_bf16" or hw.isa
  return { isa = hw.isa, kern = "ig_kernels_" .. kern, need_cpu = need.cpu, arch = need.arch }
end

return M

-- gen/plan_fast.lua -- gemm=fast: BF16 matrices and attention of a batch on the matrix units, in 16 bits.

local M = {}

-- Roles whose BF16 matrices go there.
M.ROLES = { "q", "q_a", "kv_a", "k", "v", "o", "gate", "up", "down", "dense_gate", "dense_up", "dense_down" }
-- Where the unit has instructions that other members of its family lack: what the kernels are compiled for.
M.CODE = { sm_90 = "sm_90a" }

-- Columns of what o reads.
local function o_cols(m) return m.n_head * (m.kv_lora and m.v_dim or m.head_dim) end

--- @param tiled boolean  attention goes by tiles there: kernels/cuda/flash.cu has these heads too (IG_FLASH)
function M.fields(m, hw, kv, opts, tiled)
  if opts.gemm ~= "fast" then return { gemm_fast = 0, flashes = 0, code = hw.gpu.arch, row_bytes = 0 } end
  return {
    gemm_fast = 1, flashes = tiled and kv == "f16" and 1 or 0, code = M.CODE[hw.gpu.arch] or hw.gpu.arch,
    row_bytes = 2 * math.max(m.n_embd, o_cols(m), m.kv_lora and m.q_lora or 0), -- of what a matrix reads
  }
end

--- Why it cannot be; `has`: some of ROLES is in bf16.
function M.refusal(m, has)
  if not has then return "--set: gemm: fast is for matrices in bf16, and this plan has none" end
  for _, cols in ipairs { m.n_embd, m.n_ff, m.n_ff_dense, m.n_ff_shared, o_cols(m), m.kv_lora and m.q_lora or 0 } do
    if cols % 32 ~= 0 then
      return ("--set: gemm: fast wants rows of whole blocks of 32 values, got %d"):format(cols)
    end
  end
end

return M

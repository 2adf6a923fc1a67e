-- gen/quant.lua -- formats of weights, and the bytes of a packed panel.
--
-- The same sizes as kernels/panel.h: a panel is 16 rows; `group` columns of
-- them take `bytes`.  Sizes are of a panel; strides are in plan_layout.lua.

local M = {}

M.PANEL_ROWS = 16
M.BLOCK = 32       -- columns of one block of a block format
M.XQ_BYTES = 40    -- struct ig_xq: 32 int8 activations, their scale, their sum

-- In the order of enum ig_fmt.  `block`: columns must be a multiple of 32, and
-- activations meet these weights as int8.
M.formats = {
  { name = "f32",  enum = "IG_F32",  id = 0, group = 1,  bytes = 64 },
  { name = "f16",  enum = "IG_F16",  id = 1, group = 2,  bytes = 64 },
  { name = "bf16", enum = "IG_BF16", id = 2, group = 2,  bytes = 64 },
  { name = "q8_0", enum = "IG_Q8_0", id = 3, group = 32, bytes = 544, block = true },
  { name = "q4_0", enum = "IG_Q4_0", id = 4, group = 32, bytes = 288, block = true },
}

M.names = {}
M.by_name = {}
for i, f in ipairs(M.formats) do
  M.names[i] = f.name
  M.by_name[f.name] = f
end

--- Bytes of one packed panel of `cols` columns.
function M.panel_bytes(name, cols)
  local f = M.by_name[name]
  return (cols + f.group - 1) // f.group * f.bytes
end

--- Bytes of `cols` activations as int8 blocks.
function M.xq_bytes(cols)
  return cols // M.BLOCK * M.XQ_BYTES
end

--- May a matrix with `cols` columns have this format?
function M.fits(name, cols)
  return not M.by_name[name].block or cols % M.BLOCK == 0
end

function M.is_block(name)
  return M.by_name[name].block == true
end

return M

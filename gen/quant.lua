-- gen/quant.lua -- formats of weights, and the bytes of a packed panel.
--
-- The same sizes as kernels/panel.h: a panel is 16 rows; `group` columns of
-- them take `bytes`.  Sizes are of a panel; strides are in plan_layout.lua.

local M = {}

M.PANEL_ROWS = 16
M.BLOCK = 32       -- columns that share one scale of the activations
M.XQ_BYTES = 40    -- struct ig_xq: 32 int8 activations, their scale, their sum

-- In the order of enum ig_fmt.  `group`: columns must be a multiple of it for a
-- block format, whose activations are int8; its panel is 16 of GGUF's rows.
M.formats = {
  { name = "f32",  group = 1, bytes = 64 },
  { name = "f16",  group = 2, bytes = 64 },
  { name = "bf16", group = 2, bytes = 64 },
}

-- name, columns and bytes of one GGUF block
for _, b in ipairs {
  { "q8_0",   32,  34 }, { "q4_0", 32,  18 },  { "q4_k", 256, 144 }, { "q6_k", 256, 210 },
  { "q5_k",   256, 176 }, { "mxfp4", 32, 17 }, { "q4_1", 32,  20 },  { "q5_0", 32,  22 },
  { "q5_1",   32,  24 }, { "iq4_nl", 32, 18 }, { "q3_k", 256, 110 }, { "q2_k", 256, 84 },
  { "iq4_xs", 256, 136 },
} do
  M.formats[#M.formats + 1] = { name = b[1], group = b[2], bytes = b[3] * M.PANEL_ROWS, block = true }
end

-- For columns that are no multiple of 256: what GGUF's writers take instead.
M.fallback = { q4_k = "q5_0", q5_k = "q5_1", q6_k = "q8_0", q2_k = "q4_0", q3_k = "q4_0", iq4_xs = "iq4_nl" }

M.names = {}
M.by_name = {}
for i, f in ipairs(M.formats) do
  f.id, f.enum = i - 1, "IG_" .. f.name:upper()
  M.names[i] = f.name
  M.by_name[f.name] = f
end

--- Bytes of one packed panel of `cols` columns.
function M.panel_bytes(name, cols)
  local f = M.by_name[name]
  return (cols + f.group - 1) // f.group * f.bytes
end

--- Bytes of one standard row.
function M.row_bytes(name, cols)
  local f = M.by_name[name]
  return cols * f.bytes // (f.group * M.PANEL_ROWS)
end

--- Bytes of `cols` activations as int8 blocks.
function M.xq_bytes(cols)
  return cols // M.BLOCK * M.XQ_BYTES
end

--- May a matrix with `cols` columns have this format?
function M.fits(name, cols)
  return not M.by_name[name].block or cols % M.by_name[name].group == 0
end

function M.is_block(name)
  return M.by_name[name].block == true
end

return M

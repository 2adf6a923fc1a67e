-- gen/plan_layout.lua -- where every matrix lies in the weights data.
--
-- Resident part first (embedding, attention, routers, norms, output), then one
-- slab an expert.  The layout hash covers this and nothing else: it ties a
-- weights file to the binaries that can read it.

local hash = require "gen.hash"
local formats_of = require "gen.formats"
local model = require "gen.model"
local num = require "gen.num"
local quant = require "gen.quant"

local M = {}

M.ITEM_ALIGN = 64     -- a cache line: kernels load whole ones
M.SLAB_ALIGN = 4096   -- a page: experts move by direct I/O and by page

-- A panel of block weights with an odd number of blocks ends inside a cache
-- line, so the stride, not the panel, is rounded up.
local function panel_stride(fmt, cols)
  return num.align_up(quant.panel_bytes(fmt, cols), M.ITEM_ALIGN)
end

local function matrix(mat, fmt)
  local panels = num.ceil_div(mat.rows, quant.PANEL_ROWS)
  local stride = panel_stride(fmt, mat.cols)
  return { off = 0, stride = stride, rows = mat.rows, cols = mat.cols, fmt = fmt,
           panels = panels, bytes = stride * panels }
end

-- Gate and up panels alternate, so that one pass over the slab feeds SwiGLU.
local function slab(layer)
  local gate, up, down = layer.gate, layer.up, layer.down
  up.off = gate.stride
  gate.stride = gate.stride + up.stride
  up.stride = gate.stride
  down.off = gate.bytes + up.bytes
  layer.slab_bytes = down.off + down.bytes
  layer.expert_stride = num.align_up(layer.slab_bytes, M.SLAB_ALIGN)
end

local function place_resident(m, layout, matrices)
  local at = 0
  local function place(bytes)
    local off = num.align_up(at, M.ITEM_ALIGN)
    at = off + bytes
    return off
  end
  local norm_bytes = m.n_embd * 4

  layout.token_embd.off = place(layout.token_embd.bytes)
  for _, layer in ipairs(layout.layers) do
    layer.mixer_norm = place(norm_bytes)
    for _, mat in ipairs(matrices) do
      local own = layer[mat.role]
      if mat.role == "router" then layer.ffn_norm = place(norm_bytes) end
      if mat.class ~= "expert" then own.off = place(own.bytes) end
    end
  end
  layout.output_norm_off = place(norm_bytes)
  if layout.output ~= layout.token_embd then layout.output.off = place(layout.output.bytes) end
  layout.resident_bytes = num.align_up(at, M.SLAB_ALIGN)
end

local function place_experts(m, layout)
  local at = layout.resident_bytes
  for _, layer in ipairs(layout.layers) do
    layer.expert_off = at
    at = at + layer.expert_stride * m.n_expert
  end
  layout.data_bytes = at
end

-- Everything a reader of the weights file relies on, one fact a line.
local function canonical(m, layout, matrices)
  local lines = { ("%s %d layers %d experts"):format(m.family, m.n_layer, m.n_expert) }
  local function add(name, mat)
    lines[#lines + 1] = ("%s %d %d %d %d %s"):format(name, mat.off, mat.stride, mat.rows, mat.cols, mat.fmt)
  end
  add("token_embd", layout.token_embd)
  for _, layer in ipairs(layout.layers) do
    lines[#lines + 1] = ("layer %d %d %d %d"):format(layer.mixer_norm, layer.ffn_norm,
      layer.expert_off, layer.expert_stride)
    for _, mat in ipairs(matrices) do add(mat.role, layer[mat.role]) end
  end
  lines[#lines + 1] = ("output_norm %d"):format(layout.output_norm_off)
  add("output", layout.output)
  lines[#lines + 1] = ("data %d %d"):format(layout.resident_bytes, layout.data_bytes)
  return table.concat(lines, "\n") .. "\n"
end

-- One line that says what the layout hash stands for, for messages.  The file's
-- header has 256 bytes for it.
local function summary(m, layout, formats)
  return ("%s, %d layers of %d experts, %d wide, expert width %d, vocabulary %d; "
    .. "expert %s, attn %s, embed %s, output %s, router %s; %d bytes"):format(
      m.family, m.n_layer, m.n_expert, m.n_embd, m.n_ff, m.n_vocab,
      formats_of.used(formats, { "gate", "up", "down" }),
      formats_of.used(formats, { "q", "k", "v", "o" }),
      formats.token_embd, formats.output, formats_of.used(formats, { "router" }),
      layout.data_bytes):sub(1, 255)
end

-- Bytes that one decode step reads: every resident matrix but the embedding
-- (one row of it), and the chosen experts.
local function token_bytes(m, layout, matrices)
  local resident, experts = layout.output.bytes, 0
  for _, layer in ipairs(layout.layers) do
    for _, mat in ipairs(matrices) do
      if mat.class ~= "expert" then resident = resident + layer[mat.role].bytes end
    end
    experts = experts + layer.slab_bytes * m.n_expert_used
  end
  return resident, experts
end

--- @param m       table  a checked model
--- @param formats table  of gen/formats.lua
function M.plan(m, formats)
  local layout = { layers = {} }
  local matrices = model.layer_matrices(m)
  for _, mat in ipairs(model.outer_matrices(m)) do
    layout[mat.role] = matrix(mat, formats[mat.role])
  end
  layout.output = layout.output or layout.token_embd
  for i = 1, m.n_layer do
    local layer = {}
    for _, mat in ipairs(matrices) do
      layer[mat.role] = matrix(mat, formats.layers[i][mat.role])
    end
    slab(layer)
    layout.layers[i] = layer
  end
  place_resident(m, layout, matrices)
  place_experts(m, layout)
  layout.token_resident_bytes, layout.token_expert_bytes = token_bytes(m, layout, matrices)
  layout.token_bytes = layout.token_resident_bytes + layout.token_expert_bytes
  layout.text = summary(m, layout, formats)
  layout.hash = hash.fnv1a64(canonical(m, layout, matrices))
  return layout
end

return M

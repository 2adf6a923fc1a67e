-- gen/plan_layout.lua -- where every matrix lies in the weights data.
--
-- Resident part first (embedding, attention, routers, norms, output), then one
-- slab an expert.  The layout hash covers this and the model's facts
-- (gen/plan_facts.lua): it ties a weights file to the binaries that compute its model.

local hash = require "gen.hash"
local formats_of = require "gen.formats"
local num = require "gen.num"
local plan_facts = require "gen.plan_facts"
local quant = require "gen.quant"
local shape = require "gen.shape"

local M = {}

M.ATTN = { "q", "k", "v", "o", "q_a", "kv_a", "k_b", "v_b", "cross_q", "cross_k", "cross_v", "cross_o" }
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
  return { off = 0, stride = stride, rows = mat.rows, cols = mat.cols, fmt = fmt, bias = 0,
           panels = panels, bytes = stride * panels }
end

-- Gate and up panels alternate (one without up is just a matrix), so that one pass over the slab feeds the activation.
-- Biases end the slab.  Returns its bytes; offsets count from `base`.
local function slab(layer, items, part, base)
  local mats = {}
  for _, item in ipairs(items) do
    if item.part == part then mats[#mats + 1] = { own = layer[item.role], bias = item.bias } end
  end
  if #mats == 0 then return 0 end
  local gate, up, down = mats[1].own, #mats == 3 and mats[2].own, mats[#mats].own
  gate.off, down.off = base, base + gate.bytes
  if up then
    up.off = base + gate.stride
    gate.stride = gate.stride + up.stride
    up.stride = gate.stride
    down.off = down.off + up.bytes
  end
  local at = down.off + down.bytes
  for _, mat in ipairs(mats) do
    if mat.bias then
      mat.own.bias = num.align_up(at, M.ITEM_ALIGN)
      at = mat.own.bias + mat.own.rows * 4
    end
  end
  return at - base
end

local function placer()
  local at = 0
  return function(bytes)
    local off = num.align_up(at, M.ITEM_ALIGN)
    at = off + bytes
    return off
  end, function() return at end
end

local function place_resident(m, layout)
  local place, ends = placer()
  local function place_items(items, into)
    for _, item in ipairs(items) do
      local own = into[item.role]
      if item.n then
        into[item.role] = place(item.n * 4)
      elseif not item.part then
        own.off = place(own.bytes)
        if item.bias then own.bias = place(item.rows * 4) end
      elseif item.part == "dense" and own.off == 0 then
        local base = place(0)
        place(slab(into, items, "dense", base))
      end
    end
  end
  local before, after = shape.outer_items(m)
  place_items(before, layout)
  for i, layer in ipairs(layout.layers) do place_items(shape.layer_items(m, i), layer) end
  place_items(after, layout)
  layout.resident_bytes = num.align_up(ends(), M.SLAB_ALIGN)
end

local function place_experts(m, layout)
  local at = layout.resident_bytes
  for i, layer in ipairs(layout.layers) do
    layer.slab_bytes = slab(layer, shape.layer_items(m, i), "expert", 0)
    layer.expert_stride = num.align_up(layer.slab_bytes, M.SLAB_ALIGN)
    layer.expert_off = at
    layer.n_expert = layer.slab_bytes > 0 and m.n_expert or 0
    at = at + layer.expert_stride * layer.n_expert
  end
  layout.data_bytes = at
end

-- Everything a reader of the weights file relies on, one fact a line: the model's
-- arithmetic, then where everything lies.
local function canonical(m, layout)
  local lines = plan_facts.lines(m)
  local function add(items, from)
    for _, item in ipairs(items) do
      local own = from[item.role]
      lines[#lines + 1] = item.n and ("%s %d %d"):format(item.role, own, item.n)
        or ("%s %d %d %d %d %s %d"):format(item.role, own.off, own.stride, own.rows, own.cols, own.fmt, own.bias)
    end
  end
  local before, after = shape.outer_items(m)
  add(before, layout)
  for i, layer in ipairs(layout.layers) do
    lines[#lines + 1] = ("layer %d %d"):format(layer.expert_off, layer.expert_stride)
    add(shape.layer_items(m, i), layer)
  end
  add(after, layout)
  lines[#lines + 1] = ("data %d %d"):format(layout.resident_bytes, layout.data_bytes)
  return table.concat(lines, "\n") .. "\n"
end

-- One line that says what the layout hash stands for, for messages.  The file's
-- header has 256 bytes for it.
local function summary(m, layout, formats)
  return ("%s; expert %s, attn %s, embed %s, output %s, router %s; %d bytes"):format(plan_facts.text(m),
      formats_of.used(formats, { "gate", "up", "down", "dense_gate", "dense_up", "dense_down" }),
      formats_of.used(formats, M.ATTN),
      formats.token_embd, formats.output, m.n_expert > 0 and formats_of.used(formats, { "router" }) or "none",
      layout.data_bytes):sub(1, 255)
end

-- Bytes that one decode step reads: every resident matrix but the embedding
-- (one row of it), and the chosen experts.  What serves the encoder's input is read once.
local function token_bytes(m, layout)
  local resident, experts = layout.output.bytes, 0
  for i, layer in ipairs(layout.layers) do
    layer.encoder = shape.is_encoder(m, i) or nil
    for _, mat in ipairs(layer.encoder and {} or shape.layer_matrices(m, i)) do
      local once = mat.role == "cross_k" or mat.role == "cross_v"
      if mat.part ~= "expert" and not once then resident = resident + layer[mat.role].bytes end
    end
    if not layer.encoder then experts = experts + layer.slab_bytes * m.n_expert_used end
  end
  return resident, experts
end

-- Bytes that an encoder reads of its input's batches: of one row (with what stores the decoder's keys
-- and values of it), and at most.
local function input_bytes(m, layout)
  if not shape.has_encoder(m) then return end
  local row, most = 0, 0
  for i, layer in ipairs(layout.layers) do
    for _, mat in ipairs(shape.layer_matrices(m, i)) do
      local read = layer.encoder and mat.part ~= "expert" or mat.role == "cross_k" or mat.role == "cross_v"
      if read then row, most = row + layer[mat.role].bytes, most + layer[mat.role].bytes end
    end
    if layer.encoder then
      row, most = row + layer.slab_bytes * m.n_expert_used, most + layer.slab_bytes * layer.n_expert
    end
  end
  return row, most
end

--- @param m       table  a checked model
--- @param formats table  of gen/formats.lua
function M.plan(m, formats)
  local layout = { layers = {} }
  for _, mat in ipairs(shape.outer_matrices(m)) do
    layout[mat.role] = matrix(mat, formats[mat.role])
  end
  layout.output = layout.output or layout.token_embd
  for i = 1, m.n_layer do
    local layer = {}
    for _, mat in ipairs(shape.layer_matrices(m, i)) do
      layer[mat.role] = matrix(mat, formats.layers[i][mat.role])
    end
    layout.layers[i] = layer
  end
  place_resident(m, layout)
  place_experts(m, layout)
  layout.token_resident_bytes, layout.token_expert_bytes = token_bytes(m, layout)
  layout.token_bytes = layout.token_resident_bytes + layout.token_expert_bytes
  layout.input_row_bytes, layout.input_bytes = input_bytes(m, layout)
  layout.text = summary(m, layout, formats)
  layout.hash = hash.fnv1a64(canonical(m, layout))
  return layout
end

return M

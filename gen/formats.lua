-- gen/formats.lua -- which format every matrix of the plan has.
--
-- An option wins over what the source says.  A GGUF may differ from layer to
-- layer; everything else states one format a class.

local model = require "gen.model"
local quant = require "gen.quant"
local schema = require "gen.schema"

local M = {}

-- `quant` sets every class but the router, whose few weights decide which
-- experts run: lowering it is a separate, explicit choice.
local function chosen(opts, class)
  return opts["quant." .. class] or class ~= "router" and opts.quant or nil
end

local function check_fit(mat, fmt, file, seen, problems)
  if quant.fits(fmt, mat.cols) or seen[mat.role .. fmt] then return end
  seen[mat.role .. fmt] = true
  problems[#problems + 1] = schema.problem(file, "weights." .. mat.class,
    ("f32, f16 or bf16 (%s has %d columns, and blocks are of %d)")
      :format(mat.role, mat.cols, quant.by_name[fmt].group), fmt)
end

-- A format that was asked for, or what stands in for it where its blocks do not
-- fit the columns; the plan's notes say so.
local function fitting(mat, fmt, notes)
  local instead = quant.fallback[fmt]
  if quant.fits(fmt, mat.cols) or not instead or not quant.fits(instead, mat.cols) then return fmt end
  local note = ("%s: %s instead of %s (%d columns, and its blocks are of %d)")
    :format(mat.role, instead, fmt, mat.cols, quant.by_name[fmt].group)
  if not notes[note] then
    notes[note], notes[#notes + 1] = true, note
  end
  return instead
end

--- @return table formats { token_embd, output, layers = { { q = ..., ... }, ... } }, table notes
function M.resolve(m, opts, file, problems)
  local seen, notes = {}, {}
  local function pick(mat, found)
    local fmt = chosen(opts, mat.class) or found or m.weights[mat.class]
    fmt = fitting(mat, fmt, notes)
    check_fit(mat, fmt, file, seen, problems)
    return fmt
  end

  local types = m.types or { layers = {} }
  local formats = { layers = {} }
  for _, mat in ipairs(model.outer_matrices(m)) do
    formats[mat.role] = pick(mat, types[mat.role])
  end
  for i = 1, m.n_layer do
    formats.layers[i] = {}
    for _, mat in ipairs(model.layer_matrices(m)) do
      formats.layers[i][mat.role] = pick(mat, types.layers[i] and types.layers[i][mat.role])
    end
  end
  if m.tied then
    local output = opts["quant.output"]
    if output and output ~= formats.token_embd then
      problems[#problems + 1] = schema.problem("--set", "quant.output",
        formats.token_embd .. " (the output matrix is the token embedding)", output)
    end
    formats.output = formats.token_embd
  end
  return formats, notes
end

--- Formats in use for a list of roles, in the order of first use, as "q8_0" or "q8_0/q4_0".
function M.used(formats, roles)
  local seen, list = {}, {}
  for _, layer in ipairs(formats.layers) do
    for _, role in ipairs(roles) do
      local fmt = layer[role] or formats[role]
      if not seen[fmt] then
        seen[fmt], list[#list + 1] = true, fmt
      end
    end
  end
  return table.concat(list, "/")
end

--- Does any of these roles have block weights in some layer?  Does any have float weights?
function M.any(formats, roles, block)
  for _, layer in ipairs(formats.layers) do
    for _, role in ipairs(roles) do
      if quant.is_block(layer[role]) == block then return true end
    end
  end
  return false
end

return M

-- gen/plan_size.lua -- context, batch, threads: what was asked for, or what fits.
--
-- A size that was asked for is kept or refused, with numbers; a default shrinks
-- to fit the machine, and the plan's notes say so.

local formats_of = require "gen.formats"
local num = require "gen.num"
local plan_layout = require "gen.plan_layout"
local plan_mem = require "gen.plan_mem"
local plan_tier = require "gen.plan_tier"
local quant = require "gen.quant"
local shape = require "gen.shape"

local M = {}

M.CTX = 4096        -- default context, when the model was trained for it
M.CTX_LEAST = 512   -- a default never shrinks below this
M.CTX_STEP = 64     -- one KV block
M.BATCH = 256       -- enough rows that prefill is bound by arithmetic
M.LOGIT_ROWS = 32
M.MLP = { "gate", "up", "down", "dense_gate", "dense_up", "dense_down" }

-- The sizes before RAM is looked at.
local function wanted_of(m, hw, formats, opts, batch)
  local ctx = opts.ctx or math.min(m.n_ctx_train, M.CTX)
  batch = opts.batch or math.min(batch or M.BATCH, ctx)
  local expert_f32 = formats_of.used(formats, M.MLP) == "f32"
  return {
    ctx = ctx,
    batch = batch,
    logit_rows = opts.logit_rows or math.min(M.LOGIT_ROWS, batch),
    -- KV as exact as the weights: f32 when someone keeps the experts in f32.
    kv = opts.kv or (expert_f32 and "f32" or "f16"),
    threads = opts.threads or hw.cores,
  }
end

local function check_options(m, size, problems)
  local function at_most(field, limit, what)
    if size[field] > limit then
      problems[#problems + 1] = ("--set: %s: want at most %s (%d), got %d")
        :format(field, what, limit, size[field])
    end
  end
  if not quant.fits(size.kv, m.head_dim) then
    problems[#problems + 1] = ("--set: kv: want f16 or f32 for heads of %d, got %s, whose blocks are of %d values")
      :format(m.head_dim, size.kv, quant.by_name[size.kv].group)
  end
  at_most("batch", size.ctx, "ctx")
  at_most("logit_rows", size.batch, "batch")
end

-- Formats with which it would fit, largest first, for the refusal: the reader wants a way out.
-- need_of(layout, formats): bytes of RAM if every class but the router had this format.
local function way_out(m, limit, need_of)
  local fits = {}
  for _, fmt in ipairs(quant.names) do
    local whole = true
    for layer = 1, m.n_layer do
      for _, mat in ipairs(shape.layer_matrices(m, layer)) do
        whole = whole and (mat.class == "router" or quant.fits(fmt, mat.cols))
      end
    end
    local formats = whole and formats_of.resolve(m, { quant = fmt }, "", {})
    local need = whole and need_of(plan_layout.plan(m, formats), formats)
    if need and need <= limit then fits[#fits + 1] = { need = need, fmt = fmt } end
  end
  if #fits == 0 then return "no format of its weights fits" end
  table.sort(fits, function(a, b)
    if a.need ~= b.need then return a.need > b.need end
    return a.fmt < b.fmt
  end)
  local texts = {}
  for i = 1, math.min(#fits, 4) do texts[i] = ("%s (%s)"):format(fits[i].fmt, num.human(fits[i].need)) end
  return "--set quant= would fit with " .. table.concat(texts, " or ")
end

local function refusal(m, layout, mem, size, hw)
  local need, limit = mem.bytes + plan_mem.OUTSIDE_BYTES, hw.ram_usable
  local out = way_out(m, limit, function(l) return l.data_bytes + need - layout.data_bytes end)
  if out:find("^no ") then out = out .. "; --set tier=disk keeps experts on disk" end
  return ("memory: want at most %s (%s of RAM less %s for the system), got %s: "
    .. "weights %s, KV for %d positions %s, work %s; %s"):format(
      num.human(limit), num.human(hw.ram), num.human(hw.ram_reserve), num.human(need),
      num.human(layout.data_bytes), size.ctx, num.human(mem.kv_bytes), num.human(mem.work_bytes), out)
end

-- The arena with the longest context that fits; nil, and the arena as wanted, when none does.
local function fit(m, hw, formats, layout, opts, size)
  local wanted = size.ctx
  local mem = plan_mem.plan(m, formats, layout, size)
  local first = mem
  local function fits() return mem.bytes + plan_mem.OUTSIDE_BYTES <= hw.ram_usable end
  while not fits() and not opts.ctx and size.ctx > M.CTX_LEAST do
    size.ctx = math.max(size.ctx - M.CTX_STEP, M.CTX_LEAST)
    mem = plan_mem.plan(m, formats, layout, size)
  end
  if fits() then return mem end
  size.ctx = wanted
  return nil, first
end

-- The fewest slots that make sense.
local function least_tier(m, hw, layout, opts, size)
  local tier = plan_tier.with_slots(m, hw, layout, opts, plan_tier.least(m, layout))
  tier.waves = size.batch > 1
  return tier
end

local function disk_refusal(m, hw, layout, opts, size, first)
  local function need_of(other, formats)
    local s = setmetatable({ tier = least_tier(m, hw, other, opts, size) }, { __index = size })
    s.ctx = opts.ctx or math.min(size.ctx, M.CTX_LEAST)
    return plan_mem.plan(m, formats, other, s).bytes + plan_mem.OUTSIDE_BYTES
  end
  return ("memory: want at most %s, got %s with experts on disk: resident weights %s, KV for %d "
    .. "positions %s, %d slots %s, work %s; %s"):format(num.human(hw.ram_usable),
      num.human(first.bytes + plan_mem.OUTSIDE_BYTES), num.human(layout.resident_bytes), size.ctx,
      num.human(first.kv_bytes), size.tier.n_slot, num.human(first.expert_bytes),
      num.human(first.work_bytes), way_out(m, hw.ram_usable, need_of))
end

-- Experts on disk: the arena with the fewest slots that make sense, then slots in what is left.
local function fit_disk(m, hw, formats, layout, opts, size, trace)
  size.tier = least_tier(m, hw, layout, opts, size)
  local mem, first = fit(m, hw, formats, layout, opts, size)
  if not mem then return nil, disk_refusal(m, hw, layout, opts, size, first) end
  local room = hw.ram_usable - plan_mem.OUTSIDE_BYTES - (mem.bytes - mem.expert_bytes)
  local tier, why = plan_tier.plan(m, hw, layout, opts, room, trace)
  if not tier then return nil, why end
  tier.waves = plan_tier.waves(m, size, tier)
  size.tier = tier
  return plan_mem.plan(m, formats, layout, size)
end

-- ram, unless something else was asked for or does not fit.
local function place(m, hw, formats, layout, opts, size, trace, notes)
  local kind, asked = opts.tier, plan_tier.asked(opts, hw.gpu)
  if asked and kind and kind ~= "disk" then
    return nil, ("--set: %s: want tier=disk with it, got tier=%s"):format(asked, kind)
  end
  kind = kind or (asked and "disk")
  if hw.gpu and kind and kind ~= "ram" then
    return nil, ("--set: %s: a GPU's experts are in VRAM and RAM; want tier=ram there, got tier=%s"):format(
      asked or "tier", kind)
  end
  size.tier = plan_tier.RAM
  if kind == "mmap" then size.tier = plan_tier.MMAP end
  if kind ~= "disk" then
    local mem, first = fit(m, hw, formats, layout, opts, size)
    if mem then return mem end
    local why = refusal(m, layout, first, size, hw)
    if kind or hw.gpu then return nil, why end
    notes[1] = "experts on disk: " .. why
  end
  return fit_disk(m, hw, formats, layout, opts, size, trace)
end

-- Weights stay in the page cache where nothing else needs them: start-up is then a check of the file, and
-- two programs share its pages.  Copied, they are in huge pages on every file system (docs/ARCHITECTURE.md).
local function choose_load(hw, opts, size, problems)
  local can = size.tier.kind == "ram" and not hw.gpu
  if opts.load == "map" and not can then
    problems[#problems + 1] = ("--set: load: want copy for %s, got map"):format(
      hw.gpu and "a machine with a GPU" or "tier=" .. size.tier.kind)
  end
  size.load_map = can and opts.load ~= "copy" and 1 or 0
end

--- @param batch integer?  rows of a batch where none were asked for (gen/plan_batch.lua)
--- @return table? size, table? mem, table notes   (no size: `problems` says why)
function M.plan(m, hw, formats, layout, opts, problems, trace, batch)
  local size, notes = wanted_of(m, hw, formats, opts, batch), {}
  local before = #problems
  check_options(m, size, problems)
  if #problems > before then return nil, nil, notes end

  local wanted = size.ctx
  local mem, why = place(m, hw, formats, layout, opts, size, trace, notes)
  if not mem then
    problems[#problems + 1] = why
    return nil, nil, notes
  end
  choose_load(hw, opts, size, problems)
  if size.ctx < wanted then
    notes[#notes + 1] = ("context reduced from %d to %d positions to fit %s of usable RAM")
      :format(wanted, size.ctx, num.human(hw.ram_usable))
  end
  if size.ctx > m.n_ctx_train then
    notes[#notes + 1] = ("context of %d positions is beyond the %d the model was trained for")
      :format(size.ctx, m.n_ctx_train)
  end
  return size, mem, notes
end

return M

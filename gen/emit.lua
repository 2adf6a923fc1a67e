-- gen/emit.lua -- plan + templates -> the files of out/<id>/.
--
-- The view is what templates may look up: numbers of the plan, spelled as C.

local c = require "gen.c"
local dump = require "gen.dump"
local explain = require "gen.explain"
local families = require "gen.families"
local hash = require "gen.hash"
local model = require "gen.model"
local quant = require "gen.quant"
local template = require "gen.template"

local M = {}

--- The hash that ties a source tree to a binary: inputs, options in force, generator, templates.
--- @param modules, templates table  lists of { path, text }, in the order of gen/sources.lua
function M.plan_hash(plan, modules, templates)
  local parts = {
    dump.text { model = plan.model, hw = plan.hw, size = plan.size, formats = plan.formats,
                model_id = plan.model_id, hw_id = plan.hw_id,
                model_file = plan.model_file, hw_file = plan.hw_file },
  }
  for _, list in ipairs { modules, templates } do
    for _, file in ipairs(list) do
      parts[#parts + 1] = ("%s %d\n"):format(file.path, #file.text)
      parts[#parts + 1] = file.text
    end
  end
  return hash.hex(hash.fnv1a64(table.concat(parts)))
end

local function mat(m)
  return ("{ .off = %s, .stride = %d, .rows = %d, .cols = %d, .fmt = %s }")
    :format(c.u64(m.off), m.stride, m.rows, m.cols, quant.by_name[m.fmt].enum)
end

local function layer_rows(plan)
  local rows, family = {}, families.by_name[plan.model.family]
  local matrices = model.layer_matrices(plan.model)
  for i, layer in ipairs(plan.layout.layers) do
    local row = { index = i - 1, mixer = family.mixer, ffn = family.ffn, window = plan.model.window,
                  mixer_norm = c.u64(layer.mixer_norm), ffn_norm = c.u64(layer.ffn_norm),
                  expert_off = c.u64(layer.expert_off), expert_stride = c.u64(layer.expert_stride),
                  mats = {} }
    for k, of in ipairs(matrices) do row.mats[k] = { name = of.role, value = mat(layer[of.role]) } end
    rows[i] = row
  end
  return rows
end

local function name_list(names)
  local quoted = {}
  for i, name in ipairs(names) do quoted[i] = c.str(name) end
  return table.concat(quoted, ", ")
end

local function source_rows(plan)
  local rows = {}
  for i, source in ipairs(families.by_name[plan.model.family].sources) do
    rows[i] = { role = "IG_ROLE_" .. source.role, hf = name_list(source.hf),
                gguf = name_list(source.gguf), rope_pairs = source.rope_pairs and 1 or 0 }
  end
  return rows
end

local function regions(list)
  local rows = {}
  for i, r in ipairs(list) do
    rows[i] = { name = r.name, label = c.str(r.name:lower()), bytes = c.u64(r.bytes), off = c.u64(r.off),
                pad = (" "):rep(8 - #r.name) }
  end
  return rows
end

local function in_use(list)
  local used = {}
  for _, r in ipairs(list) do
    if r.bytes > 0 then used[#used + 1] = r end
  end
  return used
end

-- Each buffer in use and where the next one starts, for the asserts.
local function neighbours(used)
  local rows = {}
  for i, r in ipairs(used) do
    local after = used[i + 1]
    rows[i] = {
      stop = ("IG_MEM_%s_OFF + IG_MEM_%s_BYTES"):format(r.name, r.name),
      next_off = after and ("IG_MEM_%s_OFF"):format(after.name) or "IG_MEM_BYTES",
      text = c.str(("%s, then %s"):format(r.name, after and after.name or "the end")),
    }
  end
  return rows
end

local function text_lines(text)
  local rows = {}
  for line in text:gmatch("[^\n]*\n") do rows[#rows + 1] = c.str(line) end
  return rows
end

local function gpu_view(plan)
  local cache, device, gpu = plan.cache, plan.device, plan.hw.gpu
  if not cache then return nil end
  return {
    resident = device ~= nil, device = device, vram_bw = c.u64(gpu.vram_bw),
    defines = device and "-D" .. table.concat(device.defines, " -D"), sm = gpu.arch,
    sets = cache.sets, ways = cache.ways, slot_bytes = c.u64(cache.slot_bytes), bytes = c.u64(cache.bytes),
    vram_bytes = c.u64(device and device.bytes or cache.vram_bytes),
    usable = c.u64(gpu.vram - gpu.vram_reserve), arch = c.str(gpu.arch),
    regions = regions(device and device.regions or cache.regions), stride_rows = c.rows(plan.strides),
  }
end

--- Everything a template may name.
function M.view(plan, plan_hash)
  local m, layout, mem, size = plan.model, plan.layout, plan.mem, plan.size
  local used = in_use(mem.regions)
  return {
    model_file = plan.model_file, hw_file = plan.hw_file, plan_hash = plan_hash,
    m = m, size = size, mem = mem,
    kv_enum = quant.by_name[size.kv].enum, kv_id = quant.by_name[size.kv].id,
    kv_bytes = size.kv == "f32" and 4 or 2,
    norm_eps = c.f32(m.norm_eps), rope_theta = c.f32(m.rope_theta),
    attn_scale = c.f32(1 / math.sqrt(m.head_dim)), tps = c.f32(plan.rate.tps),
    data_bytes = c.u64(layout.data_bytes), resident_bytes = c.u64(layout.resident_bytes),
    token_bytes = c.u64(layout.token_bytes), mem_bytes = c.u64(mem.bytes),
    thread_bytes = c.u64(mem.thread_bytes), mem_bw = c.u64(plan.hw.mem_bw),
    layout_hash = c.hex64(layout.hash), layout_text = c.str(layout.text),
    model_id = c.str(plan.model_id), hw_id = c.str(plan.hw_id), plan_hash_str = c.str(plan_hash),
    kernels = plan.kernels, kernel_isas = table.concat(plan.kernels.builds, " "),
    regions = regions(mem.regions), used = regions(used), n_region = #used,
    neighbours = neighbours(used),
    layers = layer_rows(plan), sources = source_rows(plan),
    token_embd = mat(layout.token_embd), output = mat(layout.output),
    output_norm_off = c.u64(layout.output_norm_off), last_expert_end = c.u64(layout.data_bytes),
    plan_text = text_lines(explain.text(plan, plan_hash)),
    gpu = gpu_view(plan), needs_gpu = plan.cache and 1 or 0, on_device = plan.device and 1 or 0,
    id = plan.id, binary = plan.model_id,
  }
end

--- @param templates table  list of { path, text }, templates/NAME in the order of gen/sources.lua
--- @return table files     list of { name, text } for out/<id>/
function M.files(plan, plan_hash, templates)
  local view, files = M.view(plan, plan_hash), {}
  for i, t in ipairs(templates) do
    view.template_file = t.path
    files[i] = { name = t.path:match("[^/]+$"), text = template.render(t.path, t.text, view) }
  end
  return files
end

--- out/active.mk: what `make` builds.
function M.active(plan)
  return ("ID := %s\n"):format(plan.id)
end

--- The report of --explain.
M.explain = explain.text

--- Every number of the plan, one a line.
function M.dump(plan, plan_hash)
  return "plan_hash = " .. plan_hash .. "\n" .. dump.text(plan)
end

return M

-- gen/emit.lua -- plan + templates -> the files of out/<id>/.
--
-- The view is what templates may look up: numbers of the plan, spelled as C.

local c = require "gen.c"
local checkpoint = require "gen.checkpoint"
local dump = require "gen.dump"
local emit_predict = require "gen.emit_predict"
local emit_facts = require "gen.emit_facts"
local explain = require "gen.explain"
local families = require "gen.families"
local hash = require "gen.hash"
local plan_bias = require "gen.plan_bias"
local plan_mem = require "gen.plan_mem"
local plan_rope = require "gen.plan_rope"
local plan_tier = require "gen.plan_tier"
local quant = require "gen.quant"
local shape = require "gen.shape"
local template = require "gen.template"

local M = {}

--- The hash that ties a source tree to a binary: inputs, options in force, generator, templates.
--- @param modules, templates table  lists of { path, text }, in the order of gen/sources.lua
function M.plan_hash(plan, modules, templates)
  local parts = {
    dump.text { model = plan.model, hw = plan.hw, size = plan.size, formats = plan.formats,
                model_id = plan.model_id, hw_id = plan.hw_id,
                model_file = plan.model_file, hw_file = plan.hw_file, predict = plan.predict and plan.predict.digest },
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
  return ("{ .off = %s, .bias = %s, .stride = %d, .rows = %d, .cols = %d, .fmt = %s }")
    :format(c.u64(m.off), c.u64(m.bias), m.stride, m.rows, m.cols, quant.by_name[m.fmt].enum)
end

-- A window of m.window positions, but for every window_every-th layer.
local function window_of(m, layer)
  return m.window_every > 0 and layer % m.window_every == 0 and 0 or m.window
end

local function layer_rows(plan)
  local rows, m = {}, plan.model
  local mixer = families.by_name[m.family].mixer
  for i, layer in ipairs(plan.layout.layers) do
    local row = { index = i - 1, mixer = mixer, window = window_of(m, i), fields = {},
                  ffn = shape.is_dense(m, i) and "IG_FFN_DENSE" or "IG_FFN_MOE", n_expert = layer.n_expert,
                  expert_off = c.u64(layer.expert_off), expert_stride = c.u64(layer.expert_stride) }
    for k, item in ipairs(shape.layer_items(m, i)) do
      row.fields[k] = { name = item.role, value = item.n and c.u64(layer[item.role]) or mat(layer[item.role]) }
    end
    rows[i] = row
  end
  return rows
end

local function name_rows(list)
  local rows = {}
  for i, a in ipairs(list) do
    local text = ".name = " .. c.str(a.name)
    if a.slice then
      local s = a.slice
      text = text .. (", .group = %d, .from = %d, .count = %d, .step = %d"):format(s.group, s.from or 0, s.count,
        s.step or 1)
      if s.transpose then text = text .. (", .cols = %d"):format(s.cols) end
    end
    if a.stack then text = text .. ", .stack = IG_STACK_" .. a.stack end
    if a.paired then text = text .. (", .pair_period = %d, .pair_from = %d"):format(a.paired.period, a.paired.from) end
    rows[i] = "{ " .. text .. " },"
  end
  return rows
end

local function source_rows(plan)
  local rows = {}
  for i, source in ipairs(checkpoint.of(families.by_name[plan.model.family], plan.model)) do
    rows[i] = { role = "IG_ROLE_" .. source.role, hf = name_rows(source.hf), gguf = name_rows(source.gguf) }
  end
  return rows
end

local function floats(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = c.f32(x) end
  return out
end

local function row_tables(lists)
  for i, list in ipairs(lists) do lists[i] = { rows = c.rows(list) } end
  return lists
end

-- Rotary tables, and the switches that the compiler folds away.
local function arithmetic(m)
  local rope, freqs = plan_rope.plan(m), {}
  for i, freq in ipairs(rope.tables) do freqs[i] = floats(freq) end
  local function up(word) return word:upper() end
  return {
    norm = "IG_NORM_" .. up(m.norm), qk_norm = "IG_QK_NORM_" .. up(m.qk_norm), act = "IG_ACT_" .. up(m.act),
    router = "IG_ROUTER_" .. up(m.router), routed = m.n_expert > 0 and 1 or 0,
    route_norm = m.route_norm and 1 or 0,
    shared_gate = m.shared_gate and 1 or 0, route_scale = c.f32(m.route_scale), jitter = c.f32(m.router_jitter),
    act_limit = c.f32(m.act_limit), qkv_clip = c.f32(m.qkv_clip), embd_scale = c.f32(m.embd_scale),
    residual_scale = c.f32(m.residual_scale), logit_scale = c.f32(m.logit_scale),
    latent_eps = c.f32(m.latent_eps), attn_scale = c.f32(plan_rope.attn_scale(m)),
    n_rope = #rope.tables, rope_switch = rope.switch, rope_scales = table.concat(floats(rope.scales), ", "),
    rope_tables = row_tables(freqs), n_ff_aside = plan_mem.aside(m), kv_layers = plan_mem.kv_layers(m),
    rel_buckets = m.n_rel_bucket > 0 and row_tables(plan_bias.plan(m)),
    q_lora = m.q_lora, kv_lora = m.kv_lora or 0, nope_dim = m.nope_dim or 0, v_dim = m.v_dim or m.head_dim,
  }
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
      text = c.str(("%s, then %s"):format(r.name, after and after.name or "the end")) }
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
    resident = not device.cached, device = device, vram_bw = c.u64(gpu.vram_bw),
    defines = "-D" .. table.concat(device.defines, " -D"), sm = device.fast.code,
    sets = cache.sets, ways = cache.ways, slot_bytes = c.u64(cache.slot_bytes),
    bytes = c.u64(cache.bytes), vram_bytes = c.u64(device.bytes),
    fade = cache.fade and c.f32(cache.fade), fade_slow = cache.fade and c.f32(cache.fade_slow),
    usable = c.u64(device.usable), arch = c.str(gpu.arch),
    regions = regions(device.regions),
  }
end

local IO = { auto = 0, direct = 1, cached = 2, plain = 3 }

local function tier_view(plan)
  local t = plan.size.tier
  local view = { id = plan_tier.KINDS[t.kind], disk = t.kind == "disk" }
  if not view.disk then return view end
  for _, key in ipairs { "n_slot", "n_spare", "n_set", "piece_bytes", "depth", "prefetch_depth", "policy_c",
                         "predict_next" } do view[key] = t[key] end
  view.slot_bytes, view.hit = c.u64(t.slot_bytes), c.f32(t.hit)
  view.predict_why, view.io = c.str(t.predict_why), IO[t.io]
  view.predict = t.predictor ~= "none" and emit_predict.view(plan)
  local strides = {}
  for l, s in ipairs(t.strides) do strides[l] = ("{ %d, %d, %d }"):format(table.unpack(s)) end
  view.set_of, view.first, view.strides = c.rows(t.set_of), c.rows(t.first), c.rows(strides)
  return view
end

--- Everything a template may name.
function M.view(plan, plan_hash)
  local m, layout, mem, size = plan.model, plan.layout, plan.mem, plan.size
  local used, on_cache = in_use(mem.regions), plan.device and plan.device.cached
  local hot = size.tier.hot or on_cache and plan.cache.hot and floats(plan.cache.hot)
  return {
    model_file = c.remark(plan.model_file), hw_file = c.remark(plan.hw_file), plan_hash = plan_hash,
    m = m, size = size, mem = mem,
    kv_enum = quant.by_name[size.kv].enum, kv_id = quant.by_name[size.kv].id,
    kv_part_bytes = c.u64(mem.kv_part_bytes),
    norm_eps = c.f32(m.norm_eps), a = arithmetic(m), tps = c.f32(plan.rate.tps),
    data_bytes = c.u64(layout.data_bytes), resident_bytes = c.u64(layout.resident_bytes),
    input_row_bytes = layout.input_row_bytes and c.u64(layout.input_row_bytes) or nil,
    input_bytes = layout.input_bytes and c.u64(layout.input_bytes) or nil,
    token_bytes = c.u64(layout.token_bytes), mem_bytes = c.u64(mem.bytes),
    thread_bytes = c.u64(mem.thread_bytes), own_bytes = c.u64(mem.own_bytes),
    spare_bytes = c.u64(mem.spare_bytes), mem_bw = c.u64(plan.hw.mem_bw),
    layout_hash = c.hex64(layout.hash), layout_text = c.str(layout.text),
    model_id = c.str(plan.model_id), hw_id = c.str(plan.hw_id), plan_hash_str = c.str(plan_hash),
    kernels = plan.kernels,
    regions = regions(mem.regions), used = regions(used), n_region = #used,
    neighbours = neighbours(used),
    layers = layer_rows(plan), sources = source_rows(plan), facts = emit_facts.rows(m),
    token_embd = mat(layout.token_embd), output = mat(layout.output),
    output_norm = c.u64(layout.output_norm), output_norm_bias = c.u64(layout.output_norm_bias or 0),
    enc_norm = c.u64(layout.enc_norm or 0),
    plan_text = text_lines(explain.text(plan, plan_hash)), tier = tier_view(plan),
    disk_bw = c.u64(math.floor(plan.hw.disk_bw)), binary = plan.model_id,
    gpu = gpu_view(plan), on_device = plan.device and 1 or 0,
    tiles = plan.device and plan.device.tile_rows > 0 and 1 or 0,
    gemm_fast = plan.device and plan.device.fast.gemm_fast or 0, kv_q8 = plan.size.kv == "q8_0" and 1 or 0,
    flashes = plan.device and plan.device.fast.flashes or 0,
    on_unified = plan.device and plan.device.mapped > 0 and 1 or 0,
    on_cache = on_cache and 1 or 0, id = plan.id, hot = hot and c.rows(hot),
    on_static = on_cache and plan.cache.policy == "static" and 1 or 0,
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

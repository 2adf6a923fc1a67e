-- gen/plan_device.lua -- the work on a device: its memory and its kernels' sizes.
--
-- The map is one allocation: the weights as they lie in the file, KV, and the
-- buffers of a batch.  When that is more than the VRAM has, the experts stay in
-- RAM and the device has a cache of them (gen/plan_cache.lua).

local c = require "gen.c"
local device_kinds = require "gen.device_kinds"
local num = require "gen.num"
local plan_cache = require "gen.plan_cache"
local plan_mem = require "gen.plan_mem"
local plan_rope = require "gen.plan_rope"
local quant = require "gen.quant"

local M = {}

M.ROWS = 8            -- activation rows that a block of a batch takes at once
-- Rows of a batch from which its matrices go to the matrix units, and attention goes by tiles: assumed;
-- `run.sh thresholds` of a bundle measures where they cross, `--set gemm_rows=`, `tile_rows=` state others.
M.GEMM_ROWS = 32
M.TILE_ROWS = 32
M.LEAST_ARCH = 80     -- asynchronous copies into shared memory
-- V of one span and slice lies in shared memory: 1024 positions of so many bytes.  Wide slices
-- read K less often, but take 128 KiB, which chips for servers have.
M.SLICE_BYTES = 64
M.SLICE_BYTES_SERVER = 128
M.SERVER = { sm_80 = true, sm_90 = true, sm_100 = true, sm_103 = true }
-- Query heads of a block.  Measured on an H200: 1 beats 2 by 5 % of a token's time and 4 by 13 %.
M.ATTN_HEADS = 1
M.EMBD_MOST = 8192    -- a normed row, as floats and as int8 blocks, in 48 KiB of shared memory

local F32 = 4
local KV_BYTES = { f32 = 4, f16 = 2, q8_0 = 2 } -- V of Q8_0 is read where it is: any width does

-- Heads that kernels/cuda/tile.cu has tiles for.  A tile's q has 4 values more a dimension, so that
-- writing it meets no bank twice, where a block may have more than 99 KiB.
function M.tiled(m, kv) return not m.kv_lora and kv ~= "q8_0" and m.head_dim % 16 == 0 and m.head_dim <= 128 end

-- The largest power of two that divides a head and keeps a slice small.
local function slice(m, hw, kv)
  local bytes = M.SERVER[hw.gpu.arch] and M.SLICE_BYTES_SERVER or M.SLICE_BYTES
  local n = 1
  while n < bytes // KV_BYTES[kv] and (m.kv_lora or m.head_dim) % (2 * n) == 0 do n = 2 * n end
  return n
end

local SHARED_WITH_HOST = { "DATA", "KV", "ROPE", "X", "XN", "XQ", "Q", "K", "V", "AO", "AOQ", "RL", "TOPK",
                           "H", "HQ", "GATE", "LN", "LNQ", "QA", "QH", "KVA", "AL", "ENC", "BIAS" }
M.COUNTS = 14 -- of a layer: enum ig_dcount of kernels/cuda/args.h
M.SPLIT_MORE = 8 -- words behind the split, IG_SPLIT_MORE there

-- What a decode step with a cache of experts needs beside the slots.
local function cache_buffers(m)
  return { -- tables twice, for steps to use in turn; COUNT: counters, the step, the split, fills arrived and begun
    { "WAY",    2 * m.n_layer * m.n_expert * 4 }, { "FILL", 2 * m.n_layer * m.n_expert * 4 },
    { "USE",    2 * m.n_layer * m.n_expert * F32 },
    { "VICTIM", 2 * m.n_layer * (2 * m.n_expert_used + 1) * 4 },
    { "COUNT",  (M.COUNTS * m.n_layer + 1 + m.n_expert_used + M.SPLIT_MORE + 4 + 4 * m.n_layer) * 4 },
    -- logits of later layers' routers; what was recorded in their place
    { "GUESS",  2 * ((m.n_expert + 15) // 16 * 16) * F32 + 2 * m.n_layer * m.n_expert_used * 4 },
  }
end

local function buffers(m, size, mem, layout, device)
  local bytes = {}
  for _, r in ipairs(mem.regions) do bytes[r.name] = r.bytes end
  -- Whatever part of it RAM has; where both are one memory, none beside RAM's.
  bytes.DATA = device.mapped > 0 and 0 or device.cached and layout.resident_bytes or layout.data_bytes
  local rows, picked = size.batch, size.batch * m.n_expert_used
  local slices = (m.kv_lora or m.head_dim) // device.attn_slice
  -- Larger batches go by tiles, where a head's size allows it (IG_TILED).
  local part_rows = device.tile_rows > 0 and math.min(rows, device.tile_rows - 1) or rows
  local list = {}
  for _, name in ipairs(SHARED_WITH_HOST) do
    if bytes[name] then list[#list + 1] = { name, bytes[name] } end
  end
  local own = {
    { "BATCH",   (4 * rows + size.logit_rows) * 4 },
    { "PART",    part_rows * m.n_head * slices * mem.n_span * (2 + device.attn_slice) * F32 },
    { "ARRIVED", part_rows * (m.n_head // device.attn_heads) * slices * 4 },
    { "ROUTE",   (1 + 3 * (picked // M.ROWS + m.n_expert + 1) + picked) * 4 },
    { "Y",       (picked + (plan_mem.aside(m) > 0 and rows or 0)) * m.n_embd * F32 },
    { "FORCED",  (1 + 2 * picked * m.n_layer) * 4 },
    { "INPUT",   m.n_layer_enc > 0 and (1 + 4 * size.ctx) * 4 or 0 },
  }
  table.move(own, 1, #own, #list + 1, list)
  if not device.cached then return list end
  local more = cache_buffers(m)
  return table.move(more, 1, #more, #list + 1, list)
end

local function regions(list)
  local at, placed = 0, {}
  for i, buffer in ipairs(list) do
    local name, bytes = buffer[1], buffer[2]
    placed[i] = { name = name, off = bytes > 0 and at or 0, bytes = bytes }
    at = at + num.align_up(bytes, plan_mem.ALIGN)
  end
  return placed, at
end

-- Every format that a list of roles has, as bits of enum ig_fmt.
local function format_set(formats, roles)
  local set = 0
  for _, role in ipairs(roles) do
    if formats[role] then set = set | 1 << quant.by_name[formats[role]].id end
    for _, layer in ipairs(formats.layers) do
      if layer[role] then set = set | 1 << quant.by_name[layer[role]].id end
    end
  end
  return set
end

-- The model's arithmetic: a switch is on where a field has a value; the fields that are numbers.
local SWITCHES = {
  { "NORM_LAYER", "norm", "layer" }, { "QK_NORM_HEAD", "qk_norm", "head" }, { "QK_NORM_FULL", "qk_norm", "full" },
  { "ACT_OAI", "act", "swiglu_oai" }, { "ACT_RELU", "act", "relu" }, { "ROUTE_SIGMOID", "router", "sigmoid" },
  { "ROUTE_SPARSEMIXER", "router", "sparsemixer" }, { "ROUTE_NORM", "route_norm", true },
  { "SHARED_GATE", "shared_gate", true },
}
local FLOATS = { "norm_eps", "embd_scale", "residual_scale", "logit_scale", "qkv_clip", "act_limit",
                 "route_scale", "router_jitter", "latent_eps" }

-- What kernels/cuda/shape.h wants to know, as NAME=VALUE.
local function defines(m, formats, size, mem, device)
  local list = {
    { "N_EMBD", m.n_embd }, { "N_HEAD", m.n_head }, { "N_HEAD_KV", m.n_head_kv },
    { "HEAD_DIM", m.head_dim }, { "N_FF", m.n_ff }, { "N_EXPERT", m.n_expert },
    { "N_EXPERT_USED", m.n_expert_used }, { "N_VOCAB", m.n_vocab }, { "N_ROW", size.batch },
    { "GEMM_FAST", device.gemm_fast }, { "N_WAY", device.n_way },
    { "N_SEQ_BLOCK", mem.n_kv_block // mem.n_seq }, { "N_SPAN", mem.n_span },
    { "SPAN_BLOCKS", mem.span_blocks }, { "KV_FMT", quant.by_name[size.kv].id },
    { "TILE_PAD", device.tile_pad }, { "ATTN_HEADS", device.attn_heads }, { "ATTN_SLICE", device.attn_slice },
    { "N_LAYER", m.n_layer }, { "ROPE_DIM", m.rope_dim }, { "N_FF_ASIDE", plan_mem.aside(m) },
    { "FMT_EMBD", format_set(formats, { "token_embd" }) },
    { "FMT_QKV", format_set(formats, m.q_lora > 0 and m.kv_lora and { "q_a", "kv_a" }
      or { "q", "k", "v", "kv_a", "cross_q", "cross_k", "cross_v" }) },
    { "KV_LORA", m.kv_lora or 0 }, { "Q_LORA", m.kv_lora and m.q_lora or 0 },
    { "NOPE_DIM", m.nope_dim or 0 }, { "V_DIM", m.v_dim or 0 },
    { "FMT_Q_B", m.q_lora > 0 and format_set(formats, { "q" }) or 0 },
    { "FMT_K_B", format_set(formats, { "k_b" }) }, { "FMT_V_B", format_set(formats, { "v_b" }) },
    { "N_ROUTE_GROUP", m.n_route_group }, { "N_ROUTE_GROUP_USED", m.n_route_group_used },
    { "ROUTE_GROUP_TOP", m.route_group_top },
    { "FMT_O", format_set(formats, { "o", "cross_o" }) },
    { "N_LAYER_ENC", m.n_layer_enc }, { "N_REL_BUCKET", m.n_rel_bucket }, { "N_CTX", size.ctx },
    { "FMT_ROUTER", format_set(formats, { "router" }) },
    { "FMT_GATE_UP", format_set(formats, { "gate", "up", "dense_gate", "dense_up" }) },
    { "FMT_DOWN", format_set(formats, { "down", "dense_down" }) },
    { "FMT_OUTPUT", format_set(formats, { "output" }) },
  }
  local defs = {}
  for i, d in ipairs(list) do defs[i] = ("%s=%d"):format(d[1], d[2]) end
  for _, switch in ipairs(SWITCHES) do
    defs[#defs + 1] = ("%s=%d"):format(switch[1], m[switch[2]] == switch[3] and 1 or 0)
  end
  for _, name in ipairs(FLOATS) do defs[#defs + 1] = name:upper() .. "=" .. c.f32(m[name]) end
  defs[#defs + 1] = "ATTN_SCALE=" .. c.f32(plan_rope.attn_scale(m))
  return defs
end

-- Roles whose BF16 matrices gemm=fast multiplies on the matrix units.
M.FAST_ROLES = { "q", "q_a", "kv_a", "k", "v", "o", "gate", "up", "down", "dense_gate", "dense_up", "dense_down" }

-- Why gemm=fast cannot be.
local function not_fast(m, formats)
  if format_set(formats, M.FAST_ROLES) & 1 << quant.by_name.bf16.id == 0 then
    return "--set: gemm: fast is for matrices in bf16, and this plan has none"
  end
  local o_cols = m.n_head * (m.kv_lora and m.v_dim or m.head_dim)
  for _, cols in ipairs { m.n_embd, m.n_ff, m.n_ff_dense, m.n_ff_shared, o_cols, m.kv_lora and m.q_lora or 0 } do
    if cols % 32 ~= 0 then
      return ("--set: gemm: fast wants rows of whole blocks of 32 values, got %d"):format(cols)
    end
  end
end

-- What the kernels cannot do, as reasons.
local function refusals(m, hw)
  local reasons = { device_kinds.refusal(m) }
  if tonumber(hw.gpu.arch:match("%d+")) < M.LEAST_ARCH then
    reasons[#reasons + 1] = ("gpu: want an architecture of sm_%d or newer, got %s"):format(M.LEAST_ARCH, hw.gpu.arch)
  end
  if m.n_embd > M.EMBD_MOST or m.n_embd % 4 ~= 0 then
    reasons[#reasons + 1] = ("gpu: want a width of at most %d that 4 divides, got %d"):format(M.EMBD_MOST, m.n_embd)
  end
  return reasons
end

--- @param m       table  a checked model
--- @param hw      table  a checked profile with a GPU
--- @param formats table  of gen/formats.lua
--- @param size    table  of gen/plan_size.lua
--- @param arena   table  of gen/plan_mem.lua
--- @param layout  table  of gen/plan_layout.lua
--- @param opts    table  of gen/options.lua
--- @param reasons table  why the kernels cannot run what would fit, added to
--- @param trace   table?  of gen/trace.lua
--- @return table? device, table? cache   (the cache too when everything is resident: what it would be)
function M.plan(m, hw, formats, size, arena, layout, opts, reasons, trace)
  local mem = arena
  local device = { attn_slice = slice(m, hw, size.kv), attn_heads = M.ATTN_HEADS, rows = M.ROWS,
                   n_way = 0,
                   gemm_rows = opts.gemm_rows or M.GEMM_ROWS,
                   tile_rows = M.tiled(m, size.kv) and (opts.tile_rows or M.TILE_ROWS) or 0,
                   tile_pad = M.SERVER[hw.gpu.arch] and 4 or 0,
                   gemm_fast = opts.gemm == "fast" and 1 or 0, mapped = hw.gpu.unified and layout.data_bytes or 0 }
  device.usable = hw.gpu.vram - hw.gpu.vram_reserve
  if opts.vram and opts.vram < device.usable then device.usable = opts.vram end
  device.regions, device.bytes = regions(buffers(m, size, mem, layout, device))
  local beyond = device_kinds.not_unified(device, opts) or device_kinds.not_dense(m, device, opts)
  if beyond then
    reasons[#reasons + 1] = beyond
    return nil
  end
  -- Ways that were asked for are a cache even where all experts would fit.
  if device.bytes + device.mapped > device.usable or opts.vram_ways then
    device.cached = true
    device.regions, device.bytes = regions(buffers(m, size, mem, layout, device))
    mem = { kv_bytes = 0, work_bytes = device.bytes - layout.resident_bytes }
  end
  local cache, why = plan_cache.NONE, device_kinds.not_policy(device, opts)
  if why then
    cache = nil
  elseif m.n_expert > 0 then
    cache, why = plan_cache.plan(m, hw, layout, mem, device.usable, opts, trace)
  end
  if not cache then
    reasons[#reasons + 1] = why
    return nil
  end
  if device.cached then
    local narrow = device_kinds.no_passage(layout, cache)
    if narrow then
      reasons[#reasons + 1] = narrow
      return nil
    end
    device.n_way = cache.ways
    table.insert(device.regions, { name = "SLOTS", off = device.bytes, bytes = cache.bytes })
    device.bytes = device.bytes + cache.bytes
  end
  local bad = refusals(m, hw)
  if opts.gemm == "fast" then bad[#bad + 1] = not_fast(m, formats) end
  table.move(bad, 1, #bad, #reasons + 1, reasons)
  if #bad > 0 then return nil end
  device.defines = defines(m, formats, size, arena, device)
  return device, cache
end

return M

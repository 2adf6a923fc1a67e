-- gen/plan_mem.lua -- the arena: one mapping, every buffer's offset and bytes.
--
-- docs/ARCHITECTURE.md, "The arena", says what each buffer holds; the formulas
-- below are that table.

local formats_of = require "gen.formats"
local num = require "gen.num"
local plan_tier = require "gen.plan_tier"
local quant = require "gen.quant"

local M = {}

M.ALIGN = 4096
M.KV_BLOCK = 64       -- positions in a KV block: IG_KV_BLOCK of kernels.h
M.SPAN_BLOCKS = 16    -- KV blocks that one thread folds: 1024 positions
M.PART_ROW = 4        -- batches up to this split attention over spans
M.N_SEQ = 1
-- The binary, its stacks and the tokenizer, which live outside the arena.
M.OUTSIDE_BYTES = 64 << 20

-- What reads normed rows of the residual stream.
M.NORM_READERS = { "q", "k", "v", "q_a", "kv_a", "router", "gate", "up", "dense_gate", "dense_up",
                   "cross_q", "cross_k", "cross_v" }
M.GROUP_MOST = 4

local F32 = 4

--- Counts that follow from the context length.
function M.counts(ctx)
  local blocks = num.ceil_div(ctx, M.KV_BLOCK)
  return { n_kv_block = M.N_SEQ * blocks, n_span = num.ceil_div(blocks, M.SPAN_BLOCKS) }
end

--- Bytes of K, or of V, of one KV head in a block: that many standard rows.
function M.kv_part_bytes(m, kv)
  return M.KV_BLOCK * quant.row_bytes(kv, m.head_dim)
end

--- Layers that the KV cache holds: the encoder's share one, the decoder's have two each.
function M.kv_layers(m)
  return m.n_layer_enc > 0 and 1 + 2 * (m.n_layer - m.n_layer_enc) or m.n_layer
end

local function up16(n)
  return num.align_up(n, 16)
end

-- Query heads that one item of attention folds at once: those that share a KV head, or a
-- part of them where all share one (latent attention), so that decode has enough items.
function M.attn_group(m)
  local group = m.n_head // m.n_head_kv
  while m.kv_lora and group > M.GROUP_MOST and group % 2 == 0 do group = group // 2 end
  return group
end

--- Width of the widest dense block.
function M.aside(m) return math.max(m.n_ff_dense, m.n_ff_shared) end

-- Rows of expert work in a batch: each row's experts, and one dense block.
local function slots(m, size)
  return size.batch * (m.n_expert_used + (M.aside(m) > 0 and 1 or 0))
end

-- What one item of expert work keeps on the way: 32 hidden values of each row of a batch,
-- or the sums of a single row's whole output; before that, a group's queries as int8 blocks.
function M.spare_bytes(m, size)
  -- A predictor norms a row, and makes blocks of it.
  local ahead = size.tier and size.tier.predict_next == 1
  return math.max(size.batch * quant.BLOCK * F32, up16(m.n_embd) * F32,
    quant.is_block(size.kv) and quant.xq_bytes(M.attn_group(m) * m.head_dim) or 0,
    ahead and m.n_embd * F32 + quant.xq_bytes(m.n_embd) or 0)
end

-- A single row's normed values and their int8 blocks, of which each thread has its own.
local function own_bytes(m)
  return num.align_up(m.n_embd * F32 + quant.xq_bytes(num.align_up(m.n_embd, quant.BLOCK)), 64)
end

-- Scratch of one thread: a row of its own, gate and up of a batch's rows and their row list, two
-- running softmax states, and the spare room above.
local function thread_bytes(m, size)
  local rows = slots(m, size)
  local bytes = own_bytes(m) + rows * quant.PANEL_ROWS * F32 * 2 + rows * 8
    + 2 * M.attn_group(m) * (m.head_dim + 2) * F32 + M.spare_bytes(m, size)
  return num.align_up(bytes, M.ALIGN)
end

-- Activations between a block's two halves: of each row's experts, then of the dense block.
local function hidden_bytes(m, formats, rows, block, of)
  if not formats_of.any(formats, { "down", "dense_down" }, block) then return 0 end
  local wide, aside = num.align_up(m.n_ff, quant.BLOCK), num.align_up(M.aside(m), quant.BLOCK)
  return rows * (m.n_expert_used * of(wide) + of(aside))
end

-- Latent attention's extra rows: the query's latent, its heads, the new key, the heads' results.
local function latent_buffers(m, formats, rows)
  if not m.kv_lora then return {} end
  local head, xq = m.nope_dim + m.rope_dim, quant.xq_bytes
  local function row(n, blocks)
    return rows * (num.align_up(n, 16) * F32 + (blocks and xq(num.align_up(n, quant.BLOCK)) or 0))
  end
  local function blocks(role) return formats_of.any(formats, { role }, true) end
  return {
    { "QA",  m.q_lora > 0 and row(m.q_lora, blocks "q") or 0 },
    { "QH",  row(m.n_head * head) },
    { "QHQ", blocks "k_b" and rows * m.n_head * xq(m.nope_dim) or 0 },
    { "KVA", row(m.kv_lora + m.rope_dim) },
    { "AL",  row(m.n_head * m.head_dim) },
    { "ALQ", blocks "v_b" and rows * m.n_head * xq(m.kv_lora) or 0 },
  }
end

-- The encoder's rows, and each stack's bias by distance: of every head, from the farthest key before
-- a query to the farthest behind it, and a block more, since blocks are read whole.
local function encoder_buffers(m, size)
  if m.n_layer_enc == 0 then return {} end
  return {
    { "ENC",  size.ctx * m.n_embd * F32 },
    { "BIAS", 2 * m.n_head * (2 * size.ctx + M.KV_BLOCK) * F32 },
  }
end

--- Every buffer's bytes, in arena order.
local function buffers(m, formats, layout, size)
  local n, rows = M.counts(size.ctx), size.batch
  local qd, kvd = m.n_head * m.head_dim, m.n_head_kv * m.head_dim
  local od, picked = m.n_head * (m.v_dim or m.head_dim), rows * m.n_expert_used
  local n_rope = m.rope and m.rope.type == "longrope" and 2 or 1
  local function when(condition, bytes) return condition and bytes or 0 end
  local norm_blocks = formats_of.any(formats, M.NORM_READERS, true)
  local xq = quant.xq_bytes
  local tier = size.tier or plan_tier.RAM
  local held = tier.kind == "disk" and tier.n_slot + tier.n_spare or 0
  local waves = tier.kind == "disk" and tier.waves
  local predicts = tier.kind == "disk" and tier.predictor ~= "none"

  local list = {
    { "DATA",   tier.kind == "ram" and layout.data_bytes or layout.resident_bytes },
    { "KV",     M.kv_layers(m) * n.n_kv_block * m.n_head_kv * 2 * M.kv_part_bytes(m, size.kv) },
    { "ROPE",   n_rope * size.ctx * (m.rope_dim // 2) * 2 * F32 },
    { "X",      rows * m.n_embd * F32 },
    { "XN",     rows * m.n_embd * F32 },
    { "XQ",     when(norm_blocks, rows * xq(m.n_embd)) },
    { "Q",      rows * up16(qd) * F32 },
    { "K",      rows * up16(kvd) * F32 },
    { "V",      rows * up16(kvd) * F32 },
    { "AO",     rows * up16(od) * F32 },
    { "AOQ",    when(formats_of.any(formats, { "o", "cross_o" }, true), rows * xq(od)) },
    { "PART",   M.PART_ROW * m.n_head * n.n_span * (m.head_dim + 2) * F32 },
    { "RL",     rows * up16(m.n_expert) * F32 },
    { "TOPK",   picked * 8 },
    { "ROUTE",  picked * 4 + (m.n_expert + 1) * 4 },
    { "GATE",   when(m.shared_gate, rows * F32) },
    { "H",      hidden_bytes(m, formats, rows, false, function(w) return w * F32 end) },
    { "HQ",     hidden_bytes(m, formats, rows, true, xq) },
    { "SLOTS",  held * tier.slot_bytes },
    { "XCACHE", tier.table_bytes or 0 },
    { "YD",     when(waves, slots(m, size) * up16(m.n_embd) * F32) },
    { "YR",     when(tier.kind == "disk", (m.n_expert_used + (M.aside(m) > 0 and 1 or 0)) * up16(m.n_embd) * F32) },
    { "RLP",    when(predicts, 2 * up16(m.n_expert) * F32) },
    { "PREDICT", when(predicts, tier.predict_bytes) },
    { "LN",     size.logit_rows * m.n_embd * F32 },
    { "LNQ",    when(quant.is_block(formats.output), size.logit_rows * xq(m.n_embd)) },
    { "LOGITS", size.logit_rows * up16(m.n_vocab) * F32 },
    { "SAMPLE", m.n_vocab * 8 },
  }
  for _, buffer in ipairs(latent_buffers(m, formats, rows)) do list[#list + 1] = buffer end
  for _, buffer in ipairs(encoder_buffers(m, size)) do list[#list + 1] = buffer end
  list[#list + 1] = { "THREAD", size.threads * thread_bytes(m, size) }
  return list
end

--- What most of a device's buffers of a batch come to, for each of its rows: outputs by slot, hidden
--- values, the rows themselves.
function M.row_bytes(m, formats)
  local hidden = hidden_bytes(m, formats, 1, false, function(w) return w * F32 end)
    + hidden_bytes(m, formats, 1, true, quant.xq_bytes)
  local rows = 3 * m.n_embd + 3 * m.n_head * m.head_dim + 2 * m.n_head_kv * m.head_dim
  return m.n_expert_used * m.n_embd * F32 + hidden + rows * F32
end

--- @param m       table  a checked model
--- @param formats table  of gen/formats.lua
--- @param layout  table  of gen/plan_layout.lua
--- @param size    table  ctx, batch, logit_rows, kv, threads
--- @return table  regions { name, off, bytes }, their total, and the counts in them
function M.plan(m, formats, layout, size)
  local mem = M.counts(size.ctx)
  mem.n_seq, mem.span_blocks, mem.part_row = M.N_SEQ, M.SPAN_BLOCKS, M.PART_ROW
  mem.thread_bytes, mem.attn_group = thread_bytes(m, size), M.attn_group(m)
  mem.own_bytes = own_bytes(m)
  mem.spare_bytes, mem.kv_part_bytes = M.spare_bytes(m, size), M.kv_part_bytes(m, size.kv)
  mem.regions = {}
  local at = 0
  for i, buffer in ipairs(buffers(m, formats, layout, size)) do
    local name, bytes = buffer[1], buffer[2]
    mem.regions[i] = { name = name, off = bytes > 0 and at or 0, bytes = bytes }
    at = at + num.align_up(bytes, M.ALIGN)
  end
  mem.bytes = at
  local by_name = {}
  for _, r in ipairs(mem.regions) do by_name[r.name] = num.align_up(r.bytes, M.ALIGN) end
  mem.kv_bytes = mem.regions[2].bytes
  mem.expert_bytes = by_name.SLOTS + by_name.XCACHE
  mem.work_bytes = at - by_name.DATA - by_name.KV - mem.expert_bytes
  return mem
end

return M

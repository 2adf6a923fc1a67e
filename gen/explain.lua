-- gen/explain.lua -- the plan as a report that a person reads (`build.lua --explain`, `plan`).

local formats_of = require "gen.formats"
local num = require "gen.num"
local plan_predict = require "gen.plan_predict"
local plan_kinds = require "gen.plan_kinds"
local plan_layout = require "gen.plan_layout"

local M = {}

local CLASSES = {
  { "experts",    { "gate", "up", "down", "dense_gate", "dense_up", "dense_down" } },
  { "attention",  plan_layout.ATTN },
  { "router",     { "router" } },
  { "embedding",  { "token_embd" } },
  { "output",     { "output" } },
}

local function rate(bytes)
  return ("%.1f GB/s"):format(bytes / 1e9)
end

local function describe_model(plan, add)
  local m = plan.model
  add("model      %s (%s)", plan.model_id, plan.model_file)
  local enc = m.n_layer_enc
  local layers = enc > 0 and ("%d + %d"):format(enc, m.n_layer - enc) or m.n_layer
  add("           %s, %s layers, %d wide, %d heads over %d KV heads of %d", m.family, layers, m.n_embd,
    m.n_head, m.n_head_kv, m.head_dim)
  add("           %d experts of %d a layer, %d used; vocabulary %d%s%s", m.n_expert, m.n_ff,
    m.n_expert_used, m.n_vocab, m.tied and ", tied output" or "",
    m.window > 0 and (", window %d"):format(m.window) or "")
end

local function describe_machine(plan, add)
  local hw = plan.hw
  add("machine    %s (%s)", plan.hw_id, plan.hw_file)
  add("           %s, %d cores, %s RAM, memory %s, disk %s", hw.isa, hw.cores, num.human(hw.ram),
    rate(hw.mem_bw), rate(hw.disk_bw))
  if hw.gpu then
    add("           %s (%s), %s VRAM at %s, link %s", hw.gpu.name, hw.gpu.arch, num.human(hw.gpu.vram),
      rate(hw.gpu.vram_bw), rate(hw.gpu.link_bw))
  end
  add("           numbers: %s", hw.source)
end

local function describe_weights(plan, add)
  local layout = plan.layout
  local parts = {}
  for i, class in ipairs(CLASSES) do
    parts[i] = class[1] .. " " .. formats_of.used(plan.formats, class[2])
  end
  local most = 0
  for _, layer in ipairs(layout.layers) do most = math.max(most, layer.expert_stride) end
  add("weights    %s", table.concat(parts, ", "))
  add("           %s resident + %s of experts (%s each)", num.human(layout.resident_bytes),
    num.human(layout.data_bytes - layout.resident_bytes), num.human(most))
  add("sizes      %d positions of %s KV, batches of %d rows (%d with logits), %d threads", plan.size.ctx,
    plan.size.kv, plan.size.batch, plan.size.logit_rows, plan.size.threads)
  add("           %s", plan.size.load_map == 1 and "weights mapped from their file" or "weights copied into memory")
  for _, note in ipairs(plan.notes) do add("note       %s", note) end
end

-- Encoder-decoders have experts beside dense blocks of the same kind: what a cache may hold.
local function describe_kinds(plan, add)
  local m = plan.model
  if m.n_layer_enc == 0 then return end
  for _, kind in ipairs(plan_kinds.of(m, plan.layout)) do
    add("cacheable  %s: experts of %s in %d layers, %.2g %% of a layer's calls each (below %s or over %.0f %%)",
      kind.cacheable and "yes" or "no, on demand", num.human(kind.bytes), kind.layers, 100 * kind.share,
      num.human(plan_kinds.SMALL_BYTES), 100 * plan_kinds.FREQUENT)
  end
  add("           dense blocks, in every call, are resident")
end

local function describe_memory(plan, add)
  add("")
  add("arena      %15s  %15s", "offset", "bytes")
  for _, r in ipairs(plan.mem.regions) do
    if r.bytes > 0 then add("  %-8s %15d  %15d  %s", r.name:lower(), r.off, r.bytes, num.human(r.bytes)) end
  end
  add("  %-8s %15s  %15d  %s of %s usable RAM", "total", "", plan.mem.bytes, num.human(plan.mem.bytes),
    num.human(plan.hw.ram_usable))
end

local function describe_cache(plan, add)
  local cache = plan.cache
  if not cache then return end
  add("")
  add("VRAM       %15s  %15s", "offset", "bytes")
  for _, r in ipairs(plan.device.regions) do
    if r.bytes > 0 then add("  %-8s %15d  %15d  %s", r.name:lower(), r.off, r.bytes, num.human(r.bytes)) end
  end
  add("  %-8s %15s  %15d  %s of %s usable VRAM%s", "total", "", plan.device.bytes, num.human(plan.device.bytes),
    num.human(plan.device.usable), plan.device.cached and "" or plan.device.mapped > 0
    and (": unified, the weights' %s are mapped"):format(num.human(plan.device.mapped)) or ": everything is resident")
  if plan.device.fast.gemm_fast == 1 then
    add("gemm       fast: for %d rows or more activations of BF16 matrices are rounded to BF16 and summed in the"
      .. " matrix unit's order: not the CPU's bits, but within 2^-8 of a sum's magnitude%s", plan.device.gemm_rows,
      plan.device.fast.flashes == 1 and "; attention rounds queries and weights to F16" or "")
  end
  if not plan.device.cached then return end
  add("cache      %d slots of %s fit: %d sets x %d ways, predicted hit rate %.0f %%", cache.slots,
    num.human(cache.slot_bytes), cache.sets, cache.ways, 100 * cache.hit_rate)
  if cache.policy == "static" then
    add("           filled at start with each layer's %s, and kept so; the CPU computes all misses",
      cache.traced and "most used experts of the trace" or "first experts (no trace=FILE to choose by)")
  elseif cache.traced then
    add("           filled at start with each layer's most used experts of the trace, by whose counts it goes on")
  end
  local weighed = {}
  for i, g in ipairs(cache.weighed) do
    if i > 8 then break end
    weighed[i] = ("%d x %d: %.1f"):format(g.sets, g.ways, 1000 * g.seconds)
  end
  add("           weighed (ms a token): %s%s", table.concat(weighed, ", "), #cache.weighed > 8 and ", ..." or "")
  local batches = {}
  for i, w in ipairs(plan.batches or {}) do batches[i] = ("%d: %.1f"):format(w.batch, 1000 * w.seconds) end
  if #batches > 0 then
    add("           batches weighed (rows: ms of a prompt's token and an answer's): %s", table.concat(batches, ", "))
  end
  local b = plan.background
  if b then
    add("           with every miss computed by the CPU and copied in the background (arXiv 2512.16473): %d x %d, %.1f",
      b.sets, b.ways, 1000 * b.seconds)
  end
  local p = plan.placed
  if p then
    add("           with policy=static, filled at start with %s experts: %d x %d, %.1f",
      p.traced and "the trace's most used" or "the first", p.sets, p.ways, 1000 * p.seconds)
  end
  if plan.cache.policy == "static" then
    add("prefetch   none: the slots keep what they have")
  else
    add("prefetch   next-router, two layers ahead, on trial (--ahead N; the link would want to be %d layers ahead)",
      plan.strides[1])
  end
end

local function describe_tier(plan, add)
  local t, m = plan.size.tier, plan.model
  if t.kind == "mmap" then add("experts    mapped from the file: the system's page cache decides") end
  if t.kind ~= "disk" then return end
  add("")
  add("experts    %d slots of %s (%.1f %% of %d experts) over the disk: %d sets, %s policy", t.n_slot,
    num.human(t.slot_bytes), 100 * t.n_slot / (#t.moe * m.n_expert), #t.moe * m.n_expert, t.n_set,
    t.policy)
  local policies = {}
  for i, p in ipairs(t.policies or {}) do policies[i] = ("%s %.1f %%"):format(p.name, 100 * p.hit) end
  add("           hit rates by %s%s", t.traced and "the trace: " or "the stated curve", table.concat(policies, ", "))
  plan_predict.describe(t, add)
  add("weighed    %5s %9s %8s %10s %10s %10s", "sets", "ways", "hits", "stall ms", "token ms", "tokens/s")
  for _, g in ipairs(t.weighed) do
    local least, most = math.min(table.unpack(g.ways)), math.max(table.unpack(g.ways))
    local ways = least == most and ("%d"):format(least) or ("%d..%d"):format(least, most)
    add("           %5d %9s %6.1f %% %10.2f %10.2f %10.2f%s", g.n_set, ways, 100 * g.hit,
      1e3 * g.pace.stall_s, 1e3 * g.pace.seconds, 1 / g.pace.seconds, g.n_set == t.n_set and "  <-" or "")
  end
end

local function describe_rate(plan, add)
  local layout, r = plan.layout, plan.rate
  add("")
  add("a token    reads %s: %s resident + %s of experts", num.human(layout.token_bytes),
    num.human(layout.token_resident_bytes), num.human(layout.token_expert_bytes))
  if plan.device and not plan.device.cached then
    add("predicted  %.4g tokens/s at most, bound by VRAM at %s", r.tps, rate(r.bw))
  elseif plan.cache then
    add("predicted  %.4g tokens/s at most, by the cost model of the expert cache", r.tps)
  elseif plan.size.tier.kind == "disk" then
    local pace = plan.size.tier.pace
    add("           %s of them missing, at %s: %.2f ms; all at %s: %.2f ms", num.human(math.floor(pace.missed_bytes)),
      rate(plan.hw.disk_bw), 1e3 * pace.disk_s, rate(plan.hw.cpu_bw), 1e3 * pace.mem_s)
    add("predicted  %.4g tokens/s; bound %.4g, if reading and computing overlapped wholly", r.tps, r.bound_tps)
  else
    add("predicted  %.4g tokens/s at most, bound by %s at %s", r.tps, r.bound, rate(r.bw))
    if layout.data_bytes <= plan.hw.cache.l3 then
      add("           the weights fit the last-level cache, which may beat this bound")
    end
  end
end

--- @return string the report
function M.text(plan, plan_hash)
  local lines = {}
  local function add(fmt, ...) lines[#lines + 1] = fmt:format(...) end
  describe_model(plan, add)
  describe_machine(plan, add)
  describe_weights(plan, add)
  describe_kinds(plan, add)
  describe_memory(plan, add)
  describe_cache(plan, add)
  describe_tier(plan, add)
  describe_rate(plan, add)
  add("")
  add("layout     %016x  %s", plan.layout.hash, plan.layout.text)
  add("plan       %s", plan_hash)
  return table.concat(lines, "\n") .. "\n"
end

return M

-- gen/explain.lua -- the plan as a report that a person reads (`build.lua --explain`, `plan`).

local formats_of = require "gen.formats"
local num = require "gen.num"

local M = {}

local CLASSES = {
  { "experts",    { "gate", "up", "down" } },
  { "attention",  { "q", "k", "v", "o" } },
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
  add("           %s, %d layers, %d wide, %d heads over %d KV heads of %d", m.family, m.n_layer,
    m.n_embd, m.n_head, m.n_head_kv, m.head_dim)
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
  add("weights    %s", table.concat(parts, ", "))
  add("           %s resident + %s of experts (%s each)", num.human(layout.resident_bytes),
    num.human(layout.data_bytes - layout.resident_bytes), num.human(layout.layers[1].expert_stride))
  add("sizes      %d positions of %s KV, batches of %d rows (%d with logits), %d threads", plan.size.ctx,
    plan.size.kv, plan.size.batch, plan.size.logit_rows, plan.size.threads)
  for _, note in ipairs(plan.notes) do add("note       %s", note) end
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
  for _, r in ipairs(plan.device and plan.device.regions or cache.regions) do
    if r.bytes > 0 then add("  %-8s %15d  %15d  %s", r.name:lower(), r.off, r.bytes, num.human(r.bytes)) end
  end
  if plan.device then
    add("  %-8s %15s  %15d  %s of %s usable VRAM: everything is resident", "total", "", plan.device.bytes,
      num.human(plan.device.bytes), num.human(plan.device.usable))
    return
  end
  add("cache      %d slots of %s fit: %d sets x %d ways, predicted hit rate %.0f %%", cache.slots,
    num.human(cache.slot_bytes), cache.sets, cache.ways, 100 * cache.hit_rate)
  local weighed = {}
  for i, g in ipairs(cache.weighed) do
    if i > 8 then break end
    weighed[i] = ("%d x %d: %.1f"):format(g.sets, g.ways, 1000 * g.seconds)
  end
  add("           weighed (ms a token): %s%s", table.concat(weighed, ", "), #cache.weighed > 8 and ", ..." or "")
  add("prefetch   %d layers ahead at first", plan.strides[1])
end

local function describe_rate(plan, add)
  local layout, r = plan.layout, plan.rate
  add("")
  add("a token    reads %s: %s resident + %s of experts", num.human(layout.token_bytes),
    num.human(layout.token_resident_bytes), num.human(layout.token_expert_bytes))
  if plan.device then
    add("predicted  %.4g tokens/s at most, bound by VRAM at %s", r.tps, rate(r.bw))
  elseif plan.cache then
    add("predicted  %.4g tokens/s at most, by the cost model of the expert cache", r.tps)
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
  describe_memory(plan, add)
  describe_cache(plan, add)
  describe_rate(plan, add)
  add("")
  add("layout     %016x  %s", plan.layout.hash, plan.layout.text)
  add("plan       %s", plan_hash)
  return table.concat(lines, "\n") .. "\n"
end

return M

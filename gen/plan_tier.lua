-- gen/plan_tier.lua -- where the experts live: all in RAM, or on disk behind slots in RAM.
--
-- Kinds: ram (the arena holds every expert), disk (slots in the arena, a mover
-- fills them), mmap (the system's page cache decides: the baseline to beat).
-- The slots are cut into N sets of whole runs of layers; gen/plan_hit.lua says
-- how often each N hits, gen/plan_pace.lua what that costs.

local num = require "gen.num"
local plan_hit = require "gen.plan_hit"
local plan_hot = require "gen.plan_hot"
local plan_pace = require "gen.plan_pace"
local plan_predict = require "gen.plan_predict"
local plan_prefetch = require "gen.plan_prefetch"
local plan_ways = require "gen.plan_ways"

local M = {}

M.RAM = { kind = "ram", n_slot = 0, n_spare = 0, slot_bytes = 0 }
M.MMAP = { kind = "mmap", n_slot = 0, n_spare = 0, slot_bytes = 0 }
M.KINDS = { ram = 0, disk = 1, mmap = 2 }
-- ig_policy_NAME of runtime/cache/policy.h.  admits: may leave a missed expert without a
-- slot, which then is computed from one of a token's spare slots.
M.POLICIES = {
  lru = {}, lru2 = {}, decay = {}, echo = {}, static = { admits = true },
  ["echo-admit"] = { c = "echo_admit", admits = true },
}
M.POLICY_NAMES = { "lru", "lru2", "decay", "echo", "echo-admit", "static" }
M.POLICY = "echo"          -- docs/POLICIES.md: best on documents it was not tuned on
M.MOVE_BYTES = 160         -- sizeof(struct ig_move), at most
M.PIECES, M.DEPTH = 64, 64 -- of a slot, and under way, at most (mover.h)

--- The largest expert: what a slot holds.
function M.slot_bytes(layout)
  local most = 0
  for _, layer in ipairs(layout.layers) do most = math.max(most, layer.expert_stride) end
  return most
end

-- Bytes of the tables of runtime/cache/xcache.c, its policy and the moves: at most; the engine compares.
local function table_bytes(m, n_slot, n_spare)
  local ids, words = m.n_layer * m.n_expert, num.ceil_div(m.n_expert, 64)
  local policy = (32 << 10) + ids * 24 + 1024 * (m.n_layer * words * 8 + 8)
  return num.align_up((n_slot + n_spare) * (8 + M.MOVE_BYTES) + ids * 12 + m.n_layer * 128 + 4096
    + policy, 4096)
end

-- Pieces as the disk likes them: under way at once all that a decode step of a layer can miss, and of prefetches
-- what keeps the disk busy.
local function copies(m, hw, slot)
  local piece = num.align_up(math.max(hw.disk_piece, num.ceil_div(slot, M.PIECES)), 4096)
  local each = num.ceil_div(slot, piece)
  local prefetch = math.max(hw.disk_depth, each)
  return piece, math.min(M.DEPTH, m.n_expert_used * each + prefetch), math.min(M.DEPTH - 1, prefetch)
end

--- The layers that have experts: all, but for a model's dense ones.
local function moe_layers(layout)
  local list = {}
  for i, layer in ipairs(layout.layers) do
    if layer.n_expert > 0 then list[#list + 1] = i end
  end
  return list
end

-- Those of them that a decode step runs: an encoder's run once an input.
local function decode_layers(layout)
  local n = 0
  for _, i in ipairs(moe_layers(layout)) do n = n + (layout.layers[i].encoder and 0 or 1) end
  return n
end

--- A tier of kind disk with so many slots; its geometry is not chosen yet.
function M.with_slots(m, hw, layout, opts, n_slot)
  local name = opts.policy or M.POLICY
  local policy, slot = M.POLICIES[name], M.slot_bytes(layout)
  local spare = policy.admits and m.n_expert_used or 0
  local piece, depth, prefetch = copies(m, hw, slot)
  return {
    kind = "disk", n_slot = n_slot, n_spare = spare, slot_bytes = slot, policy = name,
    policy_c = "ig_policy_" .. (policy.c or name), table_bytes = table_bytes(m, n_slot, spare),
    piece_bytes = piece, depth = depth, prefetch_depth = prefetch,
    io = opts.io or "auto", predictor = opts.predict or plan_predict.DEFAULT,
    predict_next = 1, predict_bytes = plan_predict.state_bytes(m, opts.predict or plan_predict.DEFAULT),
  }
end

--- The name of an option that means experts on disk, nil: none was given.  Beside a GPU a policy is its cache's.
function M.asked(opts, gpu)
  for _, name in ipairs { "slots", "experts_ram", "sets", "ways", "policy", "predict", "least", "stride", "io" } do
    if opts[name] and not (gpu and name == "policy") then return name end
  end
end

--- Whether a batch can choose more experts of a layer than its set holds.
function M.waves(m, size, tier)
  if tier.n_spare > 0 and size.batch > 1 then return true end   -- not admitted: not kept for the batch
  for _, ways in ipairs(tier.ways) do
    if ways < math.min(m.n_expert, size.batch * m.n_expert_used) then return true end
  end
  return false
end

--- The fewest slots that make sense: below layers x top-k every policy that goes by
--- recency hits nothing, since a slot is taken again before its layer returns.
function M.least(m, layout)
  return #moe_layers(layout) * m.n_expert_used
end

-- How many slots were asked for, or fit into `room` bytes.
local function wanted_slots(m, hw, layout, opts, room)
  local slot, all = M.slot_bytes(layout), #moe_layers(layout) * m.n_expert
  if opts.experts_ram then return math.floor(all * opts.experts_ram / 100), "experts_ram" end
  if opts.slots then return opts.slots // slot, "slots" end
  local spare = M.with_slots(m, hw, layout, opts, 0).n_spare
  return (room - table_bytes(m, 0, spare) - spare * slot) // (slot + 8 + M.MOVE_BYTES), "room"
end

-- Layers are dealt to sets in runs, as the replay tool does; left-over slots go to the first sets, unless
-- `by_layer` says otherwise.
local function geometry(m, moe, n_slot, n_set, by_layer)
  local g = { n_set = n_set, n_slot = 0, set_of = {}, first = { 0 }, ways = {}, moe = moe }
  local layers = {}
  for l = 1, m.n_layer do g.set_of[l] = 0 end   -- a dense layer asks for nothing
  for i, l in ipairs(moe) do
    local set = (i - 1) * n_set // #moe
    g.set_of[l] = set
    layers[set + 1] = (layers[set + 1] or 0) + 1
  end
  for s = 1, n_set do
    local ways = by_layer and by_layer[s] or n_slot // n_set + (s <= n_slot % n_set and 1 or 0)
    g.ways[s] = math.min(ways, layers[s] * m.n_expert)
    g.n_slot = g.n_slot + g.ways[s]
    g.first[s + 1] = g.n_slot
    if g.ways[s] < layers[s] * m.n_expert_used then return nil, g.ways[s], layers[s] end
  end
  return g
end

local function candidates(n_layer, opts)
  if opts.ways == "layers" then return { n_layer } end
  if opts.sets then return { opts.sets } end
  local list, n = {}, 1
  while n < n_layer do
    list[#list + 1] = n
    n = n * 2
  end
  list[#list + 1] = n_layer
  return list
end

-- Every geometry that can hit, with what it costs; the fastest, on a tie the one with more sets.
local function choose(m, hw, layout, tier, opts, trace)
  local best, why
  local moe = moe_layers(layout)
  tier.weighed = {}
  for _, n_set in ipairs(candidates(#moe, opts)) do
    local by_layer = opts.ways == "layers" and plan_ways.by_layer(m, moe, tier.n_slot, tier.policy, trace)
    local g, ways, layers = geometry(m, moe, tier.n_slot, n_set, by_layer)
    if g then
      g.hit = plan_hit.rate(m, g, tier.policy, trace)
      g.pace = plan_pace.plan(m, hw, layout, g.hit, decode_layers(layout), tier)
      tier.weighed[#tier.weighed + 1] = g
      if not best or g.pace.seconds <= best.pace.seconds then best = g end
    else
      why = ("cache: want at least %d ways in a set of %d layers that choose %d experts each, got %d: "
        .. "a slot would be taken again before its layer returns, and nothing would hit"):format(
          layers * m.n_expert_used, layers, m.n_expert_used, ways)
    end
  end
  return best, why
end

-- Policies whose hit rates a trace tells apart; echo, as decayed frequency, is the least it hits.
local WEIGHED = { M.POLICY, "lru", "static" }
M.MARGIN = 0.01            -- so much more must another hit to be taken in its place

local function weigh_policies(m, g, trace)
  local list, best = {}, nil
  for i, name in ipairs(WEIGHED) do
    list[i] = { name = name, hit = plan_hit.rate(m, g, name, trace) }
    if not best or list[i].hit > best.hit + M.MARGIN then best = list[i] end
  end
  return list, best.name
end

-- Why options that belong together do not; nil: they do.
local function contradiction(opts, trace, n_layer)
  if opts.policy == "static" and not trace then
    return "--set: policy: static wants trace=FILE, whose most used experts it keeps, got none"
  end
  if opts.ways == "layers" and not trace then
    return "--set: ways: layers wants trace=FILE, by whose hits slots are dealt out, got none"
  end
  if opts.ways == "layers" and opts.sets and opts.sets ~= n_layer then
    return ("--set: ways: layers wants a set a layer, %d, got sets=%d"):format(n_layer, opts.sets)
  end
end

-- With the policy of `opts`, or the default one.
local function plan_with(m, hw, layout, opts, room, trace)
  local n_slot, from = wanted_slots(m, hw, layout, opts, room)
  local slot, n_layer = M.slot_bytes(layout), #moe_layers(layout)
  local all, least = n_layer * m.n_expert, M.least(m, layout)
  if all == 0 then return nil, "cache: want a model with experts, got a dense one" end
  local contradicts = contradiction(opts, trace, n_layer)
  if contradicts then return nil, contradicts end
  n_slot = math.min(n_slot, all)
  if n_slot < least then
    return nil, ("cache: want at least %d slots (%d layers x %d experts a token, %s), got %d (%s)"):format(
      least, n_layer, m.n_expert_used, num.human(least * slot), math.max(n_slot, 0),
      from == "room" and num.human(math.max(room, 0)) .. " of RAM"
      or from == "slots" and ("--set slots, bytes: %d"):format(opts.slots)
      or ("--set experts_ram, percent: want %d or more"):format(math.ceil(100 * least / all)))
  end
  if (opts.sets or 1) > n_layer then
    return nil, ("cache: want at most %d sets, one a layer, got %d"):format(n_layer, opts.sets)
  end
  local tier = M.with_slots(m, hw, layout, opts, n_slot)
  local bytes = (n_slot + tier.n_spare) * slot + tier.table_bytes
  if bytes > room then
    return nil, ("cache: want at most %s for slots, got %s (%d slots of %s)"):format(num.human(room),
      num.human(bytes), n_slot, num.human(slot))
  end
  local best, why = choose(m, hw, layout, tier, opts, trace)
  if not best then return nil, why end
  tier.n_slot, tier.n_set, tier.ways = best.n_slot, best.n_set, best.ways
  tier.moe = best.moe
  tier.set_of, tier.first, tier.hit, tier.pace = best.set_of, best.first, best.hit, best.pace
  tier.table_bytes = table_bytes(m, tier.n_slot, tier.n_spare)
  tier.strides = plan_prefetch.of_tier(m, hw, layout, opts, tier, decode_layers(layout))
  plan_predict.choose(m, hw, tier, opts)
  tier.traced = trace ~= nil
  if tier.policy == "static" then tier.hot = plan_hot.uses(m, tier.moe, trace) end
  return tier, nil, best
end

--- Slots, geometry and policy in `room` bytes of RAM.
--- @return table? tier, string? why_not
function M.plan(m, hw, layout, opts, room, trace)
  local tier, why, g = plan_with(m, hw, layout, opts, room, trace)
  if not tier or not trace then return tier, why end
  local list, best = weigh_policies(m, g, trace)
  if not opts.policy and best ~= tier.policy then
    tier = plan_with(m, hw, layout, setmetatable({ policy = best }, { __index = opts }), room, trace) or tier
  end
  tier.policies = list
  return tier
end

return M

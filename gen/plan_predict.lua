-- gen/plan_predict.lua -- which predictor, what it has learned, and what is worth fetching early.
--
-- A copy that starts early saves what of it the compute hides: the smaller of its own time T and a
-- layer's, W.  It is in vain with chance 1 - p; then the link, which is busy for a share u of a token,
-- loses T.  It pays from p min(T, W) = (1 - p) u T on, and that p is `least`.  docs/POLICIES.md compares
-- it with the best thresholds of the replays.

local hash = require "gen.hash"
local history = require "gen.history"
local num = require "gen.num"
local predictor = require "gen.predictor"

local M = {}

M.NAMES = { "none", "next-router", "history", "hybrid", "forest", "mlp" }
M.DEFAULT = "hybrid"      -- docs/POLICIES.md: the best that needs no training
M.PAYS = 0.75             -- where only surer experts are worth it, the default is none
M.DISTANCES = 2           -- of the co-occurrence table, unless stride asks for more
local ROWS, DIST = 4096, 8   -- runtime/cache/predict_sense.c, IG_PREDICT_DIST

-- Which predictors ask a later layer's router, and what they remember.
local KINDS = {
  ["next-router"] = { next = 1, levels = 1 }, history = { next = 0, levels = 1 },
  hybrid = { next = 1, levels = 9, sense = true }, forest = { next = 1, sense = true },
  mlp = { next = 1, sense = true },
}

--- Bytes of a predictor's state (runtime/cache/predict_*.c): at most; the engine compares.
function M.state_bytes(m, name)
  local kind = KINDS[name]
  if not kind then return 0 end
  local l, e, k = m.n_layer, m.n_expert, m.n_expert_used
  local cells = kind.levels and l * (DIST + 1) * ((k + 1) * kind.levels * 8 + 2 * e + 1) or 0
  local sense = kind.sense and l * e * 8 + ROWS * (l * num.ceil_div(e, 64) * 8 + 8) + 4 * ROWS + 8 * e or 0
  return num.align_up(1024 + cells + sense + (8 * l * k + 4 * e) + predictor.FEATURES * e, 4096)
end

--- The chance from which on an early copy pays, and what it follows from.
function M.least(slot_bytes, disk_bw, pace, n_layer)
  local copy, layer = slot_bytes / disk_bw, pace.mem_s / n_layer
  local busy = math.min(1, pace.disk_s / pace.seconds)
  return { copy_s = copy, layer_s = layer, busy = busy,
           chance = busy * copy / (busy * copy + math.min(copy, layer)) }
end

--- Options that go together, and the tables; of a tier of kind disk.
--- @return table? tables   (nil: none are needed, or `problems` says why)
function M.tables(m, opts, input, problems)
  local name = opts.predict or "none"
  local function problem(fmt, ...) problems[#problems + 1] = "--set: predict=" .. name .. ": " .. fmt:format(...) end
  if (name == "forest" or name == "mlp") then
    if not input.predictor then return problem("want predictor=FILE, from tools/train_predictor.py, got none") end
    local t = predictor.parse(input.predictor, opts.predictor, name, m, problems)
    return t and { forest = name == "forest" and t.forest or {}, mlp = name == "mlp" and t.mlp or {},
                   linear = t.linear, n_joint = 0, digest = hash.hex(hash.fnv1a64(input.predictor)) }
  end
  if opts.predictor then return problem("want no predictor=FILE, which only forest and mlp read, got one") end
  if name ~= "history" then return nil end
  if opts.trace and not input.trace then return end   -- said already
  if not input.trace then return problem("want trace=FILE to count co-occurrences in, got none") end
  local distances = math.max(M.DISTANCES, opts.stride or 1)
  local bytes = history.bytes(m, distances)
  if bytes > history.MOST_BYTES then
    return problem("want a table of at most %s, got %s (%d distances x %d layers x %d x %d experts)",
      num.human(history.MOST_BYTES), num.human(bytes), distances, m.n_layer, m.n_expert, m.n_expert)
  end
  local joint = history.joint(m, input.trace, distances)
  return { forest = {}, mlp = {}, linear = {}, n_joint = distances, joint = joint,
           digest = hash.hex(hash.fnv1a64(table.concat(joint, ","))) }
end

--- Completes a planned tier.
function M.choose(m, hw, tier, opts)
  local cost = M.least(tier.slot_bytes, hw.disk_bw, tier.pace, #tier.moe)
  tier.least = opts.least or cost.chance
  tier.predictor = opts.predict or (cost.chance <= M.PAYS and M.DEFAULT or "none")
  local kind = KINDS[tier.predictor]
  tier.predict_next = kind and kind.next or 0
  tier.predict_bytes = M.state_bytes(m, tier.predictor)
  tier.predict_why = ("%s a chance of %.2f (%s: a copy %.0f us, a layer %.0f us, disk busy %.0f %%)"):format(
    tier.predictor == "none" and "it would pay above" or "above", tier.least,
    opts.predict and "--set predict" or "cost model", 1e6 * cost.copy_s, 1e6 * cost.layer_s, 100 * cost.busy)
end

--- What --explain says.
function M.describe(tier, add)
  add("prefetch   %s: %s", tier.predictor == "none" and "off" or tier.predictor, tier.predict_why)
  local low, high = { 9, 9, 9 }, { 0, 0, 0 }
  for _, l in ipairs(tier.moe) do
    for i, s in ipairs(tier.strides[l]) do low[i], high[i] = math.min(low[i], s), math.max(high[i], s) end
  end
  local function range(i) return low[i] == high[i] and low[i] or ("%d..%d"):format(low[i], high[i]) end
  if tier.predictor == "none" then return end
  add("           at first %s layers ahead, moved between %s and %s by what waits and what comes too early",
    range(1), range(2), range(3))
end

return M

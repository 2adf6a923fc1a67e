-- gen/plan_bias.lua -- relative position bias: which bucket a distance falls into.
--
-- Half of the buckets hold one distance each, the others grow with its logarithm, and the last
-- one has all from max on (Raffel et al. 2020, T5, section 2.1).  Rounded to floats at each
-- step, as the published code does: some boundaries are whole numbers.

local M = {}

local function f32(x) return (string.unpack("<f", string.pack("<f", x))) end

--- @param n   integer  buckets for one direction
--- @param max integer  the distance from which all are alike
--- @return table       bucket of the distances 0 .. max
function M.buckets(n, max)
  local exact, out = n // 2, {}
  for d = 0, max do
    local bucket = d
    if d >= exact then
      local log = f32(math.log(f32(d / exact)))
      bucket = exact + math.floor(f32(f32(log / f32(math.log(max / exact))) * (n - exact)))
    end
    out[d + 1] = math.min(bucket, n - 1)
  end
  return out
end

--- Of the encoder (half the buckets for keys before the query, half for those after it), then of the
--- decoder.
function M.plan(m)
  return { M.buckets(m.n_rel_bucket // 2, m.rel_distance), M.buckets(m.n_rel_bucket, m.rel_distance) }
end

return M

-- gen/plan_facts.lua -- the facts of a model that its weights are packed for.
--
-- Weights of the right shapes with another base of rotation, another number of heads or
-- another epsilon are weights of another model: the layout hash has all of these.  Numbers
-- are compared as the floats that the binary has, so that a source in double and
-- one in single precision mean the same model.

local hash = require "gen.hash"
local model = require "gen.model"
local plan_rope = require "gen.plan_rope"

local M = {}

-- Not arithmetic: `weights` are formats (the layout has those), n_ctx_train is a limit.
-- Stated in more than one way: rope and attn_scale, whose results are listed instead.
local LEFT_OUT = { weights = true, n_ctx_train = true, rope = true, attn_scale = true }

local function single(x) return ("%.9g"):format((string.unpack("<f", string.pack("<f", x)))) end

local function spelled(v)
  return type(v) == "number" and (math.type(v) == "integer" and ("%d"):format(v) or single(v)) or tostring(v)
end

local function rope_lines(m, lines)
  local rope = plan_rope.plan(m)
  for i, freq in ipairs(rope.tables) do
    local row = {}
    for k, f in ipairs(freq) do row[k] = single(f) end
    lines[#lines + 1] = ("rope %s: %s"):format(single(rope.scales[i]), table.concat(row, " "))
  end
  if #rope.tables > 1 then lines[#lines + 1] = ("rope_switch %d"):format(rope.switch) end
end

--- @param m table   a checked model
--- @return table    lines, one a fact
function M.lines(m)
  local lines = {}
  for _, f in ipairs(model.fields) do
    if not LEFT_OUT[f.name] then
      local v = m[f.name]
      if f.kind == "number" and v then v = v + 0.0 end
      lines[#lines + 1] = f.name .. " " .. spelled(v)
    end
  end
  lines[#lines + 1] = "attn_scale " .. single(plan_rope.attn_scale(m))
  rope_lines(m, lines)
  return lines
end

--- The ones that people know a model by, and a digest of all.
function M.text(m)
  local digest = hash.fnv1a64(table.concat(M.lines(m), "\n"))
  return ("%s, %d layers of %d experts (%d used), %d heads over %d of %d, rope %s%.9g, %d wide, expert width %d, "
    .. "vocabulary %d, facts %08x"):format(m.family, m.n_layer, m.n_expert, m.n_expert_used, m.n_head, m.n_head_kv,
      m.head_dim, m.rope and m.rope.type .. " " or "", m.rope_theta, m.n_embd, m.n_ff, m.n_vocab, digest >> 32)
end

return M

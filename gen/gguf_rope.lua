-- gen/gguf_rope.lua -- how GGUF files say that rotary frequencies are stretched (gen/rope.lua).
--
-- By keys, or by tensors of divisors, one a pair: rope_freqs (Llama 3.1's scheme, worked
-- out by the writer) and rope_factors_short with rope_factors_long.

local rope = require "gen.rope"
local schema = require "gen.schema"
local types = require "gen.gguf_types"

local M = {}

-- Tensors of divisors; runtime/file/pack_src.c does not miss them a place.
M.FREQS, M.SHORT, M.LONG = "rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"

local MOST = 512 -- pairs of the widest head

-- A tensor's numbers, or nil (where it is there, after a problem).
local function numbers_of(found, name, file, problems)
  local t, list = found.by_name[name], {}
  if not t or not t.bytes then return nil end -- an info that lies has been reported
  local kind, n = types.tensor[t.kind].name, t.dims[1] or 0
  if kind ~= "F32" or #t.dims ~= 1 or n < 1 or n > MOST then
    problems[#problems + 1] = schema.problem(file, name, ("1 to %d numbers of type F32"):format(MOST),
      ("%s of %d dimensions"):format(kind, #t.dims))
    return nil
  end
  local text = t.read(4 * n, t.at)
  for i = 1, n do
    local x = #text == 4 * n and string.unpack("<f", text, 4 * i - 3) or 0.0
    if not (x > 0 and x < math.huge) then
      problems[#problems + 1] = schema.problem(file, name, "positive numbers", ("%g (number %d)"):format(x, i - 1))
      return nil
    end
    list[i] = x
  end
  return list
end

local function longrope(found, lookup, file, problems)
  local short, long = numbers_of(found, M.SHORT, file, problems), numbers_of(found, M.LONG, file, problems)
  if not (short or long) then return nil end
  return { type = "longrope", short_factor = short, long_factor = long,
           orig_ctx = lookup "rope.scaling.original_context_length" }
end

local function factors(found, _, file, problems)
  local list = numbers_of(found, M.FREQS, file, problems)
  return list and { type = "factors", short_factor = list }
end

local function linear(_, lookup) return { type = "linear", factor = lookup "rope.scaling.factor" } end

-- An attention factor of 1 is what one writer puts for "none stated".
local function yarn(_, lookup)
  local attn = lookup "rope.scaling.yarn_attn_factor"
  -- 0.1 * mscale_all_dim, which had few digits before it became a float.
  local log_mul = lookup "rope.scaling.yarn_log_multiplier"
  local mscale = type(log_mul) == "number" and log_mul ~= 0 and tonumber(("%.6g"):format(log_mul * 10)) or nil
  return { type = "yarn", factor = lookup "rope.scaling.factor",
           orig_ctx = lookup "rope.scaling.original_context_length",
           beta_fast = lookup "rope.scaling.yarn_beta_fast", beta_slow = lookup "rope.scaling.yarn_beta_slow",
           attn_factor = attn ~= 1.0 and attn or nil, mscale = mscale, mscale_all = mscale }
end

-- Kinds that a key names, and those that tensors show: writers leave the key out with these.
local BY_KEY, BY_TENSOR = { linear = linear, yarn = yarn }, { longrope = longrope, factors = factors }

--- The tensors that are not weights, which pack leaves out.
function M.is_factors(name) return name == M.FREQS or name == M.SHORT or name == M.LONG end

--- Fill stated.rope.
--- @param found   table  of gguf_parts.parse
--- @param allowed table  the types that the family may have
function M.read(found, lookup, allowed, stated, names, file, problems)
  local kind, known = lookup "rope.scaling.type", {}
  for _, name in ipairs(allowed) do
    if BY_TENSOR[name] then
      names.rope = "rope_factors"
      stated.rope = stated.rope or BY_TENSOR[name](found, lookup, file, problems)
    elseif kind == name and BY_KEY[name] then
      names.rope = "rope.scaling"
      stated.rope = BY_KEY[name](found, lookup)
    end
    known[name] = true
  end
  if stated.rope or kind == nil or kind == "none" or kind == "longrope" and known.longrope then return end
  problems[#problems + 1] = schema.problem(file, "rope.scaling.type", rope.one_of("none", table.unpack(allowed)),
    schema.show(kind))
end

return M

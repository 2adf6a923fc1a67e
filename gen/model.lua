-- gen/model.lua -- what a model description may say.
--
-- A checked model holds the fields below plus `types`: the format its source
-- has for every matrix (gen/formats.lua turns these and the options into the
-- plan's formats).  Which tensors follow from them is in gen/shape.lua.

local quant = require "gen.quant"
local rope = require "gen.rope"
local schema = require "gen.schema"
local families = require "gen.families"

local M = {}

-- The classes of matrices that a format can be chosen for.
M.classes = { "expert", "attn", "embed", "output", "router" }

local function class_fields()
  local fields = {}
  for i, class in ipairs(M.classes) do
    fields[i] = { name = class, kind = "choice", choices = quant.names,
                  default = class == "router" and "f32" or nil }
  end
  return fields
end

-- What every model states.  Upper bounds keep every product of these below 2^63.
local BASE = {
  { name = "family",        kind = "choice",  choices = families.names },
  { name = "n_layer",       kind = "integer", min = 1, max = 1024 },
  { name = "n_embd",        kind = "integer", min = 16, max = 65536 },
  { name = "n_head",        kind = "integer", min = 1, max = 1024 },
  { name = "n_head_kv",     kind = "integer", min = 1, max = 1024 },
  { name = "head_dim",      kind = "integer", min = 2, max = 1024 },
  { name = "n_ff",          kind = "integer", min = 1, max = 262144 },
  { name = "n_expert",      kind = "integer", min = 1, max = 1024 },
  { name = "n_expert_used", kind = "integer", min = 1, max = 64 },
  { name = "n_vocab",       kind = "integer", min = 2, max = 1 << 24 },
  { name = "n_ctx_train",   kind = "integer", min = 1, max = 1 << 24 },
  { name = "norm_eps",      kind = "number",  min = 1e-12, max = 0.1 },
  { name = "rope_theta",    kind = "number",  min = 1, max = 1e12 },
  { name = "window",        kind = "integer", min = 0, max = 1 << 24, default = 0 },
  { name = "tied",          kind = "boolean", default = false },
  { name = "weights",       kind = "table",   fields = class_fields() },
}

-- What only some families have.  A family fixes these in its `defaults`; a model may
-- state those that the family lists in `may`.
local EXTRA = {
  { name = "norm",         kind = "choice",  choices = { "rms", "layer" }, default = "rms" },
  { name = "norm_bias",    kind = "boolean", default = false },
  { name = "qk_norm",      kind = "choice",  choices = { "none", "head", "full" }, default = "none" },
  { name = "attn_bias",    kind = "choice",  choices = { "none", "qkv", "qkvo" }, default = "none" },
  { name = "output_bias",  kind = "boolean", default = false },
  { name = "expert_bias",  kind = "boolean", default = false }, -- of experts and of the router
  { name = "sinks",        kind = "boolean", default = false },
  { name = "window_every", kind = "integer", min = 0, max = 1024, default = 0 },
  { name = "act",          kind = "choice",  choices = { "swiglu", "swiglu_oai", "relu" }, default = "swiglu" },
  { name = "act_limit",    kind = "number",  min = 0, max = 1e6, default = 0.0 },
  { name = "qkv_clip",     kind = "number",  min = 0, max = 1e6, default = 0.0 },
  { name = "embd_scale",     kind = "number", min = 1e-6, max = 1e6, default = 1.0 },
  { name = "residual_scale", kind = "number", min = 1e-6, max = 1e6, default = 1.0 },
  { name = "logit_scale",    kind = "number", min = 1e-6, max = 1e6, default = 1.0 }, -- divides logits
  { name = "attn_scale",     kind = "number", min = 1e-6, max = 1e6, optional = true },
  { name = "router",       kind = "choice",  choices = { "softmax", "sigmoid", "sparsemixer" },
    default = "softmax" },
  { name = "route_norm",   kind = "boolean", default = true },  -- weights of the chosen sum to 1
  { name = "route_scale",  kind = "number",  min = 1e-6, max = 1e6, default = 1.0 },
  { name = "route_bias",   kind = "boolean", default = false }, -- decides the choice, not the weights
  { name = "n_route_group",      kind = "integer", min = 1, max = 1024, default = 1 },
  { name = "n_route_group_used", kind = "integer", min = 1, max = 1024, default = 1 },
  { name = "route_group_top",    kind = "integer", min = 1, max = 2, default = 2 },
  { name = "router_jitter", kind = "number", min = 0, max = 1, default = 0.0 },
  { name = "n_layer_dense", kind = "integer", min = 0, max = 1024, default = 0 },
  { name = "n_ff_dense",   kind = "integer", min = 0, max = 262144, default = 0 },
  { name = "n_ff_shared",  kind = "integer", min = 0, max = 262144, default = 0 },
  { name = "shared_gate",  kind = "boolean", default = false },
  { name = "n_layer_enc",  kind = "integer", min = 0, max = 1024, default = 0 }, -- the first of n_layer
  { name = "sparse_step",  kind = "integer", min = 0, max = 1024, default = 1 }, -- of the decoder; 0: no experts
  { name = "sparse_step_enc", kind = "integer", min = 0, max = 1024, default = 1 },
  { name = "n_rel_bucket", kind = "integer", min = 0, max = 1024, default = 0 },
  { name = "rel_distance", kind = "integer", min = 0, max = 65536, default = 0 },
  { name = "start_token",  kind = "integer", min = 0, max = 1 << 24, default = 0 }, -- of the decoder
  { name = "rope_dim",     kind = "integer", min = 2, max = 1024, optional = true },
  { name = "rope",         kind = "table",   fields = rope.fields, optional = true },
  { name = "q_lora",       kind = "integer", min = 0, max = 65536, default = 0 },
  { name = "kv_lora",      kind = "integer", min = 16, max = 4096, optional = true },
  { name = "nope_dim",     kind = "integer", min = 2, max = 1024, optional = true },
  { name = "v_dim",        kind = "integer", min = 16, max = 1024, optional = true },
  { name = "latent_eps",   kind = "number",  min = 1e-12, max = 0.1, default = 1e-6 },
}

M.fields = table.move(EXTRA, 1, #EXTRA, #BASE + 1, table.move(BASE, 1, #BASE, 1, {}))

-- The same for families without experts.
local DENSE = table.move(M.fields, 1, #M.fields, 1, {})
for i, f in ipairs(DENSE) do
  if f.name:find("^n_expert") then DENSE[i] = { name = f.name, kind = "integer", min = 0, max = 0, default = 0 } end
end

local function is_mla(m) return families.by_name[m.family].mixer == "IG_MIXER_MLA" end

-- Facts that must agree with each other: { field, holds(m), want(m) }.
local RULES = {
  { "n_embd", function(m) return m.n_embd % 2 == 0 end,
    function() return "an even number (16-bit weights lie in pairs of columns)" end },
  { "n_head_kv", function(m) return m.n_head % m.n_head_kv == 0 end,
    function(m) return ("a divisor of n_head (%d)"):format(m.n_head) end },
  { "head_dim", function(m) return m.head_dim % 2 == 0 end,
    function() return "an even number (RoPE turns pairs)" end },
  { "rope_dim", function(m) return m.rope_dim == m.head_dim or m.rope_dim % 2 == 0 and m.rope_dim < m.head_dim end,
    function(m) return ("an even number up to head_dim (%d)"):format(m.head_dim) end },
  { "n_expert_used", function(m) return m.n_expert_used <= m.n_expert end,
    function(m) return ("at most n_expert (%d)"):format(m.n_expert) end },
  { "n_ff_dense", function(m) return m.n_layer_dense == 0 or m.n_ff_dense > 0 end,
    function() return "the width of the dense layers" end },
  { "n_layer_dense", function(m) return m.n_layer_dense <= m.n_layer end,
    function(m) return ("at most n_layer (%d)"):format(m.n_layer) end },
  { "n_route_group", function(m) return m.n_expert % m.n_route_group == 0 end,
    function(m) return ("a divisor of n_expert (%d)"):format(m.n_expert) end },
  { "n_route_group", function(m) return m.n_route_group == 1 or m.n_expert // m.n_route_group >= m.route_group_top end,
    function(m) return ("groups of at least %d experts"):format(m.route_group_top) end },
  { "n_route_group_used", function(m) return m.n_route_group == 1 or m.n_route_group_used <= m.n_route_group
      and m.n_expert_used <= m.n_expert // m.n_route_group * m.n_route_group_used end,
    function() return "groups that hold the experts used" end },
  { "n_layer_enc", function(m) return not families.by_name[m.family].encoder
      or m.n_layer_enc > 0 and m.n_layer_enc < m.n_layer end,
    function(m) return ("from 1 to less than n_layer (%d)"):format(m.n_layer) end },
  { "n_rel_bucket", function(m) return m.n_rel_bucket % 4 == 0 end,
    function() return "a multiple of 4 (two directions, two kinds of bucket)" end },
  { "rel_distance", function(m) return m.n_rel_bucket == 0 or m.rel_distance > m.n_rel_bucket // 2 end,
    function(m) return ("more than half of the buckets (%d)"):format(m.n_rel_bucket) end },
  { "start_token", function(m) return m.start_token < m.n_vocab end,
    function(m) return ("less than n_vocab (%d)"):format(m.n_vocab) end },
  { "v_dim", function(m) return not is_mla(m) or m.v_dim % quant.PANEL_ROWS == 0 end,
    function() return "a multiple of 16" end },
  { "kv_lora", function(m) return not is_mla(m) or m.kv_lora % quant.PANEL_ROWS == 0 end,
    function() return "a multiple of 16" end },
}

-- A family's own fields: its defaults for what is not stated, a problem for what it cannot have.
local function fill_extra(family, stated, file, problems, names)
  local may = {}
  for _, name in ipairs(family.may or {}) do may[name] = true end
  for _, f in ipairs(EXTRA) do
    local fixed = (family.defaults or {})[f.name]
    if fixed == nil then fixed = f.default end
    local v = stated[f.name]
    if v ~= nil and v ~= fixed and not may[f.name] then
      problems[#problems + 1] = schema.problem(file, names and names[f.name] or f.name,
        fixed == nil and ("nothing (family %s)"):format(family.name)
        or ("%s (family %s)"):format(schema.show(fixed), family.name), schema.show(v))
    elseif v == nil then
      stated[f.name] = fixed
    end
  end
end

-- Latent attention is attention of one KV head over [latent, rotated key].
local function fill_latent(stated, file, problems, names)
  for _, name in ipairs { "kv_lora", "nope_dim", "v_dim", "rope_dim" } do
    if stated[name] == nil then
      problems[#problems + 1] = schema.problem(file, names and names[name] or name, "an integer", "nothing")
    end
  end
  local latent, key = stated.kv_lora, stated.rope_dim
  stated.n_head_kv = 1
  stated.head_dim = math.type(latent) == "integer" and math.type(key) == "integer" and latent + key or 2
end

--- @param stated   table   facts as a description states them; what is left out gets filled in
--- @param file     string  for messages
--- @param problems table   list to add problems to
--- @param names    table?  field -> the name its source uses, for messages
--- @return table model     (complete only when no problem was added)
function M.check(stated, file, problems, names)
  local before, family = #problems, families.by_name[stated.family]
  if family and family.fill then family.fill(stated) end
  if family then fill_extra(family, stated, file, problems, names) end
  if family and is_mla(stated) then fill_latent(stated, file, problems, names) end
  local m = schema.check(family and family.dense and DENSE or M.fields, stated, file, problems, "", names)
  if #problems > before then return m end
  m.rope_dim = m.rope_dim or m.head_dim
  if m.rope then rope.check(m, file, problems, names) end
  for _, rule in ipairs(RULES) do
    local field, holds, want = rule[1], rule[2], rule[3]
    if not holds(m) then
      problems[#problems + 1] = schema.problem(file, names and names[field] or field,
        want(m), schema.show(m[field]))
    end
  end
  return m
end

return M

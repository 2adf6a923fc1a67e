-- The weights data and its hash, against numbers worked out by hand.

local lu = require "luaunit"
local lib = require "lib"
local plan_layout = require "gen.plan_layout"

local eq = lu.assertEquals
local T = {}

function T.test_layout_resident()
  local m = lib.small("f32")
  local l = plan_layout.plan(m, lib.resolved(m))
  eq({ l.token_embd.off, l.token_embd.stride, l.token_embd.bytes }, { 0, 4096, 3 * 4096 })  -- 40 rows: 3 panels
  local first = l.layers[1]
  eq(first.mixer_norm, 12288)
  eq(first.q.off, 12544)                -- after 64 floats
  eq(first.k.off, 12544 + 4 * 4096)     -- q: 64 rows, 4 panels
  eq(first.v.off, 12544 + 6 * 4096)     -- k: 32 rows, 2 panels
  eq(first.o.off, 12544 + 8 * 4096)
  eq(first.ffn_norm, 12544 + 12 * 4096)
  eq(first.router.off, 12800 + 12 * 4096)
  eq(l.layers[2].mixer_norm, 12800 + 13 * 4096)   -- router: 5 rows, 1 panel
  eq(l.output_norm, 12288 + 2 * (512 + 13 * 4096))
  eq(l.output.off, l.output_norm + 256)
  eq(l.resident_bytes, 135168)          -- 132352 up to a page
end

function T.test_layout_slab()
  local m = lib.small("f32")
  local l = plan_layout.plan(m, lib.resolved(m))
  local first = l.layers[1]
  eq({ first.gate.off, first.gate.stride }, { 0, 8192 })
  eq({ first.up.off, first.up.stride }, { 4096, 8192 })
  eq({ first.down.off, first.down.stride }, { 6 * 8192, 96 * 64 })
  eq(first.slab_bytes, 6 * 8192 + 4 * 6144)
  eq(first.expert_stride, 73728)
  eq(first.expert_off, l.resident_bytes)
  eq(l.layers[2].expert_off, l.resident_bytes + 5 * 73728)
  eq(l.data_bytes, l.resident_bytes + 10 * 73728)
end

function T.test_layout_pads_odd_blocks()
  -- 96 columns are 3 blocks of 544 B: 1632 is no multiple of 64, the stride is.
  local m = lib.small("q8_0")
  local l = plan_layout.plan(m, lib.resolved(m))
  eq(l.layers[1].down.stride, 1664)
  eq(l.layers[1].gate.stride, 2 * 1088)
end

function T.test_layout_token_bytes()
  local m = lib.small("f32")
  local l = plan_layout.plan(m, lib.resolved(m))
  eq(l.token_resident_bytes, 3 * 4096 + 2 * 13 * 4096)   -- output; q k v o router of two layers
  eq(l.token_expert_bytes, 2 * 2 * 73728)
  eq(l.token_bytes, l.token_resident_bytes + l.token_expert_bytes)
end

function T.test_layout_tied()
  local m = lib.small("f32")
  m.tied = true
  local l = plan_layout.plan(m, lib.resolved(m))
  lu.assertIs(l.output, l.token_embd)
  eq(l.resident_bytes, 122880)          -- 12288 less than 132352, up to a page
end

local function layout_of(change, weights)
  local m = lib.small(weights or "f32")
  change(m)
  return plan_layout.plan(m, lib.resolved(m))
end

function T.test_layout_hash_covers_the_layout()
  local base = layout_of(function() end).hash
  eq(layout_of(function(m) m.n_ctx_train = 99 end).hash, base)
  lu.assertNotEquals(layout_of(function(m) m.n_vocab = 41 end).hash, base)
  lu.assertNotEquals(layout_of(function(m) m.tied = true end).hash, base)
  lu.assertNotEquals(layout_of(function() end, "bf16").hash, base)
  lu.assertNotEquals(layout_of(function(m) m.n_layer = 1 end).hash, base)
end

-- None of these moves a byte of the weights; each makes other tokens of them.
function T.test_layout_hash_covers_the_arithmetic()
  local yarn = { type = "yarn", factor = 4.0, orig_ctx = 64, beta_fast = 32.0, beta_slow = 1.0, truncate = true }
  local changes = { n_head = 8, n_head_kv = 1, head_dim = 8, n_expert_used = 3, norm_eps = 1e-6, rope_theta = 123.0,
    rope_dim = 8, rope = yarn, window = 7, window_every = 2, act = "swiglu_oai", act_limit = 7.0, qkv_clip = 8.0,
    embd_scale = 2.0, residual_scale = 0.5, logit_scale = 2.0, attn_scale = 0.3, norm = "layer", router = "sigmoid",
    route_norm = false, route_scale = 2.5, n_route_group = 5, n_route_group_used = 2, route_group_top = 1,
    router_jitter = 0.01, shared_gate = true, latent_eps = 1e-5 }
  local names, seen = {}, { [layout_of(function() end).hash] = "none" }
  for name in pairs(changes) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local layout = layout_of(function(m)
      if name == "n_head" then m.head_dim, m.n_head_kv = 8, 4 end -- the same rows in more heads
      m[name] = changes[name]
    end)
    eq(seen[layout.hash], nil, name)
    seen[layout.hash] = name
  end
  for i, key in ipairs { "factor", "orig_ctx", "beta_fast", "beta_slow", "attn_factor" } do
    local rope = { type = "yarn", factor = 4.0, orig_ctx = 64, beta_fast = 32.0, beta_slow = 1.0, truncate = false }
    rope[key] = 10 + i
    local hash = layout_of(function(m) m.rope = rope end).hash
    eq(seen[hash], nil, key)
    seen[hash] = key
  end
end

function T.test_layout_hash_compares_floats_as_the_binary_does()
  local single = string.unpack("<f", string.pack("<f", 1e-5))
  eq(layout_of(function(m) m.norm_eps = single end).hash, layout_of(function() end).hash)
end

function T.test_layout_text_names_the_model()
  local text = layout_of(function() end).text
  lu.assertStrMatches(text, "mixtral, 2 layers of 5 experts %(2 used%), 4 heads over 2 of 16, rope 10000, 64 wide, "
    .. "expert width 96, vocabulary 40, facts %x+; expert f32, attn f32, embed f32, output f32, router f32; %d+ bytes")
  lu.assertNotEquals(layout_of(function(m) m.norm_eps = 1e-6 end).text, text)
end

return T

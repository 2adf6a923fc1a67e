-- make_gguf.lua FOLDER OUT [fused] -- a float32 checkpoint of a family as the GGUF that its converters write.
--
-- fused: q, k and v in one tensor, gate and up of the experts in another, which writers can do.
-- Independent of gen/families: names, keys and row orders are those of the public
-- converter for each architecture, so that both ways into the engine can be compared.
local json = require "dkjson"
local W = dofile "tests/e2e/gguf_writer.lua"
local add, u32, f32, bool, str = W.add, W.u32, W.f32, W.bool, W.str
local rows, transposed, permuted, joined = W.rows, W.transposed, W.permuted, W.joined

local folder, out = arg[1], arg[2]
local function read(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read("a")
  f:close()
  return s
end

local config = json.decode(read(folder .. "/config.json"))
local text = read(folder .. "/model.safetensors")
local n_head = ("<I8"):unpack(text)
local head = json.decode(text:sub(9, 8 + n_head))

-- A tensor as rows of bytes: { rows..., cols = n }; vectors are one row.
local function tensor(name)
  local h = assert(head[name], name)
  local cols = h.shape[#h.shape]
  local t, at, stop = { cols = cols }, 9 + n_head + h.data_offsets[1], 8 + n_head + h.data_offsets[2]
  assert(h.dtype == "F32")
  for from = at, stop, 4 * cols do t[#t + 1] = text:sub(from, from + 4 * cols - 1) end
  return t
end
local function has(name) return head[name] ~= nil end

local ARCH = { llama = "llama", qwen3_moe = "qwen3moe", olmoe = "olmoe", qwen2_moe = "qwen2moe",
               granitemoe = "granitemoe", glm4_moe = "glm4moe", dbrx = "dbrx", gpt_oss = "gpt-oss", deepseek_v2 = "deepseek2",
               deepseek_v3 = "deepseek2", phimoe = "phimoe" }
local kind = config.model_type
local arch = assert(ARCH[kind], kind)
local c, a = config, arch .. "."
local ffn, attn = c.ffn_config or {}, c.attn_config or {}
local heads = c.num_attention_heads or c.n_heads
local heads_kv = c.num_key_value_heads or attn.kv_n_heads or heads
local embd, layers = c.hidden_size or c.d_model, c.num_hidden_layers or c.n_layers
local hd = c.head_dim or embd // heads
local experts = c.num_experts or c.num_local_experts or c.n_routed_experts or ffn.moe_num_experts
local mla = arch == "deepseek2"

str("general.architecture", arch)
u32(a .. "block_count", layers)
u32(a .. "context_length", c.max_position_embeddings or c.max_seq_len)
u32(a .. "embedding_length", embd)
u32(a .. "feed_forward_length", c.intermediate_size or ffn.ffn_hidden_size)
u32(a .. "attention.head_count", heads)
u32(a .. "attention.head_count_kv", mla and 1 or heads_kv)
u32(a .. "expert_count", experts)
u32(a .. "expert_used_count", c.num_experts_per_tok or ffn.moe_top_k)
u32(a .. "expert_feed_forward_length", c.moe_intermediate_size or kind == "gpt_oss" and c.intermediate_size or nil)
u32(a .. "expert_shared_feed_forward_length", c.shared_expert_intermediate_size)
u32(a .. "expert_shared_count", c.n_shared_experts)
u32(a .. "leading_dense_block_count", c.first_k_dense_replace)
f32(a .. "expert_weights_scale", c.routed_scaling_factor)
if mla or arch == "glm4moe" then
  bool(a .. "expert_weights_norm", c.norm_topk_prob)
  u32(a .. "expert_gating_func", kind == "deepseek_v2" and 1 or 2)
  if c.n_group and c.n_group > 1 then
    u32(a .. "expert_group_count", c.n_group)
    u32(a .. "expert_group_used_count", c.topk_group)
  end
end
f32(a .. (arch == "dbrx" and "attention.layer_norm_epsilon" or "attention.layer_norm_rms_epsilon"),
  c.rms_norm_eps or 1e-5)
f32(a .. "rope.freq_base", c.rope_theta or attn.rope_theta)
f32(a .. "attention.clamp_kqv", attn.clip_qkv)
if kind == "gpt_oss" or kind == "phimoe" then u32(a .. "attention.sliding_window", c.sliding_window) end
f32(a .. "embedding_scale", c.embedding_multiplier)
f32(a .. "residual_scale", c.residual_multiplier)
f32(a .. "attention.scale", c.attention_multiplier)
f32(a .. "logit_scale", c.logits_scaling)
if mla then
  u32(a .. "attention.q_lora_rank", c.q_lora_rank)
  u32(a .. "attention.kv_lora_rank", c.kv_lora_rank)
  u32(a .. "attention.key_length", c.kv_lora_rank + c.qk_rope_head_dim)
  u32(a .. "attention.value_length", c.kv_lora_rank)
  u32(a .. "attention.key_length_mla", c.qk_nope_head_dim + c.qk_rope_head_dim)
  u32(a .. "attention.value_length_mla", c.v_head_dim)
  u32(a .. "rope.dimension_count", c.qk_rope_head_dim)
else
  u32(a .. "attention.key_length", hd)
  u32(a .. "attention.value_length", hd)
  u32(a .. "rope.dimension_count", math.tointeger(hd * (c.partial_rotary_factor or 1)))
end
if kind == "phimoe" then -- the divisors are tensors, and no key names the scheme
  local r = c.rope_scaling
  local function floats(list) return { cols = #list, ("<" .. ("f"):rep(#list)):pack(table.unpack(list)) } end
  u32(a .. "rope.scaling.original_context_length", r.original_max_position_embeddings)
  f32(a .. "rope.scaling.attn_factor", math.sqrt(1 + math.log(c.max_position_embeddings
    / r.original_max_position_embeddings) / math.log(r.original_max_position_embeddings)))
  add("rope_factors_long.weight", floats(r.long_factor))
  add("rope_factors_short.weight", floats(r.short_factor))
elseif c.rope_scaling then
  str(a .. "rope.scaling.type", "yarn")
  f32(a .. "rope.scaling.factor", c.rope_scaling.factor)
  u32(a .. "rope.scaling.original_context_length", c.rope_scaling.original_max_position_embeddings)
  f32(a .. "rope.scaling.yarn_log_multiplier", c.rope_scaling.mscale_all_dim and 0.1 * c.rope_scaling.mscale_all_dim)
end

-- Tensors whose bytes stay as they are: ending in the checkpoint -> in GGUF.
local SAME = {
  ["input_layernorm.weight"] = "attn_norm.weight", ["self_attn.q_proj.bias"] = "attn_q.bias",
  ["self_attn.k_proj.bias"] = "attn_k.bias", ["self_attn.v_proj.bias"] = "attn_v.bias",
  ["self_attn.v_proj.weight"] = "attn_v.weight", ["self_attn.o_proj.weight"] = "attn_output.weight",
  ["self_attn.o_proj.bias"] = "attn_output.bias", ["self_attn.q_norm.weight"] = "attn_q_norm.weight",
  ["self_attn.k_norm.weight"] = "attn_k_norm.weight", ["self_attn.sinks"] = "attn_sinks.weight",
  ["self_attn.q_a_proj.weight"] = "attn_q_a.weight", ["self_attn.q_a_layernorm.weight"] = "attn_q_a_norm.weight",
  ["self_attn.q_b_proj.weight"] = "attn_q_b.weight",
  ["self_attn.kv_a_proj_with_mqa.weight"] = "attn_kv_a_mqa.weight",
  ["self_attn.kv_a_layernorm.weight"] = "attn_kv_a_norm.weight",
  ["mlp.gate.weight"] = "ffn_gate_inp.weight", ["mlp.router.weight"] = "ffn_gate_inp.weight",
  ["mlp.router.bias"] = "ffn_gate_inp.bias", ["block_sparse_moe.router.layer.weight"] = "ffn_gate_inp.weight",
  ["mlp.gate.e_score_correction_bias"] = "exp_probs_b.bias",
  ["mlp.shared_expert_gate.weight"] = "ffn_gate_inp_shexp.weight",
  ["mlp.gate_proj.weight"] = "ffn_gate.weight", ["mlp.up_proj.weight"] = "ffn_up.weight",
  ["mlp.down_proj.weight"] = "ffn_down.weight",
  ["norm_attn_norm.attn.Wqkv.weight"] = "attn_qkv.weight",
  ["norm_attn_norm.attn.out_proj.weight"] = "attn_output.weight",
  ["norm_attn_norm.norm_1.weight"] = "attn_norm.weight", ["norm_attn_norm.norm_2.weight"] = "attn_output_norm.weight",
  ["ffn.router.layer.weight"] = "ffn_gate_inp.weight", ["block_sparse_moe.gate.weight"] = "ffn_gate_inp.weight",
  ["input_layernorm.bias"] = "attn_norm.bias", ["post_attention_layernorm.bias"] = "ffn_norm.bias",
}
for _, part in ipairs { "gate", "up", "down" } do
  for _, word in ipairs { "shared_expert", "shared_experts" } do
    SAME[("mlp.%s.%s_proj.weight"):format(word, part)] = ("ffn_%s_shexp.weight"):format(part)
  end
end
SAME["post_attention_layernorm.weight"] = (arch == "gpt-oss" or arch == "glm4moe") and "post_attention_norm.weight"
  or "ffn_norm.weight"

-- f(each expert's rows) of a tensor that holds all of them.
local function each(t, f)
  local parts, n = {}, #t // experts
  for e = 0, experts - 1 do parts[e + 1] = f(rows(t, e * n, n)) end
  return joined(parts)
end

local function add_experts(p, b)
  local ff = c.moe_intermediate_size or c.intermediate_size
  if has(p .. "mlp.experts.0.up_proj.weight") then
    for _, part in ipairs { "gate", "up", "down" } do
      local parts = {}
      for e = 1, experts do parts[e] = tensor(("%smlp.experts.%d.%s_proj.weight"):format(p, e - 1, part)) end
      add(("%sffn_%s_exps.weight"):format(b, part), joined(parts), experts)
    end
  elseif kind == "phimoe" then
    for w, part in ipairs { "gate", "down", "up" } do
      local parts = {}
      for e = 1, experts do parts[e] = tensor(("%sblock_sparse_moe.experts.%d.w%d.weight"):format(p, e - 1, w)) end
      add(("%sffn_%s_exps.weight"):format(b, part), joined(parts), experts)
    end
  elseif kind == "granitemoe" then
    local t = tensor(p .. "block_sparse_moe.input_linear.weight")
    add(b .. "ffn_gate_exps.weight", each(t, function(x) return rows(x, 0, ff) end), experts)
    add(b .. "ffn_up_exps.weight", each(t, function(x) return rows(x, ff, ff) end), experts)
    add(b .. "ffn_down_exps.weight", tensor(p .. "block_sparse_moe.output_linear.weight"), experts)
  elseif kind == "dbrx" then
    add(b .. "ffn_gate_exps.weight", tensor(p .. "ffn.experts.mlp.w1"), experts)
    add(b .. "ffn_up_exps.weight", tensor(p .. "ffn.experts.mlp.v1"), experts)
    add(b .. "ffn_down_exps.weight", each(tensor(p .. "ffn.experts.mlp.w2"), transposed), experts)
  elseif kind == "gpt_oss" then
    local t, bias = tensor(p .. "mlp.experts.gate_up_proj"), tensor(p .. "mlp.experts.gate_up_proj_bias")
    for which, part in ipairs { "gate", "up" } do
      local function mine(x) return rows(transposed(x), which - 1, ff, 2) end
      add(("%sffn_%s_exps.weight"):format(b, part), each(t, mine), experts)
      add(("%sffn_%s_exps.bias"):format(b, part), each(bias, function(x) return transposed(mine(x)) end))
    end
    add(b .. "ffn_down_exps.weight", each(tensor(p .. "mlp.experts.down_proj"), transposed), experts)
    add(b .. "ffn_down_exps.bias", tensor(p .. "mlp.experts.down_proj_bias"))
  end
end

local function add_attention(p, b)
  local interleaved = arch == "llama" or arch == "granitemoe"
  for _, name in ipairs { "q", "k" } do
    local from = ("%sself_attn.%s_proj.weight"):format(p, name)
    if has(from) then
      local t = tensor(from)
      add(("%sattn_%s.weight"):format(b, name), interleaved and permuted(t, name == "q" and heads or heads_kv) or t)
    end
  end
  if mla then
    local t, keys, values = tensor(p .. "self_attn.kv_b_proj.weight"), {}, {}
    local nope, each_head = c.qk_nope_head_dim, c.qk_nope_head_dim + c.v_head_dim
    for h = 0, heads - 1 do
      keys[h + 1] = transposed(rows(t, h * each_head, nope))
      values[h + 1] = rows(t, h * each_head + nope, c.v_head_dim)
    end
    add(b .. "attn_k_b.weight", joined(keys), heads)
    add(b .. "attn_v_b.weight", joined(values), heads)
  end
end

local OUTER = kind == "dbrx" and { "transformer.wte.weight", "transformer.norm_f.weight" }
  or { "model.embed_tokens.weight", "model.norm.weight" }
add("token_embd.weight", tensor(OUTER[1]))
add("output_norm.weight", tensor(OUTER[2]))
if has "lm_head.weight" then add("output.weight", tensor "lm_head.weight") end
if has "model.norm.bias" then add("output_norm.bias", tensor "model.norm.bias") end
if has "lm_head.bias" then add("output.bias", tensor "lm_head.bias") end
local endings = {}
for ending in pairs(SAME) do endings[#endings + 1] = ending end
table.sort(endings)
for l = 0, layers - 1 do
  local p = (kind == "dbrx" and "transformer.blocks.%d." or "model.layers.%d."):format(l)
  local b = ("blk.%d."):format(l)
  for _, ending in ipairs(endings) do
    if has(p .. ending) then
      local t = tensor(p .. ending)
      -- One logit's weights are a vector.
      add(b .. SAME[ending], t)
    end
  end
  add_attention(p, b)
  add_experts(p, b)
end

if arg[3] == "fused" then
  for l = 0, layers - 1 do
    local b = ("blk.%d."):format(l)
    for _, what in ipairs { ".weight", ".bias" } do
      W.fuse({ b .. "attn_q" .. what, b .. "attn_k" .. what, b .. "attn_v" .. what }, b .. "attn_qkv" .. what)
    end
    W.fuse({ b .. "ffn_gate_exps.weight", b .. "ffn_up_exps.weight" }, b .. "ffn_gate_up_exps.weight")
  end
end

W.write(out)

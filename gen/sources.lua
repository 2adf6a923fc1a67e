-- gen/sources.lua -- every file whose text decides the output: the plan hash covers them.

local families = require "gen.families"

local M = {
  modules = {
    "gen/args.lua", "gen/c.lua", "gen/checkpoint.lua", "gen/checkpoint_facts.lua", "gen/describe.lua",
    "gen/device_kinds.lua",
    "gen/dump.lua", "gen/emit.lua", "gen/emit_facts.lua", "gen/emit_predict.lua", "gen/explain.lua",
    "gen/facts.lua", "gen/families.lua", "gen/families/common.lua",
    "gen/families/deepseek.lua", "gen/formats.lua", "gen/gguf.lua", "gen/gguf_model.lua",
    "gen/gguf_parts.lua", "gen/gguf_rope.lua", "gen/gguf_tensors.lua", "gen/gguf_types.lua",
    "gen/gguf_vocab.lua", "gen/hash.lua", "gen/history.lua", "gen/hf.lua", "gen/hw.lua", "gen/load.lua",
    "gen/model.lua", "gen/num.lua", "gen/options.lua", "gen/plan.lua", "gen/plan_background.lua",
    "gen/plan_batch.lua", "gen/plan_bias.lua",
    "gen/plan_cache.lua", "gen/plan_device.lua", "gen/plan_facts.lua", "gen/plan_fast.lua",
    "gen/plan_hit.lua", "gen/plan_hot.lua", "gen/plan_kernels.lua",
    "gen/plan_kinds.lua", "gen/plan_layout.lua", "gen/plan_mem.lua", "gen/plan_pace.lua",
    "gen/plan_predict.lua", "gen/plan_prefetch.lua", "gen/plan_rate.lua", "gen/plan_rope.lua",
    "gen/plan_size.lua", "gen/plan_tier.lua", "gen/plan_ways.lua", "gen/predictor.lua", "gen/quant.lua", "gen/rope.lua",
    "gen/schema.lua", "gen/shape.lua", "gen/sources.lua", "gen/template.lua", "gen/trace.lua",
  },
  templates = { "templates/config.h", "templates/tables.h", "templates/tables.c", "templates/build.mk" },
}

for _, file in ipairs(families.files) do M.modules[#M.modules + 1] = ("gen/families/%s.lua"):format(file) end

return M

-- gen/hw.lua -- what a hardware profile may say, and what follows from it.
--
-- Bytes are bytes, bandwidths bytes a second.

local schema = require "gen.schema"

local M = {}

M.isas = { "ref", "avx2", "avx512", "amx", "neon", "i8mm" }

local BANDWIDTH = { min = 1000000, max = 1 << 50 }

local function bandwidth(name, optional)
  return { name = name, kind = "integer", min = BANDWIDTH.min, max = BANDWIDTH.max,
           optional = optional }
end

local function bytes(name, min, default)
  return { name = name, kind = "integer", min = min, max = 1 << 50, default = default }
end

M.gpu_fields = {
  { name = "name", kind = "string" },
  { name = "arch", kind = "string", pattern = "^sm_%d%d%d?$", want = 'an architecture such as "sm_89"' },
  bytes("vram", 1 << 28),
  bytes("vram_reserve", 0),
  bandwidth("vram_bw"),
  bandwidth("link_bw"),
  -- From the device; each way when both are used; what the link and the cores read of RAM at the same time.
  bandwidth("link_up_bw", true), bandwidth("link_both_bw", true),
  bandwidth("busy_link_bw", true), bandwidth("busy_cpu_bw", true),
  { name = "unified", kind = "boolean", default = false }, -- RAM and VRAM are one memory
}

M.fields = {
  { name = "source",  kind = "string", pattern = "%S", want = "where these numbers come from" },
  { name = "isa",     kind = "choice", choices = M.isas },
  { name = "cores",   kind = "integer", min = 1, max = 1024 },
  bytes("ram", 1 << 28),
  bandwidth("mem_bw"),
  bandwidth("core_bw", true),
  bandwidth("hash_bw", true),
  bandwidth("disk_bw"),
  bandwidth("disk_burst_bw", true),
  -- How to read: bytes of a read and how many at a time; what one small read takes, in nanoseconds.
  { name = "disk_piece",   kind = "integer", min = 1 << 16, max = 1 << 24, default = 1 << 20 },
  { name = "disk_depth",   kind = "integer", min = 1, max = 64, default = 8 },
  { name = "disk_latency", kind = "integer", min = 1000, max = 1000000000, default = 100000 },
  { name = "cache", kind = "table", fields = { bytes("l1d", 0), bytes("l2", 0), bytes("l3", 0) } },
  { name = "gpu", kind = "table", fields = M.gpu_fields, optional = true },
}

--- @return table hw (complete only when no problem was added)
function M.check(stated, file, problems)
  local before = #problems
  local hw = schema.check(M.fields, stated, file, problems)
  if #problems > before then return hw end
  hw.core_bw = hw.core_bw or hw.mem_bw
  hw.disk_burst_bw = hw.disk_burst_bw or hw.disk_bw
  hw.hash_bw = hw.hash_bw or hw.core_bw * 3 // 5   -- not measured: a Zen 5 and a Sapphire Rapids reach 0.6 to 0.7 of it
  -- What the system and other programs keep: a sixteenth, at least 512 MiB,
  -- but never more than a quarter of a very small machine.
  hw.ram_reserve = math.max(hw.ram // 16, math.min(512 << 20, hw.ram // 4))
  hw.ram_usable = hw.ram - hw.ram_reserve
  -- What the cores can pull together: below the memory's rate where they are few.
  hw.cpu_bw = math.min(hw.cores * hw.core_bw, hw.mem_bw)
  if hw.gpu then
    -- What is not stated is as each alone.
    hw.gpu.busy_link_bw = hw.gpu.busy_link_bw or hw.gpu.link_bw
    hw.gpu.busy_cpu_bw = hw.gpu.busy_cpu_bw or hw.cpu_bw
  end
  if hw.gpu and hw.gpu.vram_reserve >= hw.gpu.vram then
    problems[#problems + 1] = schema.problem(file, "gpu.vram_reserve",
      ("less than gpu.vram (%d)"):format(hw.gpu.vram), schema.show(hw.gpu.vram_reserve))
  end
  return hw
end

return M

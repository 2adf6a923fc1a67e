-- A hardware profile: copy, fill in, name the file after the machine.  Bytes are
-- bytes, rates bytes a second.  Say of each number where it was measured, or that
-- it is assumed.  `build.lua MODEL this` measures the machine it runs on and
-- writes such a file.  The values here are a small valid example that any
-- machine can run: no instruction set beyond the compiler's own.
hardware {
  source = "assumed: an example",  -- where the numbers come from; the plan's report shows it

  isa = "ref",         -- kernels: ref (plain C), avx2 (with FMA, F16C), avx512 (F BW DQ VL VNNI), amx (tiles for BF16 beside it);
                       -- AArch64: neon (with dot products), i8mm (neon and matrix products)
  cores = 2,           -- physical cores: the most threads (`--set threads=N` overrides)
  ram = 4 << 30,       -- all of it; the plan leaves a sixteenth, at least 512 MiB, to the system
  mem_bw = 10e9,       -- reading memory with all cores, far beyond the last cache level
  core_bw = 8e9,       -- optional: with one core; left out, one core is taken to reach mem_bw
  hash_bw = 5e9,       -- optional: at which one core checks bytes that come from disk; left out, 3/5 of core_bw
  disk_bw = 500e6,     -- direct reads of the disk with the weights
  disk_burst_bw = 400e6,  -- optional: of the few reads that one layer waits for, without their latency; left out, disk_bw
  disk_piece = 1 << 20, disk_depth = 8,  -- optional: the reads that reach this, with the least under way
  disk_latency = 100e3,                  -- optional: nanoseconds of one small read alone
  cache = { l1d = 32 << 10, l2 = 256 << 10, l3 = 4 << 20 },  -- 0 where there is none

  -- A machine with a GPU adds (see hw/4090.lua):
  -- gpu = {
  --   name = "GeForce RTX 4090",
  --   arch = "sm_89",             -- kernels are compiled for it
  --   vram = 24564 << 20,         -- as the driver reports it
  --   vram_reserve = 1920 << 20,  -- what the driver, the display and fragmentation take
  --   vram_bw = 900e9,            -- reading VRAM
  --   link_bw = 25e9,             -- host to device, pinned, in copies of an expert's size
  --   link_up_bw = 25e9, link_both_bw = 20e9,  -- optional: device to host; each way at the same time
  --   busy_link_bw = 20e9, busy_cpu_bw = 40e9, -- optional: what the link and all cores read of RAM at the same time
  --   unified = true,                          -- optional: RAM and VRAM are one memory, which holds the weights once
  -- },
}

-- A one-socket Ampere Altra Q80-30: 80 Neoverse N1 cores (dot products, no i8mm), 8 channels of DDR4-3200.
-- Caches, cores and the memory's paper rate (204 GB/s): AnandTech, "The Ampere Altra Review", 18 December 2020.
-- No such machine was at hand: the kernels were tested under an emulator, no speed was measured.
hardware {
  source = "paper figures (AnandTech, The Ampere Altra Review); rates assumed: measure with `build.lua MODEL this`",
  isa = "neon",
  cores = 80,
  ram = 256 << 30,  -- assumed: 8 modules of 32 GB
  mem_bw = 160e9,   -- assumed: four fifths of the paper rate
  core_bw = 12e9,   -- assumed
  disk_bw = 3e9,    -- assumed: NVMe on PCIe 4
  cache = { l1d = 64 << 10, l2 = 1 << 20, l3 = 32 << 20 },
}

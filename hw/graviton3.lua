-- An AWS c7g.16xlarge: Graviton3, 64 Neoverse V1 cores (i8mm), 8 channels of DDR5-4800, 128 GB.
-- Caches, cores and the memory's paper rate (307.2 GB/s): WikiChip, "AWS Graviton3".
-- No such machine was at hand: the kernels were tested under an emulator, no speed was measured.
hardware {
  source = "paper figures (WikiChip, AWS Graviton3); rates assumed: measure with `build.lua MODEL this`",
  isa = "i8mm",
  cores = 64,
  ram = 128 << 30,
  mem_bw = 240e9,  -- assumed: about four fifths of the paper rate
  core_bw = 20e9,  -- assumed
  disk_bw = 1e9,   -- assumed: network storage
  cache = { l1d = 64 << 10, l2 = 1 << 20, l3 = 32 << 20 },
}

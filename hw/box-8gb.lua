-- A small box: 4 cores with AVX2, 8 GB of RAM, an SSD, no GPU.
hardware {
  source = "assumed: typical of the class; measure with `build.lua MODEL this`",
  isa = "avx2",
  cores = 4,
  ram = 8 << 30,
  mem_bw = 20e9,    -- assumed: one channel of DDR5-4800 is 38.4 GB/s on paper
  core_bw = 10e9,   -- assumed
  disk_bw = 500e6,  -- assumed: SATA
  cache = { l1d = 32 << 10, l2 = 2 << 20, l3 = 6 << 20 },
}

-- A desktop with AVX2 and no GPU: 8 cores, 64 GB of dual-channel DDR4-3200.
hardware {
  source = "assumed: typical of the class; measure with `build.lua MODEL this`",
  isa = "avx2",
  cores = 8,
  ram = 64 << 30,
  mem_bw = 38e9,   -- assumed: 75 % of 51.2 GB/s
  core_bw = 20e9,  -- assumed
  disk_bw = 2e9,   -- assumed: NVMe on PCIe 3
  cache = { l1d = 32 << 10, l2 = 512 << 10, l3 = 32 << 20 },
}

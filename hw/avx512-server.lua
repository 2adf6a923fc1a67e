-- A one-socket server with AVX-512 (VNNI) and no GPU: 32 cores, 256 GB of DDR5.
hardware {
  source = "assumed: typical of the class; measure with `build.lua MODEL this`",
  isa = "avx512",
  cores = 32,
  ram = 256 << 30,
  mem_bw = 200e9,  -- assumed: 8 channels of DDR5-4800 are 307 GB/s on paper
  core_bw = 14e9,  -- measured: one thread of a 16-core Xeon (AVX-512, DDR5)
  disk_bw = 3e9,   -- assumed: NVMe on PCIe 4
  cache = { l1d = 48 << 10, l2 = 2 << 20, l3 = 60 << 20 },
}

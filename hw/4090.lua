-- A workstation: one GeForce RTX 4090 (24 GB), 16 cores, 128 GB of DDR5.
hardware {
  source = "assumed: data sheets less a quarter; measure with `build.lua MODEL this`",
  isa = "avx2",
  cores = 16,
  ram = 128 << 30,
  mem_bw = 60e9,   -- assumed: dual-channel DDR5-5600 is 89.6 GB/s on paper
  core_bw = 25e9,  -- assumed
  disk_bw = 5e9,   -- assumed: NVMe on PCIe 4
  cache = { l1d = 32 << 10, l2 = 1 << 20, l3 = 64 << 20 },
  gpu = {
    name = "GeForce RTX 4090",
    arch = "sm_89",
    vram = 24564 << 20,         -- as the driver reports it
    vram_reserve = 1920 << 20,  -- assumed: CUDA context, display, fragmentation
    vram_bw = 900e9,            -- assumed: 1008 GB/s on paper
    link_bw = 25e9,             -- assumed: PCIe 4 x16, pinned, is 31.5 GB/s on paper
  },
}

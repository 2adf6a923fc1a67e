-- A desktop: one GeForce RTX 3060 (12 GB), 8 cores, 64 GB of DDR4.
hardware {
  source = "assumed: data sheets (GeForce RTX 3060, DDR4-3200) less a quarter; measure with `build.lua MODEL this`",
  isa = "avx2",
  cores = 8,
  ram = 64 << 30,
  mem_bw = 38e9,   -- assumed: dual-channel DDR4-3200 is 51.2 GB/s on paper
  core_bw = 20e9,  -- assumed
  disk_bw = 2e9,   -- assumed: NVMe on PCIe 3
  cache = { l1d = 32 << 10, l2 = 512 << 10, l3 = 32 << 20 },
  gpu = {
    name = "GeForce RTX 3060",
    arch = "sm_86",
    vram = 12288 << 20,         -- data sheet
    vram_reserve = 1536 << 20,  -- assumed: CUDA context, kernels, display
    vram_bw = 320e9,            -- assumed: 192 bits at 15 Gbit/s are 360 GB/s on paper
    link_bw = 24e9,             -- assumed: PCIe 4 x16, pinned, is 31.5 GB/s on paper
  },
}

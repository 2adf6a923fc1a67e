-- A server with one A100 (80 GB, PCIe), 32 cores with AVX2 and 256 GB of DDR4.
hardware {
  source = "assumed: data sheets (A100 80GB PCIe, DDR4-3200) less a quarter; measure with `build.lua MODEL this`",
  isa = "avx2",
  cores = 32,
  ram = 256 << 30,
  mem_bw = 150e9,  -- assumed: 8 channels of DDR4-3200 are 204.8 GB/s on paper
  core_bw = 14e9,  -- assumed
  disk_bw = 3e9,   -- assumed: NVMe on PCIe 4
  cache = { l1d = 32 << 10, l2 = 512 << 10, l3 = 128 << 20 },
  gpu = {
    name = "A100 80GB PCIe",
    arch = "sm_80",
    vram = 80 << 30,            -- data sheet
    vram_reserve = 1536 << 20,  -- assumed: CUDA context, kernels
    vram_bw = 1600e9,           -- assumed: 1935 GB/s on paper
    link_bw = 24e9,             -- assumed: PCIe 4 x16, pinned, is 31.5 GB/s on paper
  },
}

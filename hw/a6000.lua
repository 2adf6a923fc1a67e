-- A workstation: one RTX A6000 (48 GB), 16 cores, 128 GB of DDR5.
hardware {
  source = "assumed: data sheets (RTX A6000, DDR5-5600) less a quarter; measure with `build.lua MODEL this`",
  isa = "avx2",
  cores = 16,
  ram = 128 << 30,
  mem_bw = 60e9,   -- assumed: dual-channel DDR5-5600 is 89.6 GB/s on paper
  core_bw = 25e9,  -- assumed
  disk_bw = 5e9,   -- assumed: NVMe on PCIe 4
  cache = { l1d = 32 << 10, l2 = 1 << 20, l3 = 64 << 20 },
  gpu = {
    name = "RTX A6000",
    arch = "sm_86",
    vram = 48 << 30,            -- data sheet, less where ECC is on
    vram_reserve = 3072 << 20,  -- assumed: ECC, CUDA context, kernels, display
    vram_bw = 680e9,            -- assumed: 768 GB/s on paper
    link_bw = 24e9,             -- assumed: PCIe 4 x16, pinned, is 31.5 GB/s on paper
  },
}

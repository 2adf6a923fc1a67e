-- A Jetson AGX Orin (64 GB): 12 Arm cores and a GPU that share one memory.
hardware {
  source = "assumed: data sheet (Jetson AGX Orin 64GB) less a quarter; measure with `build.lua MODEL this`",
  isa = "neon",   -- Cortex-A78AE: dot products, no i8mm
  cores = 12,
  ram = 64 << 30,
  mem_bw = 150e9,  -- assumed: 256 bits of LPDDR5 are 204.8 GB/s on paper
  core_bw = 12e9,  -- assumed
  disk_bw = 2e9,   -- assumed: NVMe on PCIe 4
  cache = { l1d = 64 << 10, l2 = 256 << 10, l3 = 2 << 20 },  -- data sheet: Cortex-A78AE
  gpu = {
    name = "Jetson AGX Orin",
    arch = "sm_87",
    vram = 64 << 30,            -- the same memory as ram
    vram_reserve = 6 << 30,     -- assumed: the system, the CUDA context, kernels
    vram_bw = 150e9,            -- assumed: as mem_bw
    link_bw = 75e9,             -- assumed: a copy reads and writes that memory
    unified = true,
  },
}

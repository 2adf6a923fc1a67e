-- A server with one H200 (141 GB), 16 cores with AVX-512 and 128 GB of RAM.
hardware {
  source = "measured on one such machine (bench/results/h200/); disk and caches assumed",
  isa = "avx512",
  cores = 16,
  ram = 128 << 30,
  mem_bw = 116e9,   -- measured: 12 threads
  core_bw = 14e9,   -- measured
  disk_bw = 2e9,    -- measured: direct reads of 16 MiB
  cache = { l1d = 48 << 10, l2 = 2 << 20, l3 = 60 << 20 },  -- assumed
  gpu = {
    name = "H200",
    arch = "sm_90",
    vram = 143771 << 20,        -- as the driver reports it
    vram_reserve = 1536 << 20,  -- assumed: CUDA context, kernels
    vram_bw = 4.4e12,           -- measured: reading several GB
    link_bw = 53.5e9,           -- measured: pinned, copies of 4 MiB; as the next four, by tools/probe_gpu.c
    link_up_bw = 54e9, link_both_bw = 47.8e9,
    busy_link_bw = 53e9, busy_cpu_bw = 76.1e9,
  },
}

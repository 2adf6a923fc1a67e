# tests.mk -- what `make test` builds and runs; included by the Makefile.
#
# A test program prints TAP; tests/run.sh runs the commands of out/tests/list and counts.

T         := out/tests$(FLAVOR)
SHARED    := $(or $(INGOT_SHARED),../shared)
# The profile whose kernels this CPU can run.
TEST_HW   := $(shell if grep -qw avx512_vnni /proc/cpuinfo; then echo hw/avx512-server.lua; \
               elif grep -qw avx2 /proc/cpuinfo; then echo hw/avx2-desktop.lua; \
               elif grep -qw i8mm /proc/cpuinfo; then echo hw/graviton3.lua; \
               elif grep -qw asimddp /proc/cpuinfo; then echo hw/ampere-altra.lua; else echo hw/TEMPLATE.lua; fi)

# Engines that tests run: name, model, options.  out/test/t-NAME/.
ENGINE_mixtral           := tests/golden/mixtral
ENGINE_mixtral-swa       := tests/golden/mixtral-swa
ENGINE_mixtral-bf16-sharded := tests/golden/mixtral-bf16-sharded kv=f32
ENGINE_mixtral-gguf      := tests/data/mixtral-f32.gguf
ENGINE_mixtral-bf16-gguf := tests/data/mixtral-bf16.gguf kv=f32
ENGINE_demo              := tests/data/tiny-mixtral.gguf
ENGINES := mixtral mixtral-swa mixtral-bf16-sharded mixtral-gguf mixtral-bf16-gguf demo
# Families: a folder of goldens each, in tests/golden or beside the repository.
GOLDENS := llama-dense qwen3-moe qwen3-moe-bf16-sharded olmoe qwen2-moe granitemoe glm4-moe phimoe dbrx gpt-oss \
           deepseek-v2 deepseek-v3 switch-transformer
golden_of = $(firstword $(patsubst %/config.json,%,$(wildcard tests/golden/$1/config.json $(SHARED)/goldens/$1/config.json)))
$(foreach g,$(GOLDENS),$(if $(call golden_of,$g),$(eval ENGINE_$g := $(call golden_of,$g) kv=f32)$(eval ENGINES += $g)))
# The same checkpoints as GGUF.
GGUFS := llama-dense qwen3-moe olmoe qwen2-moe granitemoe glm4-moe dbrx gpt-oss deepseek-v2 deepseek-v3 phimoe
$(foreach g,$(GGUFS),$(if $(call golden_of,$g),$(eval ENGINE_$g-gguf := $(T)/gguf/$g.gguf kv=f32)$(eval ENGINES += $g-gguf)))
$(GGUFS:%=engine-%-gguf): engine-%-gguf: $(T)/gguf/%.gguf
$(T)/gguf/%.gguf: tests/e2e/make_gguf.lua tests/e2e/gguf_writer.lua
	@mkdir -p $(@D)
	@$(LUA) $< $(call golden_of,$*) $@
# Latent attention in block formats, with random weights.
ENGINE_latent-q8_0 := tests/fixture/latent.lua quant=q8_0
ENGINE_latent-q4_0 := tests/fixture/latent.lua quant=q4_0
ENGINE_latent-kvq8 := tests/fixture/latent.lua quant=q8_0 kv=q8_0
ENGINES += latent-q8_0 latent-q4_0 latent-kvq8
# The same of an encoder-decoder.
ENGINE_switch-f32  := tests/fixture/switch.lua
ENGINE_switch-q8_0 := tests/fixture/switch.lua quant=q8_0
ENGINES += switch-f32 switch-q8_0
# A KV cache in int8 blocks.
ENGINE_demo-kvq8   := tests/data/tiny-mixtral.gguf kv=q8_0
ENGINE_switch-kvq8 := tests/fixture/switch.lua kv=q8_0
ENGINES += demo-kvq8 switch-kvq8
# Plans of a tiny model with odd sizes, one a format: pack's units run on each.
ODD := f32 f16 bf16 q8_0 q4_0 q4_k q5_1 mxfp4
$(foreach f,$(ODD),$(eval ENGINE_odd-$f := tests/fixture/odd.lua quant=$f))
# Plans whose rotation is stretched, each in another way: what pack compares is tested on each.
ENGINE_longrope := tests/fixture/longrope.lua
ENGINE_llama3   := tests/fixture/llama3.lua
FACTS := deepseek-v2 gpt-oss longrope llama3
ENGINES += longrope llama3
ifneq ($(wildcard $(SHARED)/models/tiny-mixtral/config.json),)
ENGINE_tiny-f32  := $(SHARED)/models/tiny-mixtral quant=f32
ENGINE_tiny-bf16 := $(SHARED)/models/tiny-mixtral
ENGINE_tiny-q8_0 := $(SHARED)/models/tiny-mixtral quant=q8_0
ENGINE_tiny-q4_0 := $(SHARED)/models/tiny-mixtral quant=q4_0
ENGINE_tiny-q4_k := $(SHARED)/models/tiny-mixtral quant=q4_k quant.attn=q6_k quant.output=q5_k
ENGINE_tiny-mxfp4 := $(SHARED)/models/tiny-mixtral quant=mxfp4 quant.attn=q3_k quant.output=iq4_xs
ENGINE_tiny-kvq8 := $(SHARED)/models/tiny-mixtral quant=f32 kv=q8_0
ENGINES += tiny-kvq8 tiny-f32 tiny-bf16 tiny-q8_0 tiny-q4_0 tiny-q4_k tiny-mxfp4
endif

# The same weights copied into memory; plans that are large enough to weigh a process against.
ENGINE_demo-copy   := tests/data/tiny-mixtral.gguf load=copy
ENGINE_memory-long := tests/fixture/memory.lua ctx=32768
ENGINE_memory-wide := tests/fixture/memory.lua ctx=4096 batch=2048 load=copy
ENGINES += demo-copy memory-long memory-wide

# Experts behind two slots a layer, the fewest there can be; behind half; behind all; in the page cache.
ENGINE_tier              := tests/data/tiny-mixtral.gguf experts_ram=12.5 io=direct policy=echo-admit predict=hybrid
ENGINE_tier-half         := tests/data/tiny-mixtral.gguf experts_ram=50 sets=1 predict=next-router
ENGINE_tier-all          := tests/data/tiny-mixtral.gguf experts_ram=100 io=plain policy=lru
ENGINE_tier-mmap         := tests/data/tiny-mixtral.gguf tier=mmap
ENGINE_tier-deepseek-v2  := tests/golden/deepseek-v2 kv=f32 experts_ram=50 predict=next-router
ENGINE_tier-gpt-oss      := tests/golden/gpt-oss kv=f32 experts_ram=70
ENGINE_tier-switch        := tests/fixture/switch.lua experts_ram=50 predict=next-router
# Trained predictors, few slots, everything that is predicted fetched.
ENGINE_tier-history      := tests/data/tiny-mixtral.gguf experts_ram=25 predict=history trace=tests/data/tiny-route.trace least=0 stride=2
ENGINE_tier-forest       := tests/data/tiny-mixtral.gguf experts_ram=25 predict=forest predictor=tests/data/tiny.predictor least=0 stride=2
ENGINE_tier-mlp          := tests/data/tiny-mixtral.gguf experts_ram=25 predict=mlp predictor=tests/data/tiny.predictor least=0.2
ENGINE_tier-static       := tests/data/tiny-mixtral.gguf experts_ram=25 policy=static ways=layers trace=tests/data/tiny-route.trace
ENGINE_tier-none         := tests/data/tiny-mixtral.gguf experts_ram=25 predict=none
ENGINES += tier-history tier-forest tier-mlp tier-static tier-none
ENGINES += tier tier-half tier-all tier-mmap tier-deepseek-v2 tier-gpt-oss tier-switch

# The same engines for AArch64, run under an emulator (tools/setup_arm64.sh); elsewhere they count as skipped.
ARM64_neon  := mixtral tier tiny-kvq8
ARM64_i8mm  := gpt-oss tiny-q4_k
ARM64_UNITS := kernels_math kernels_vector kernels_quantize kernels_attn kernels_panel quants machine
ARM64_LIBS  := out/arm64/usr/lib/aarch64-linux-gnu
ARM64_CC    := aarch64-linux-gnu-gcc$(if $(wildcard $(ARM64_LIBS)), -isystem out/arm64/usr/include \
    -isystem out/arm64/usr/include/aarch64-linux-gnu -L$(ARM64_LIBS) -Wl$(comma)-rpath$(comma)$(CURDIR)/$(ARM64_LIBS))
$(foreach i,neon i8mm,$(foreach e,$(filter $(ENGINES),$(ARM64_$i)),$(eval ARM64_ENGINES += arm64-engine-$e)$(eval arm64-engine-$e: HW_OF := $i)))
HW_neon := hw/ampere-altra.lua
HW_i8mm := hw/graviton3.lua

# Engines for AMX over tiles in scalar code (TILES=1); dense-bf16 is compared with AVX-512's.
TILED := $(if $(filter x86_64,$(ARCH)),mixtral-bf16-sharded dense-bf16)
ENGINES += $(filter dense-bf16,$(TILED))
TILES_HW := $(T)/amx.lua
$(TILES_HW): hw/avx512-server.lua
	@mkdir -p $(@D)
	@sed 's/isa *= *"avx512"/isa = "amx"/' $< >$@
.PHONY: tiled
tiled: $(TILED:%=tiles-engine-%)
tiles-engine-%: $(BUILT) $(TILES_HW)
	@$(call engine_of,$(TILES_HW),tiles)
	+@$(PARALLEL) TILES=1 ID=test/tiles-$* build >/dev/null

# Engines whose step runs on a device: out/test/gpu-NAME/ (tests/gpu.sh).
GPU_HW      ?= hw/h200.lua
BLOCKS      := a b c d e
WIDE        := wide-q4_0 wide-q5_1 dense-q4_0
# More items of experts than blocks take at once in a decode step.
ITEMS       := items-q4_0 items-bf16 items-two-q4_0 items-two-bf16
DENSE       := dense-bf16 longrope llama3
# An encoder and a decoder, over more than one span of positions.
SWITCH      := switch-f32 switch-q8_0 switch-kvq8
# gemm=fast: wide rows; heads that are normed; sinks, windows, biases; a latent; an encoder, ReLU and a bias of positions.
FAST        := fast-bf16 fast-qwen3 fast-latent fast-switch $(if $(call golden_of,gpt-oss),fast-gpt-oss)
LATENT      := latent-q8_0 latent-q4_0 latent-kvq8 demo-kvq8
GPU_GOLDENS := $(foreach g,llama-dense mixtral mixtral-swa qwen3-moe olmoe qwen2-moe granitemoe glm4-moe phimoe dbrx \
               gpt-oss deepseek-v2 deepseek-v3 switch-transformer,$(if $(call golden_of,$g),$g))
# A cache of the experts on the device: few ways, of floats and of blocks; enough that a batch streams its layers; biases; a
# shared expert; a dense first layer.
XC          := xc-mixtral xc-stream xc-static xc-traced xc-odd xc-switch $(foreach g,gpt-oss qwen2-moe glm4-moe deepseek-v3,$(if $(call golden_of,$g),xc-$g))
GPU_ENGINES := $(GPU_GOLDENS) $(LATENT) mixtral-bf16 demo $(ODD:%=odd-%) odd-long $(WIDE) $(ITEMS) $(FAST) $(DENSE) $(SWITCH) $(BLOCKS:%=blocks-%) unified $(XC)
ENGINE_unified      := tests/golden/mixtral
GPU_HW_unified      := $(T)/unified.lua
# hw/h200.lua as if RAM and VRAM were one memory: the weights are mapped, and the device reads them in RAM.
gpu-engine-unified: $(T)/unified.lua
$(T)/unified.lua: hw/h200.lua
	@mkdir -p $(@D)
	@sed 's/^  gpu = {$$/&\n    unified = true,/' $< >$@
# A trace that prefers other experts in each layer than the first ones.
gpu-engine-xc-static gpu-engine-xc-traced: $(T)/skewed.csv
$(T)/skewed.csv: tests/skewed.awk
	@mkdir -p $(@D)
	@awk -f $< </dev/null >$@
ENGINE_mixtral-bf16 := tests/golden/mixtral-bf16-sharded
ENGINE_xc-mixtral   := tests/golden/mixtral vram_ways=2
ENGINE_xc-stream    := tests/golden/mixtral vram_ways=6
# Filled at start by a trace, for good; half of the slots have room for a layer that passes.
ENGINE_xc-static    := tests/golden/mixtral vram_ways=6 policy=static trace=$(T)/skewed.csv
ENGINE_xc-traced    := tests/golden/mixtral vram_ways=6 trace=$(T)/skewed.csv
ENGINE_xc-odd       := tests/fixture/odd.lua quant=q4_0 vram_ways=2
ENGINE_xc-switch    := tests/fixture/switch.lua quant=q8_0 vram_ways=5
ENGINE_xc-gpt-oss   := $(call golden_of,gpt-oss) vram_ways=4
ENGINE_xc-qwen2-moe := $(call golden_of,qwen2-moe) vram_ways=4
ENGINE_xc-deepseek-v3 := $(call golden_of,deepseek-v3) vram_ways=4
ENGINE_xc-glm4-moe  := $(call golden_of,glm4-moe) vram_ways=4
ENGINE_items-q4_0 := tests/fixture/items.lua quant=q4_0
ENGINE_items-bf16 := tests/fixture/items.lua
ENGINE_items-two-q4_0 := tests/fixture/items-two.lua quant=q4_0
ENGINE_items-two-bf16 := tests/fixture/items-two.lua
ENGINE_wide-q4_0 := tests/fixture/wide.lua quant=q4_0
ENGINE_wide-q5_1 := tests/fixture/wide.lua quant=q5_1 quant.router=bf16
ENGINE_fast-bf16 := tests/fixture/wide.lua gemm=fast
ENGINE_fast-qwen3 := tests/fixture/fast.lua gemm=fast
ENGINE_fast-latent := tests/fixture/latent.lua quant=bf16 gemm=fast
ENGINE_fast-switch := tests/fixture/switch.lua quant=bf16 gemm=fast
ENGINE_fast-gpt-oss := $(call golden_of,gpt-oss) quant=bf16 gemm=fast
# Every layer dense.
ENGINE_dense-q4_0 := tests/fixture/dense.lua quant=q4_0
ENGINE_dense-bf16 := tests/fixture/dense.lua
ENGINE_odd-long := tests/fixture/odd.lua quant=q8_0 ctx=1152
# All block formats in few engines: experts, attention, output, embedding.
blocks = tests/fixture/blocks.lua quant=$1 quant.attn=$2 quant.output=$3 quant.embed=$4
ENGINE_blocks-a := $(call blocks,q4_k,q6_k,q5_k,q3_k)
ENGINE_blocks-b := $(call blocks,q3_k,q2_k,iq4_xs,q6_k) quant.router=q8_0
ENGINE_blocks-c := $(call blocks,mxfp4,iq4_nl,q4_1,q5_1)
ENGINE_blocks-d := $(call blocks,q5_1,q5_0,q6_k,iq4_xs)
ENGINE_blocks-e := $(call blocks,q2_k,q4_k,mxfp4,mxfp4)

# Unit tests: those of PLAN_UNITS need an engine's plan, t-demo's; of TIER_UNITS, t-tier's.
TIER       := tier tier_ahead tier_fault
TIER_UNITS := $(TIER) alloc
PACK_UNITS := pack pack_refuse
PLAN_UNITS := $(filter-out $(TIER),$(patsubst tests/c/%_test.c,%,$(shell grep -lE '\#include "(config|tables|state|cmd|pack|pack_run)\.h"' tests/c/*_test.c)))
UNITS      := $(filter-out $(TIER) $(PLAN_UNITS) $(if $(filter-out x86_64,$(ARCH)),amx),$(patsubst tests/c/%_test.c,%,$(wildcard tests/c/*_test.c)))
FUZZERS    := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TEST_LIBS  := -lcmocka -ljansson -lpcre2-8 -luring -lm

$(T)/amx_test: CFLAGS += $(AMX_FLAGS)
# On the emulated device.
EMULATED_UNITS := $(T)/mma_test $(T)/fast_test $(T)/place_test
$(EMULATED_UNITS) $(COMMON)/tests/cuda/emulate.o: CFLAGS += -mavx2 -mfma -iquote tests/cuda
$(EMULATED_UNITS): EXTRA := $(COMMON)/tests/cuda/emulate.o
$(EMULATED_UNITS): $(COMMON)/tests/cuda/emulate.o
$(T)/%_test: tests/c/%_test.c $(COMMON)/libreplay.a $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -iquote tests/c -iquote tools/replay -o $@ $< $(EXTRA) $(COMMON)/libreplay.a $(COMMON)/libcommon.a $(COMMON)/libkernels.a $(TEST_LIBS)
$(TIER:%=$(OUT)/%_test$(FLAVOR)): WRAP := $(addprefix -Wl$(comma)--wrap=,ig_copy_file_open ig_copy_file_close ig_tier_wait ig_tier_layer \
    $(if $(filter thread,$(SAN)),GOMP_parallel))
UNIT_LINK  = $(Q)$(CC) $(CFLAGS) -iquote tests/c -iquote $(OUT) $(WRAP) -o $@ $< $(filter-out %/main.o,$(filter %.o,$^)) \
             $(COMMON)/libcommon.a $(COMMON)/libkernels.a $(TEST_LIBS)
PACK_OBJ  := $(foreach o,$(PLAN_OBJ),$(if $(findstring /runtime/file/,$o)$(filter %/tables.o,$o),$o))
$(PACK_UNITS:%=$(OUT)/%_test$(FLAVOR)) $(OUT)/facts_test$(FLAVOR): $(OUT)/%_test$(FLAVOR): tests/c/%_test.c $(PACK_OBJ) $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	$(UNIT_LINK)
$(OUT)/%_test$(FLAVOR): tests/c/%_test.c $(PLAN_OBJ) $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	$(UNIT_LINK)
$(T)/fuzz_%: tests/fuzz/fuzz_%.c $(COMMON)/tests/fuzz/driver.o $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(COMMON)/tests/fuzz/driver.o $(COMMON)/libcommon.a $(COMMON)/libkernels.a $(TEST_LIBS)
-include $(wildcard $(T)/*.d $(OUT)/*.d) $(COMMON)/tests/cuda/emulate.d $(COMMON)/tests/fuzz/driver.d

.PHONY: units plan-units tier-units fuzzers engine-% engines test-list
units: $(UNITS:%=$(T)/%_test)
plan-units: $(PLAN_UNITS:%=$(OUT)/%_test$(FLAVOR))
tier-units: $(TIER_UNITS:%=$(OUT)/%_test$(FLAVOR))
fuzzers: $(FUZZERS:%=$(T)/%)
engines: $(ENGINES:%=engine-%)
# Several are built at a time by the jobs of one make, so what they share is there before.
BUILT    := $(COMMON)/libcommon.a $(COMMON)/libkernels.a
# Generate: profile, id.
engine_of = $(LUA) build.lua $(firstword $(ENGINE_$*)) $1 --out out/test --set id=$2-$* \
            $(foreach s,$(wordlist 2,9,$(ENGINE_$*)),--set $(s)) >/dev/null
engine-%: $(BUILT)
	@$(call engine_of,$(TEST_HW),t)
	+@$(PARALLEL) ID=test/t-$* build >/dev/null
gpu-engine-%: $(BUILT) $(if $(EMULATE),,$(if $(wildcard $(CUDA)/include/nvrtc.h),$(TOOLS)/mkcubin))
	@$(call engine_of,$(or $(GPU_HW_$*),$(GPU_HW)),gpu) 2>&1
	+@$(PARALLEL) ID=test/gpu-$* build >/dev/null
# pack's units with the plan of a format.
PACKED := $(ODD:%=pack-odd-%)
.PHONY: $(PACKED)
$(PACKED): pack-%: $(BUILT)
	@$(call engine_of,$(TEST_HW),t)
	+@$(PARALLEL) ID=test/t-$* $(PACK_UNITS:%=out/test/t-$*/%_test$(FLAVOR))

facts-%: $(BUILT)
	+@$(PARALLEL) ID=test/t-$* out/test/t-$*/facts_test

# A driver that is too old, one with other troubles, a program that takes the device's memory.
TROUBLES := $(addprefix out/test/troubles/,libcuda.so.1 driver.so hog)
# What takes a profiler's place (make RANGES=1).
out/test/troubles/ranges.so: tests/cuda/ranges.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 $(WARN) -shared -fPIC -isystem $(CUDA)/include -o $@ $<
out/test/troubles/libcuda.so.1: TROUBLE := -shared -fPIC -DALONE
out/test/troubles/driver.so: TROUBLE := -shared -fPIC
out/test/troubles/libcuda.so.1 out/test/troubles/driver.so: tests/cuda/driver.c
out/test/troubles/hog: tests/cuda/hog.c
$(TROUBLES):
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 $(WARN) $(TROUBLE) -o $@ $< -ldl

# On a machine with the GPU of GPU_HW; with EMULATE=1 on any.
.PHONY: test-gpu gpu-engine-%
test-gpu: $(GPU_ENGINES:%=gpu-engine-%) $(TROUBLES)
	@FLAVOR=$(FLAVOR) tests/gpu.sh $(GPU_ENGINES)
# The same and bench shapes as one folder for a machine that has a GPU and little else.
ENGINE_qwen3-q4_0  := models/qwen3-30b-a3b.lua quant=q4_0 ctx=2048
ENGINE_qwen3-q4_k  := models/qwen3-30b-a3b.lua quant=q4_k ctx=2048
ENGINE_qwen3-q8_0  := models/qwen3-30b-a3b.lua quant=q8_0 ctx=2048
ENGINE_gpt-oss-20b := models/gpt-oss-20b.lua ctx=2048
ENGINE_mixtral-8x7b-q4_0 := models/mixtral.lua quant=q4_0 ctx=2048
ENGINE_deepseek-v2-lite-q4_0 := models/deepseek-v2-lite.lua quant=q4_0 ctx=2048
# Thresholds: the same layout, so one weights file.
rows = tests/fixture/rows.lua quant=q4_0 ctx=512 gemm_rows=$1 tile_rows=$2
ENGINE_rows-gemm := $(call rows,2,4096)
ENGINE_rows-tile := $(call rows,4096,2)
ENGINE_rows-none := $(call rows,4096,4096)
GPU_BENCHES := rows-gemm rows-tile rows-none qwen3-q4_0 qwen3-q4_k qwen3-q8_0 gpt-oss-20b mixtral-8x7b-q4_0 deepseek-v2-lite-q4_0
.PHONY: gpu-bundle
ifneq ($(filter gpu-bundle,$(MAKECMDGOALS)),)
ifeq ($(DEST),)
$(error gpu-bundle: want DEST=FOLDER, where the bundle goes)
endif
endif
gpu-bundle: $(TROUBLES) $(GPU_ENGINES:%=gpu-engine-%) $(GPU_BENCHES:%=gpu-engine-%)
	@tests/gpu_bundle.sh $(DEST) $(GPU_ENGINES) -- $(GPU_BENCHES)
# The part of it that `make test` runs: small, emulated, and a real build where NVRTC is; LARGE with a
# batch that goes to the matrix units and by tiles.
LARGE    := $(WIDE) $(FAST) $(SWITCH) blocks-a blocks-b blocks-e $(filter gpt-oss qwen2-moe,$(GPU_GOLDENS))
EMULATED := $(LATENT) $(WIDE) $(ITEMS) $(DENSE) $(SWITCH) odd-q4_0 odd-bf16 $(BLOCKS:%=blocks-%) $(filter-out mixtral%,$(GPU_GOLDENS)) unified $(XC)
.PHONY: emulated
emulated:
	+@$(PARALLEL) EMULATE=1 $(patsubst %,gpu-engine-%,$(sort $(EMULATED) $(LARGE)))
	+@if [ -f $(CUDA)/include/nvtx3/nvToolsExt.h ]; then $(PARALLEL) EMULATE=1 RANGES=1 gpu-engine-xc-stream out/test/troubles/ranges.so; fi
	+@if [ -f $(CUDA)/include/nvrtc.h ]; then $(PARALLEL) gpu-engine-odd-q4_0 gpu-engine-xc-mixtral $(TROUBLES) && \
	    $(SUB) STAMPS=1 ID=test/gpu-xc-mixtral out/test/gpu-xc-mixtral/stamps/step.cubin; fi

.PHONY: setup-arm64 arm64 $(ARM64_ENGINES)
setup-arm64:
	@tools/setup_arm64.sh
arm64: # builds only where the tools are, and not for this machine itself
	+@if [ $(HOST) != aarch64 ] && command -v qemu-aarch64-static >/dev/null && echo 'int main(void) { return 0; }' | \
	    $(ARM64_CC) -x c - -x none -o /dev/null $(TEST_LIBS) 2>/dev/null; then \
	    $(PARALLEL) CC="$(ARM64_CC)" $(ARM64_UNITS:%=out/tests-aarch64/%_test) && $(PARALLEL) CC="$(ARM64_CC)" $(ARM64_ENGINES); fi
$(ARM64_ENGINES): arm64-engine-%: $(BUILT)
	@$(call engine_of,$(HW_$(HW_OF)),arm64)
	+@$(PARALLEL) ID=test/arm64-$* build >/dev/null

SUB := $(MAKE) --no-print-directory
test: export DEBUG := -g1
test: setup
	@tools/setup_arm64.sh || echo "setup-arm64: failed; what needs an emulator counts as skipped" >&2
	+@$(PARALLEL) units replay
	+@$(PARALLEL) engines
	+@$(PARALLEL) ID=test/t-demo plan-units
	+@$(PARALLEL) ID=test/t-tier tier-units
	+@$(PARALLEL) SAN=address,undefined units fuzzers
	+@$(PARALLEL) SAN=address,undefined ID=test/t-demo build plan-units
	+@$(PARALLEL) SAN=address,undefined ID=test/t-tier tier-units
	+@$(PARALLEL) SAN=address,undefined $(PACKED)
	+@$(PARALLEL) tiled $(FACTS:%=facts-%)
	+@$(SUB) arm64
	+@$(SUB) emulated
	@mkdir -p $(T); out/test/t-demo/tiny-mixtral pack tests/data/tiny-mixtral.gguf -o $(T)/demo.ingot
	+@$(SUB) test-list
	@tests/run.sh out/tests/list

S := out/tests-address-undefined
# What weighs a process or its share of the machine has the machine for itself.
ALONE := tests/e2e/cli_measure_test.lua tests/e2e/load_test.lua
test-list:
	@mkdir -p out/tests
	@{ for m in mixtral mixtral-8x22b tiny-mixtral; do echo "tests/matrix.sh $(LUA) models/$$m.lua"; done; \
	   for e in $(filter-out $(ALONE),$(wildcard tests/e2e/*_test.lua)); do echo "$(LUA) $$e -o tap"; done; \
	   if [ -f $(CUDA)/include/nvrtc.h ]; then echo "tests/gpu.sh xc-mixtral"; fi; \
	   if [ -f $(CUDA)/include/nvtx3/nvToolsExt.h ]; then echo "tests/ranges.sh"; fi; \
	   for e in $(XC) $(filter-out $(XC),$(EMULATED)); do echo "env FLAVOR=-emulated GREEDY=2 BATCHES=7 SHORT=20 tests/gpu.sh $$e"; done; \
	   for e in $(LARGE); do echo "env FLAVOR=-emulated GREEDY=2 BATCHES=64 SHORT=70 tests/gpu.sh $$e"; done; \
	   echo "$(LUA) tests/gen/run.lua -o tap"; \
	   for u in $(UNITS); do echo "$(T)/$${u}_test"; done; \
	   for u in $(UNITS); do echo "$(S)/$${u}_test"; done; \
	   for u in $(PLAN_UNITS); do echo "out/test/t-demo/$${u}_test"; echo "out/test/t-demo/$${u}_test-address-undefined"; done; \
	   for u in $(TIER_UNITS); do echo "out/test/t-tier/$${u}_test"; echo "out/test/t-tier/$${u}_test-address-undefined"; done; \
	   for f in $(ODD); do for u in $(PACK_UNITS); do echo "out/test/t-odd-$$f/$${u}_test-address-undefined"; done; done; \
	   for u in $(ARM64_UNITS); do echo "tests/arm64.sh out/tests-aarch64/$${u}_test"; done; \
	   for f in $(FACTS); do echo "out/test/t-$$f/facts_test"; done; \
	   for f in $(FUZZERS); do echo "$(S)/$$f"; done; \
	   echo "tests/gates.sh"; \
	   echo alone; for e in $(ALONE); do echo "$(LUA) $$e -o tap"; done; \
	 } >out/tests/list

# Every model on every profile compiles (those without a GPU link, too).
matrix:
	tests/matrix.sh $(LUA)
golden:
	$(LUA) tests/gen/refresh.lua

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
GOLDENS := qwen3-moe qwen3-moe-bf16-sharded olmoe qwen2-moe granitemoe llama-dense glm4-moe phimoe dbrx gpt-oss \
           deepseek-v2 deepseek-v3 switch-transformer
golden_of = $(firstword $(patsubst %/config.json,%,$(wildcard tests/golden/$1/config.json $(SHARED)/goldens/$1/config.json)))
$(foreach g,$(GOLDENS),$(if $(call golden_of,$g),$(eval ENGINE_$g := $(call golden_of,$g) kv=f32)$(eval ENGINES += $g)))
# The same checkpoints as GGUF.
GGUFS := llama-dense qwen3-moe olmoe qwen2-moe granitemoe glm4-moe dbrx gpt-oss deepseek-v2 deepseek-v3 phimoe
$(foreach g,$(GGUFS),$(if $(call golden_of,$g),$(eval ENGINE_$g-gguf := $(T)/gguf/$g.gguf kv=f32)$(eval ENGINES += $g-gguf)))
$(GGUFS:%=engine-%-gguf): engine-%-gguf: $(T)/gguf/%.gguf
$(T)/gguf/%.gguf: tests/e2e/make_gguf.lua
	@mkdir -p $(@D)
	@$(LUA) $< $(call golden_of,$*) $@
# Latent attention in block formats, with random weights.
ENGINE_latent-q8_0 := tests/fixture/latent.lua quant=q8_0
ENGINE_latent-q4_0 := tests/fixture/latent.lua quant=q4_0
ENGINES += latent-q8_0 latent-q4_0
# The same of an encoder-decoder.
ENGINE_switch-f32  := tests/fixture/switch.lua
ENGINE_switch-q8_0 := tests/fixture/switch.lua quant=q8_0
ENGINES += switch-f32 switch-q8_0
# Plans of a tiny model with odd sizes, one a format: pack's units run on each.
ODD := f32 f16 bf16 q8_0 q4_0 q4_k q5_1 mxfp4
$(foreach f,$(ODD),$(eval ENGINE_odd-$f := tests/fixture/odd.lua quant=$f))
ifneq ($(wildcard $(SHARED)/models/tiny-mixtral/config.json),)
ENGINE_tiny-f32  := $(SHARED)/models/tiny-mixtral quant=f32
ENGINE_tiny-bf16 := $(SHARED)/models/tiny-mixtral
ENGINE_tiny-q8_0 := $(SHARED)/models/tiny-mixtral quant=q8_0
ENGINE_tiny-q4_0 := $(SHARED)/models/tiny-mixtral quant=q4_0
ENGINE_tiny-q4_k := $(SHARED)/models/tiny-mixtral quant=q4_k quant.attn=q6_k quant.output=q5_k
ENGINE_tiny-mxfp4 := $(SHARED)/models/tiny-mixtral quant=mxfp4 quant.attn=q3_k quant.output=iq4_xs
ENGINES += tiny-f32 tiny-bf16 tiny-q8_0 tiny-q4_0 tiny-q4_k tiny-mxfp4
endif

# Experts behind two slots a layer, the fewest there can be; behind half; behind all; in the page cache.
ENGINE_tier              := tests/data/tiny-mixtral.gguf experts_ram=12.5 io=direct policy=echo-admit predictor=next_router
ENGINE_tier-half         := tests/data/tiny-mixtral.gguf experts_ram=50 sets=1 predictor=next_router
ENGINE_tier-all          := tests/data/tiny-mixtral.gguf experts_ram=100 io=plain policy=lru
ENGINE_tier-mmap         := tests/data/tiny-mixtral.gguf tier=mmap
ENGINE_tier-deepseek-v2  := tests/golden/deepseek-v2 kv=f32 experts_ram=50 predictor=next_router
ENGINE_tier-gpt-oss      := tests/golden/gpt-oss kv=f32 experts_ram=70
ENGINE_tier-switch        := tests/fixture/switch.lua experts_ram=50 predictor=next_router
ENGINES += tier tier-half tier-all tier-mmap tier-deepseek-v2 tier-gpt-oss tier-switch

# The same engines for AArch64, run under an emulator (tools/setup_arm64.sh); elsewhere they count as skipped.
ARM64_neon  := mixtral tier tiny-mxfp4
ARM64_i8mm  := demo gpt-oss tiny-q4_k
ARM64_UNITS := kernels_math kernels_vector kernels_quantize kernels_attn kernels_panel quants machine mover
ARM64_LIBS  := out/arm64/usr/lib/aarch64-linux-gnu
ARM64_CC    := aarch64-linux-gnu-gcc$(if $(wildcard $(ARM64_LIBS)), -isystem out/arm64/usr/include \
    -isystem out/arm64/usr/include/aarch64-linux-gnu -L$(ARM64_LIBS) -Wl$(comma)-rpath$(comma)$(CURDIR)/$(ARM64_LIBS))
$(foreach i,neon i8mm,$(foreach e,$(filter $(ENGINES),$(ARM64_$i)),$(eval ARM64_ENGINES += arm64-engine-$e)$(eval arm64-engine-$e: HW_OF := $i)))
HW_neon := hw/ampere-altra.lua
HW_i8mm := hw/graviton3.lua

# Unit tests: those of PLAN_UNITS need an engine's plan, t-demo's; of TIER_UNITS, t-tier's.
TIER_UNITS := tier alloc
PLAN_UNITS := $(filter-out tier,$(patsubst tests/c/%_test.c,%,$(shell grep -lE '\#include "(config|tables|state|cmd|pack)\.h"' tests/c/*_test.c)))
UNITS      := $(filter-out tier $(PLAN_UNITS),$(patsubst tests/c/%_test.c,%,$(wildcard tests/c/*_test.c)))
FUZZERS    := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TEST_LIBS  := -lcmocka -ljansson -lpcre2-8 -luring -lm

$(T)/%_test: tests/c/%_test.c $(COMMON)/libreplay.a $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -iquote tests/c -iquote tools/replay -o $@ $< $(COMMON)/libreplay.a $(COMMON)/libcommon.a $(COMMON)/libkernels.a $(TEST_LIBS)
$(OUT)/tier_test$(FLAVOR): WRAP := $(addprefix -Wl$(comma)--wrap=,ig_copy_file_open ig_copy_file_close ig_tier_wait)
$(OUT)/%_test$(FLAVOR): tests/c/%_test.c $(PLAN_OBJ) $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	$(Q)$(CC) $(CFLAGS) -iquote tests/c -iquote $(OUT) $(WRAP) -o $@ $< $(filter-out %/main.o,$(PLAN_OBJ)) $(COMMON)/libcommon.a $(COMMON)/libkernels.a $(TEST_LIBS)
$(T)/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/driver.c $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< tests/fuzz/driver.c $(COMMON)/libcommon.a $(COMMON)/libkernels.a $(TEST_LIBS)
-include $(wildcard $(T)/*.d)

.PHONY: units plan-units tier-units fuzzers engine-% engines test-list
units: $(UNITS:%=$(T)/%_test)
plan-units: $(PLAN_UNITS:%=$(OUT)/%_test$(FLAVOR))
tier-units: $(TIER_UNITS:%=$(OUT)/%_test$(FLAVOR))
fuzzers: $(FUZZERS:%=$(T)/%)
engines: $(ENGINES:%=engine-%)
engine-%:
	@$(LUA) build.lua $(firstword $(ENGINE_$*)) $(TEST_HW) --out out/test --set id=t-$* \
	    $(foreach s,$(wordlist 2,9,$(ENGINE_$*)),--set $(s)) >/dev/null
	@$(PARALLEL) ID=test/t-$* build >/dev/null

.PHONY: setup-arm64 arm64 arm64-build $(ARM64_ENGINES)
setup-arm64:
	@tools/setup_arm64.sh
arm64: # builds only where the tools are
	@if command -v qemu-aarch64-static >/dev/null && echo 'int main(void) { return 0; }' | \
	    $(ARM64_CC) -x c - -x none -o /dev/null $(TEST_LIBS) 2>/dev/null; then $(MAKE) arm64-build; fi
arm64-build: $(ARM64_ENGINES)
	@$(PARALLEL) CC="$(ARM64_CC)" $(ARM64_UNITS:%=out/tests-aarch64/%_test)
$(ARM64_ENGINES): arm64-engine-%:
	@$(LUA) build.lua $(firstword $(ENGINE_$*)) $(HW_$(HW_OF)) --out out/test --set id=arm64-$* \
	    $(foreach s,$(wordlist 2,9,$(ENGINE_$*)),--set $(s)) >/dev/null
	@$(PARALLEL) CC="$(ARM64_CC)" ID=test/arm64-$* build >/dev/null

SUB := $(MAKE) --no-print-directory
test: setup
	@$(PARALLEL) units
	@$(SUB) engines
	@$(PARALLEL) ID=test/t-demo plan-units
	@$(PARALLEL) ID=test/t-tier tier-units
	@$(PARALLEL) SAN=address,undefined units fuzzers
	@$(PARALLEL) SAN=address,undefined ID=test/t-demo build plan-units
	@$(PARALLEL) SAN=address,undefined ID=test/t-tier tier-units
	@for f in $(ODD); do $(SUB) SAN=address,undefined engine-odd-$$f || exit 1; \
	    $(SUB) SAN=address,undefined ID=test/t-odd-$$f out/test/t-odd-$$f/pack_test-address-undefined || exit 1; done
	@$(SUB) arm64
	@mkdir -p $(T); out/test/t-demo/tiny-mixtral pack tests/data/tiny-mixtral.gguf -o $(T)/demo.ingot
	@$(SUB) test-list
	@tests/run.sh out/tests/list

S := out/tests-address-undefined
test-list:
	@mkdir -p out/tests
	@{ echo "$(LUA) tests/gen/run.lua -o tap"; \
	   for u in $(UNITS); do echo "$(T)/$${u}_test"; done; \
	   for u in $(UNITS); do echo "$(S)/$${u}_test"; done; \
	   for u in $(PLAN_UNITS); do echo "out/test/t-demo/$${u}_test"; echo "out/test/t-demo/$${u}_test-address-undefined"; done; \
	   for u in $(TIER_UNITS); do echo "out/test/t-tier/$${u}_test"; echo "out/test/t-tier/$${u}_test-address-undefined"; done; \
	   for f in $(ODD); do echo "out/test/t-odd-$$f/pack_test-address-undefined"; done; \
	   for u in $(ARM64_UNITS); do echo "tests/arm64.sh out/tests-aarch64/$${u}_test"; done; \
	   for f in $(FUZZERS); do echo "$(S)/$$f"; done; \
	   echo "tests/gates.sh"; echo "tests/matrix.sh $(LUA) models/mixtral.lua models/mixtral-8x22b.lua models/tiny-mixtral.lua"; \
	   for e in $(wildcard tests/e2e/*_test.lua); do echo "$(LUA) $$e -o tap"; done; \
	 } >out/tests/list

# Every model on every profile compiles (those without a GPU link, too).
matrix:
	tests/matrix.sh $(LUA)
golden:
	$(LUA) tests/gen/refresh.lua

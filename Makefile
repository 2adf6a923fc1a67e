# ingot: one model, one machine, one binary.
#
#   make demo                       a small real model tells a story
#   make test                       the whole suite
#   make MODEL=models/x.lua HW=hw/y.lua [SET="quant=q8_0 ctx=8192"]     generate, then build
#   make                            build what was generated last
#   make ... PROBE=1                measure this machine again (HW=this measures once)
#   make ... CC=COMPILER CUDA=DIR   another compiler; the CUDA toolkit, for profiles with a GPU
#   make setup                      install the packages that are missing
#   make units plan-units           the tests of the C and of the Lua parts alone
#   make test-gpu bench-gpu         on a machine with the GPU (EMULATE=1 test-gpu: without one)
#   make matrix                     every model on every machine profile
#   make bench-kernels bench-attn   the CPU's kernels alone;  make gpu-bundle DEST=FOLDER: for a machine with a GPU
#   make setup-arm64                what tests of AArch64 need
#   make install PREFIX=/usr/local DESTDIR=
#   make clean                      remove what was built, not packed weights; make distclean: these too
#
# SAN=address,undefined builds everything with those sanitizers; ASSERT=1 keeps IG_ASSERT;
# RANGES=1 names the host's phases for a profiler (NVTX, Nsight Systems); STAMPS=1 has a device's kernels stamp
# the clock and print where a decode step's time goes.

LUA    ?= lua5.4
CC      = gcc
PREFIX ?= /usr/local
comma  := ,
# What the compiler makes programs for, and what this machine runs.
ARCH   := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
HOST   := $(shell uname -m)
AR     := $(shell $(CC) -print-prog-name=ar)
# Where the device engine's tools and libraries are, for plans whose weights lie in device memory.
CUDA   ?= /usr/local/cuda
# How the objects that all plans share are compiled, and those of one plan.
OBJ_FLAVOR := $(if $(filter-out $(HOST),$(ARCH)),-$(ARCH))$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(ASSERT),-assert)$(if $(RANGES),-ranges)$(if $(STAMPS),-stamps)
FLAVOR := $(if $(EMULATE),-emulated)$(OBJ_FLAVOR)

# V=1 shows the commands.
Q := $(if $(V),,@)
MAKEFLAGS += $(if $(V),,--no-print-directory)
# As many jobs as this machine has processors, unless -j says how many.
PROCESSORS := $(shell nproc 2>/dev/null || echo 1)
PARALLEL    = $(MAKE)$(if $(filter -j%,$(MAKEFLAGS)),, -j$(PROCESSORS))

-include out/active.mk
OUT    := out/$(ID)
OBJ    := $(OUT)/obj$(FLAVOR)
-include $(OUT)/build.mk

RUNTIME := $(addprefix runtime/,base text file cache device model cmd)
WARN    := -Wall -Wextra -Wshadow -Wconversion -Werror
# Code that is sanitized or runs an emulated device is compiled for a test or two: -O1 takes less than it costs.
DEBUG   = -g
OPT     = $(if $(SAN),-O1,-O2)
ifneq ($(EMULATE),)
$(OBJ)/%.o: OPT = -O1
endif
CFLAGS  = -std=c11 -D_GNU_SOURCE $(OPT) $(DEBUG) -fopenmp -ffp-contract=off -fno-math-errno $(WARN) \
          $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
          $(if $(RANGES),-DIG_RANGES -isystem $(CUDA)/include) $(if $(SAN)$(ASSERT),,-DNDEBUG) -MMD -MP -iquote kernels $(RUNTIME:%=-iquote %)
# A sanitized program cannot be static; everything else is one file that needs nothing beside it.
LDFLAGS = -fopenmp $(if $(SAN),-fsanitize=$(SAN),$(if $(RANGES),,-static)) -Wl,--gc-sections
# glibc warns of dlopen in the static libgomp (offload to devices, which is not used).
LDLIBS  = -ljansson -lpcre2-8 -luring -lm
# A program that loads the driver cannot be static: the driver starts threads of its own.  Only
# libc, libm and ld.so stay outside.
ifeq ($(ON_DEVICE)$(EMULATE)$(SAN),1)
LDFLAGS = -static-libgcc -L$(CUDA)/lib64 -Wl,--gc-sections
LDLIBS  = -Wl,-Bstatic -ljansson -lpcre2-8 -luring -lgomp -lcudart_static -Wl,-Bdynamic -lm -lpthread -ldl -lrt
endif

# A folder may include what stands before it.  Files that know the plan are compiled for each plan,
# the others once; those of a device only for plans that use one.
DEVICE_SRC := $(wildcard runtime/device/*.c runtime/model/device_*.c)
PLAN_SRC   := $(filter-out $(DEVICE_SRC),$(shell grep -lE '\#include "(config|tables|state|cmd|tier)\.h"' runtime/*/*.c))
COMMON_SRC := $(filter-out $(PLAN_SRC) $(DEVICE_SRC),$(wildcard runtime/*/*.c))
AVX2_FLAGS   := -mavx2 -mfma -mf16c
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
AMX_FLAGS    := $(AVX512_FLAGS) -mavx512bf16 -mamx-tile -mamx-bf16
ISA_x86_64  := avx2 quant_avx2 avx512 quant_avx512 amx
ISA_aarch64 := neon quant_neon quant_i8mm
KERN_SRC   := $(wildcard kernels/ref/*.c) kernels/cpu/features.c $(ISA_$(ARCH):%=kernels/cpu/%.c)
COMMON     := out/common$(OBJ_FLAVOR)
COMMON_OBJ := $(COMMON_SRC:%.c=$(COMMON)/%.o)
KERN_OBJ   := $(KERN_SRC:%.c=$(COMMON)/%.o)
PLAN_OBJ   := $(PLAN_SRC:%.c=$(OBJ)/%.o) $(OBJ)/tables.o
ifeq ($(ON_DEVICE),1)
# EMULATE=1: the device's kernels compiled as C and run by the CPU, for tests (tests/cuda/).
PLAN_OBJ   += $(if $(EMULATE),$(patsubst %.c,$(OBJ)/%.o,$(filter runtime/model/%,$(DEVICE_SRC))) \
                $(addprefix $(OBJ)/tests/cuda/,device_emu.o emulate.o step1.o step$(DEVICE_ROWS).o),\
                $(DEVICE_SRC:%.c=$(OBJ)/%.o))
endif
# TILES=1: AMX's tiles in scalar code, for tests (tests/c/amx_engine.c).
PLAN_OBJ   += $(if $(TILES),$(COMMON)/tests/c/amx_engine.o)
BIN        := $(OUT)/$(BINARY)$(FLAVOR)

.PHONY: all build check cubins generate help setup demo test matrix golden format install clean distclean replay render ids bench-kernels bench-attn
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

# Options that stand alone, and the names of make's own in small letters, would be ignored in silence.
$(foreach v,model hw set probe,$(if $(filter command line,$(origin $v)), \
    $(error $v=$($v): MODEL=, HW=, SET= and PROBE= are in capitals)))
$(foreach v,QUANT quant CTX ctx KV kv BATCH batch THREADS threads TIER tier SLOTS slots EXPERTS_RAM experts_ram id,$(if $(filter command line,$(origin $v)), \
    $(error $v=$($v): options of the plan are given as SET="quant=q8_0 ctx=4096")))

ifneq ($(MODEL),)
all: generate
	+@$(PARALLEL) build
else
all: build
ifneq ($(filter command,$(origin HW) $(origin SET) $(origin PROBE)),)
$(error MODEL: want the model that HW, SET and PROBE are for, got none: make MODEL=MODEL HW=$(or $(HW),this))
endif
endif

generate:
	@$(LUA) build.lua "$(MODEL)" "$(or $(HW),this)" $(foreach s,$(SET),--set $(s)) $(if $(filter-out 0,$(PROBE)),--probe)

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile; $(LUA) build.lua --help

ifeq ($(if $(strip $(ID)),$(wildcard $(OUT)/build.mk)),)
build check:
	@echo "make: $(if $(strip $(ID)),$(ID): )nothing is generated yet: make MODEL=models/tiny-mixtral.lua HW=this" >&2; exit 2
else ifeq ($(ON_DEVICE)$(EMULATE)$(if $(wildcard $(CUDA)/include/nvrtc.h),,none),1none)
build:
	@echo "make: $(ID): this profile's kernels are compiled by NVRTC, and there is no CUDA toolkit in $(CUDA) (make CUDA=/path/to/it); choose a profile without a GPU (hw/*.lua)" >&2; exit 3
else ifneq ($(filter-out $(ARCH),$(NEEDS_ARCH)),)
build check:
	@echo "make: $(ID): kernels for $(ISA) need a compiler for $(NEEDS_ARCH), got CC=$(CC), which makes programs for $(ARCH); choose another profile (hw/*.lua), or CC=$(NEEDS_ARCH)-linux-gnu-gcc" >&2; exit 3
else
build: $(BIN)
	@:

# Every file that knows the plan, compiled for it and thrown away: what the matrix runs.  Of a
# device's, those that the CUDA toolkit is not needed for, and with it all.
CHECKED := $(PLAN_SRC) $(if $(filter 1,$(ON_DEVICE)),\
    $(filter-out $(if $(wildcard $(CUDA)/include/cuda_runtime.h),,runtime/device/device.c),$(DEVICE_SRC)))
check:
	@$(CC) $(filter-out -MMD -MP,$(CFLAGS)) -isystem $(CUDA)/include -fsyntax-only -iquote $(OUT) $(CHECKED) $(OUT)/tables.c
endif

$(BIN): $(PLAN_OBJ) $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $(PLAN_OBJ) $(COMMON)/libcommon.a $(COMMON)/libkernels.a $(LDLIBS) 2>$@.log || { cat $@.log >&2; exit 1; }
	@echo "built $@; weights for it: $@ pack CHECKPOINT -o $(OUT)/$(BINARY).ingot"

# Tools: the cache and policy simulator, the kernel benchmark, the machine probe.
REPLAY_OBJ := $(patsubst %.c,$(COMMON)/%.o,$(filter-out tools/replay/main.c,$(wildcard tools/replay/*.c)))
TOOLS      := out/tools$(FLAVOR)
$(COMMON)/tools/replay/%.o: CFLAGS += -iquote tools/replay
$(COMMON)/libreplay.a: $(REPLAY_OBJ)
	@rm -f $@; $(AR) rcs $@ $^
$(TOOLS)/replay: $(COMMON)/tools/replay/main.o $(COMMON)/libreplay.a $(COMMON)/libcommon.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter-out %.h,$^) -lm
include bench/fixed.mk
$(TOOLS)/bench-kernels: bench/kernels.c $(FIXED_COLS:%=$(COMMON)/fixed-%.o) $(COMMON)/libkernels.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter-out %.h,$^) -lm 2>$@.log || { cat $@.log >&2; exit 1; }
$(TOOLS)/bench-attn: bench/attn.c $(FIXED_HEADS:%=$(COMMON)/fixed-128x%.o) $(COMMON)/libkernels.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter-out %.h,$^) -lm
$(TOOLS)/render: tests/templates/render.c $(COMMON)/libcommon.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter-out %.h,$^) $(LDLIBS)
$(TOOLS)/ids: tests/tokenizer/ids.c $(COMMON)/libcommon.a $(COMMON)/libkernels.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter-out %.h,$^) $(LDLIBS)
-include $(wildcard $(TOOLS)/*.d)
replay: $(TOOLS)/replay
ids: $(TOOLS)/ids
render: $(TOOLS)/render
bench-kernels: $(TOOLS)/bench-kernels
	$<
bench-attn: $(TOOLS)/bench-attn
	$< $(or $(N),2)

# Kernels of the device: one program for one row, one for a batch.
CUDA_SRC := $(wildcard kernels/cuda/*) kernels/kernels.h kernels/math.h
$(TOOLS)/mkcubin: tools/mkcubin.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -fsanitize% -MMD -MP,$(CFLAGS)) -isystem $(CUDA)/include -o $@ $< -L$(CUDA)/lib64 -Wl,-rpath,$(CUDA)/lib64 -lnvrtc
CUBINS := $(OUT)$(if $(STAMPS),/stamps)
$(CUBINS)/step.cubin: ROWS := 1
$(CUBINS)/batch.cubin: ROWS := $(DEVICE_ROWS)
$(CUBINS)/step.cubin $(CUBINS)/batch.cubin: $(CUDA_SRC) $(OUT)/build.mk $(TOOLS)/mkcubin
	@mkdir -p $(@D)
	$(Q)$(TOOLS)/mkcubin -a $(DEVICE_ARCH) -Ikernels -Ikernels/cuda $(DEVICE_DEFS) $(if $(STAMPS),-DSTAMPS) -DROWS=$(ROWS) -o $@ kernels/cuda/step.cu
cubins: $(CUBINS)/step.cubin $(CUBINS)/batch.cubin
$(OBJ)/runtime/device/device_image.o: $(CUBINS)/step.cubin $(CUBINS)/batch.cubin
$(OBJ)/runtime/device/device_image.o: CFLAGS += -Wa,-I$(CUBINS)
$(OBJ)/runtime/device/device.o: CFLAGS += -isystem $(CUDA)/include
$(OBJ)/tests/cuda/%.o: CFLAGS += -mavx2 -mfma -iquote kernels/cuda -iquote tests/cuda
EMULATED_STEP := $(addprefix $(OBJ)/tests/cuda/step,1.o $(DEVICE_ROWS).o)
$(EMULATED_STEP): $(OBJ)/tests/cuda/step%.o: $(CUDA_SRC) tests/cuda/emulate.h $(OUT)/build.mk
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -include tests/cuda/emulate.h $(DEVICE_DEFS) -DROWS=$* -x c -c -o $@ kernels/cuda/step.cu

$(COMMON)/libcommon.a: $(COMMON_OBJ)
	@rm -f $@; $(AR) rcs $@ $^
$(COMMON)/libkernels.a: $(KERN_OBJ)
	@rm -f $@; $(AR) rcs $@ $^

$(COMMON)/kernels/cpu/avx2.o $(COMMON)/kernels/cpu/quant_avx2.o:     CFLAGS += $(AVX2_FLAGS)
$(COMMON)/kernels/cpu/avx512.o $(COMMON)/kernels/cpu/quant_avx512.o: CFLAGS += $(AVX512_FLAGS)
$(COMMON)/kernels/cpu/neon.o $(COMMON)/kernels/cpu/quant_neon.o:     CFLAGS += -march=armv8.2-a+dotprod
$(COMMON)/kernels/cpu/quant_i8mm.o: CFLAGS += -march=armv8.2-a+dotprod+i8mm
$(COMMON)/kernels/cpu/amx.o $(COMMON)/tests/c/amx_engine.o: CFLAGS += $(AMX_FLAGS)
$(COMMON)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -c -o $@ $<
$(OBJ)/tables.o: $(OUT)/tables.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -iquote $(OUT) -c -o $@ $<
$(OBJ)/%.o: %.c $(OUT)/config.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -iquote $(OUT) -c -o $@ $<

-include $(REPLAY_OBJ:.o=.d) $(COMMON_OBJ:.o=.d) $(KERN_OBJ:.o=.d) $(PLAN_OBJ:.o=.d)

include tests/tests.mk

setup:
	@tools/setup.sh

# A small real model, from the file in the repository to a story.
DEMO := out/demo/tiny-mixtral
demo: setup
	@$(LUA) build.lua tests/data/tiny-mixtral.gguf this --set id=demo
	@echo "compiling"
	+@$(PARALLEL) ID=demo build
	@[ -f $(DEMO).ingot ] || $(DEMO) pack tests/data/tiny-mixtral.gguf -o $(DEMO).ingot
	$(DEMO) run -p "The old house stood at the end of the lane, and" -n 200 --temp 0.8 --top-p 0.95

install: build
	@echo "installing $(BIN) (planned for $(ID)); for one file with its weights inside, see pack --embed"
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/$(BINARY)

format:
	clang-format -i $(wildcard runtime/*/*.[ch] kernels/*.h kernels/*/*.[ch] tests/c/*.[ch] tests/fuzz/*.[ch] tests/templates/*.c tests/tokenizer/*.c tools/*.c tools/*/*.[ch] bench/*.c)

# Packed weights stay: they took longest.
clean:
	$(Q)[ ! -d out ] || find out ! -type d ! -name '*.ingot' -delete
	$(Q)[ ! -d out ] || find out -depth -type d -empty -delete
distclean:
	rm -rf out

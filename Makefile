# ingot: one model, one machine, one binary.
#
#   make demo                       a small real model tells a story
#   make test                       the whole suite
#   make MODEL=models/x.lua HW=hw/y.lua [SET="quant=q8_0 ctx=8192"]     generate, then build
#   make                            build what was generated last
#   make ... PROBE=1                measure this machine again (HW=this measures once)
#   make install PREFIX=/usr/local DESTDIR=
#
# SAN=address,undefined builds everything with those sanitizers; ASSERT=1 keeps IG_ASSERT.

LUA    ?= lua5.4
CC      = gcc
PREFIX ?= /usr/local
comma  := ,
# What the compiler makes programs for, and what this machine runs.
ARCH   := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
HOST   := $(shell uname -m)
FLAVOR := $(if $(filter-out $(HOST),$(ARCH)),-$(ARCH))$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(ASSERT),-assert)
AR     := $(shell $(CC) -print-prog-name=ar)

# V=1 shows the commands.
Q := $(if $(V),,@)
MAKEFLAGS += $(if $(V),,--no-print-directory)
PARALLEL  := $(MAKE) -j$(shell nproc 2>/dev/null || echo 1)

-include out/active.mk
OUT    := out/$(ID)
-include $(OUT)/build.mk

RUNTIME := $(addprefix runtime/,base text file cache model cmd)
WARN    := -Wall -Wextra -Wshadow -Wconversion -Werror
CFLAGS  = -std=c11 -D_GNU_SOURCE -O2 -g -fopenmp -ffp-contract=off -fno-math-errno $(WARN) \
          $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
          $(if $(SAN)$(ASSERT),,-DNDEBUG) -MMD -MP -iquote kernels $(RUNTIME:%=-iquote %)
# A sanitized program cannot be static; everything else is one file that needs nothing beside it.
LDFLAGS = -fopenmp $(if $(SAN),-fsanitize=$(SAN),-static) -Wl,--gc-sections
# glibc warns of dlopen in the static libgomp (offload to devices, which is not used).
LDLIBS  = -ljansson -lpcre2-8 -luring -lm

# A folder may include what stands before it.  Files that know the plan are compiled for each plan,
# the others once.
PLAN_SRC   := $(shell grep -lE '\#include "(config|tables|state|cmd|tier)\.h"' runtime/*/*.c)
COMMON_SRC := $(filter-out $(PLAN_SRC),$(wildcard runtime/*/*.c))
ISA_x86_64  := avx2 quant_avx2 avx512 quant_avx512
ISA_aarch64 := neon quant_neon quant_i8mm
KERN_SRC   := $(wildcard kernels/ref/*.c) kernels/cpu/features.c $(ISA_$(ARCH):%=kernels/cpu/%.c)
COMMON     := out/common$(FLAVOR)
COMMON_OBJ := $(COMMON_SRC:%.c=$(COMMON)/%.o)
KERN_OBJ   := $(KERN_SRC:%.c=$(COMMON)/%.o)
PLAN_OBJ   := $(PLAN_SRC:%.c=$(OUT)/obj$(FLAVOR)/%.o) $(OUT)/obj$(FLAVOR)/tables.o
BIN        := $(OUT)/$(BINARY)$(FLAVOR)

.PHONY: all build check generate help setup demo test matrix golden format install clean replay render bench-kernels
.DEFAULT_GOAL := all

# Options that stand alone would be ignored in silence.
$(foreach v,QUANT quant CTX ctx KV kv BATCH batch THREADS threads,$(if $(filter command line,$(origin $v)), \
    $(error $v=$($v): options of the plan are given as SET="quant=q8_0 ctx=4096")))

ifdef MODEL
all: generate
	@$(PARALLEL) build
else
all: build
endif

generate:
	@$(LUA) build.lua "$(MODEL)" "$(or $(HW),this)" $(foreach s,$(SET),--set $(s)) $(if $(PROBE),--probe)

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile; $(LUA) build.lua --help

ifeq ($(strip $(ID)),)
build:
	@echo "make: nothing is generated yet: make MODEL=models/tiny-mixtral.lua HW=this" >&2; exit 2
else ifeq ($(NEEDS_GPU),1)
build:
	@echo "make: $(ID): this profile has a GPU and needs the GPU engine, which this version does not have; choose a profile without a GPU (hw/*.lua)" >&2; exit 3
else ifneq ($(filter-out $(ARCH),$(NEEDS_ARCH)),)
build check:
	@echo "make: $(ID): kernels for $(ISA) need a compiler for $(NEEDS_ARCH), got CC=$(CC), which makes programs for $(ARCH); choose another profile (hw/*.lua), or CC=$(NEEDS_ARCH)-linux-gnu-gcc" >&2; exit 3
else
build: $(BIN)
	@:

# Every file that knows the plan, compiled for it and thrown away: what the matrix runs.
check:
	@$(CC) $(filter-out -MMD -MP,$(CFLAGS)) -fsyntax-only -iquote $(OUT) $(PLAN_SRC) $(OUT)/tables.c
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
	$(Q)$(CC) $(CFLAGS) -o $@ $^ -lm
$(TOOLS)/bench-kernels: bench/kernels.c $(COMMON)/libkernels.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ -lm
$(TOOLS)/render: tests/templates/render.c $(COMMON)/libcommon.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)
replay: $(TOOLS)/replay
render: $(TOOLS)/render
bench-kernels: $(TOOLS)/bench-kernels
	$<

$(COMMON)/libcommon.a: $(COMMON_OBJ)
	@rm -f $@; $(AR) rcs $@ $^
$(COMMON)/libkernels.a: $(KERN_OBJ)
	@rm -f $@; $(AR) rcs $@ $^

$(COMMON)/kernels/cpu/avx2.o $(COMMON)/kernels/cpu/quant_avx2.o:       CFLAGS += -mavx2 -mfma -mf16c
$(COMMON)/kernels/cpu/avx512.o $(COMMON)/kernels/cpu/quant_avx512.o: CFLAGS += -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
$(COMMON)/kernels/cpu/neon.o $(COMMON)/kernels/cpu/quant_neon.o:       CFLAGS += -march=armv8.2-a+dotprod
$(COMMON)/kernels/cpu/quant_i8mm.o: CFLAGS += -march=armv8.2-a+dotprod+i8mm
$(COMMON)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -c -o $@ $<
$(OUT)/obj$(FLAVOR)/tables.o: $(OUT)/tables.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -iquote $(OUT) -c -o $@ $<
$(OUT)/obj$(FLAVOR)/%.o: %.c $(OUT)/config.h
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
	@echo "compiling"; $(PARALLEL) ID=demo build
	@[ -f $(DEMO).ingot ] || $(DEMO) pack tests/data/tiny-mixtral.gguf -o $(DEMO).ingot
	$(DEMO) run -p "The old house stood at the end of the lane, and" -n 200 --temp 0.8 --top-p 0.95

install: build
	@echo "installing $(BIN) (planned for $(ID)); for one file with its weights inside, see pack --embed"
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/$(BINARY)

format:
	clang-format -i $(wildcard runtime/*/*.[ch] kernels/*.h kernels/*/*.[ch] tests/c/*.[ch] tests/fuzz/*.[ch] tests/templates/*.c tools/*.c tools/*/*.[ch] bench/*.c)

clean:
	rm -rf out

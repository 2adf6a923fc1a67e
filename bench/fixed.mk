# fixed.mk -- the x86 kernels once more for each shape that the benchmarks have: kernels/fixed.h.
#
# fixed-COLS.o: matrices; fixed-HDxG.o: attention.  One object each, whose only symbols are its tables,
# named by the shape: ig_kernels_avx512_2048.

FIXED_COLS  := 768 2048 4096 14336
FIXED_HEADS := 8 4
FIXED_DEFS   = $(if $(findstring x,$*),-DIG_FIXED_HD=$(word 1,$(subst x, ,$*)) -DIG_FIXED_GROUP=$(word 2,$(subst x, ,$*)),-DIG_FIXED_COLS=$*)
FIXED_FLAGS  = $(filter-out -MMD -MP,$(CFLAGS)) $(FIXED_DEFS) -c

$(COMMON)/fixed-%.o: $(wildcard kernels/*.h kernels/cpu/*)
	@mkdir -p $@.d
	$(Q)$(CC) $(FIXED_FLAGS) $(AVX2_FLAGS) -o $@.d/1.o kernels/cpu/avx2.c
	$(Q)$(CC) $(FIXED_FLAGS) $(AVX2_FLAGS) -o $@.d/2.o kernels/cpu/quant_avx2.c
	$(Q)$(CC) $(FIXED_FLAGS) $(AVX512_FLAGS) -o $@.d/3.o kernels/cpu/avx512.c
	$(Q)$(CC) $(FIXED_FLAGS) $(AVX512_FLAGS) -o $@.d/4.o kernels/cpu/quant_avx512.c
	$(Q)$(CC) $(FIXED_FLAGS) $(AMX_FLAGS) -o $@.d/5.o kernels/cpu/amx.c
	$(Q)ld -r -o $@.d/all.o $@.d/[1-5].o
	$(Q)objcopy $(foreach i,avx2 avx512 amx,--redefine-sym ig_kernels_$i=ig_kernels_$i_$*) $@.d/all.o
	$(Q)objcopy $(foreach i,avx2 avx512 amx,--keep-global-symbol ig_kernels_$i_$*) $@.d/all.o $@

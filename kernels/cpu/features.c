/* features.c -- which of the kernel variants the running CPU can execute. */
#include "../kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Register state that the operating system saves, XCR0. */
static unsigned xcr0(void)
{
    unsigned lo, hi;
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

/* Linux gives tiles to a process that asks; its threads have them then. */
static int tiles_granted(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* Leaf 7: EDX of 0 has TILE and BF16, EAX of 1 has AVX512_BF16. */
static int has_amx(unsigned edx)
{
    enum { TILES = 0x60000, BF16 = 1 << 22, TILE = 1 << 24, AVX512_BF16 = 1 << 5 };
    const unsigned need = BF16 | TILE;
    unsigned a, b, c, d;
    return (edx & need) == need && (xcr0() & TILES) == TILES &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX512_BF16) && tiles_granted();
}

unsigned ig_cpu_features(void)
{
    enum { YMM = 0x6, ZMM = 0xe6 };
    const unsigned need1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    const unsigned need7 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    unsigned a, b, c, d, found = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need1) != need1) return 0;
    if ((xcr0() & YMM) != YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (b & bit_AVX2) found |= IG_CPU_AVX2;
    if (found && (b & need7) == need7 && (c & bit_AVX512VNNI) && (xcr0() & ZMM) == ZMM) {
        found |= IG_CPU_AVX512;
        if (has_amx(d)) found |= IG_CPU_AMX;
    }
    return found;
}
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

unsigned ig_cpu_features(void)
{
    if (!(getauxval(AT_HWCAP) & HWCAP_ASIMDDP)) return 0;
    return IG_CPU_NEON | (getauxval(AT_HWCAP2) & HWCAP2_I8MM ? IG_CPU_I8MM : 0u);
}
#else
unsigned ig_cpu_features(void) { return 0; }
#endif

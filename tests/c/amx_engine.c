/* amx_engine.c -- kernels/cpu/amx.c over tiles in scalar code, and a CPU that says it has tiles: an
 * engine for AMX that is linked with it runs on any CPU with AVX-512 and BF16
 * (tests/e2e/amx_test.lua).
 */
#include "amx_emulate.h"

#include "../../kernels/cpu/amx.c"

#define ig_cpu_features real_features
#include "../../kernels/cpu/features.c"
#undef ig_cpu_features

unsigned ig_cpu_features(void)
{
    const int able = __builtin_cpu_supports("avx512bf16");
    return real_features() | (able ? IG_CPU_AMX : 0u);
}

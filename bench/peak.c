/* peak.c -- GOP/s of one thread's multipliers alone (peak.h): float, BF16 and int8, best of 5.
 *
 *   cc -O2 -o peak bench/peak.c kernels/cpu/features.c && ./peak
 */
#include <stdio.h>

#include "../kernels/kernels.h"
#include "peak.h"

int main(void)
{
    static const struct {
        const char *name;
        unsigned need;
    } units[] = { { "avx2", IG_CPU_AVX2 }, { "avx512", IG_CPU_AVX512 }, { "amx", IG_CPU_AMX } };
    const unsigned features = ig_cpu_features();
    for (int u = 0; u < 3; u++) {
        if (!(features & units[u].need)) continue;
        printf("%-6s", units[u].name);
        for (int k = PEAK_FLOAT; k <= PEAK_INT8; k++)
            printf(" %5.0f", 1e-9 * peak_of((enum peak_unit)u, (enum peak_kind)k));
        printf("\n");
    }
    return 0;
}

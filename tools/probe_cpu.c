/* probe_cpu.c -- the CPU's name, instruction set and caches. */
#define _GNU_SOURCE
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

const char *find_isa(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d, leaf1_c, xcr0 = 0, xcr0_high;
    if (!__get_cpuid(1, &a, &b, &leaf1_c, &d)) return "ref";
    if (leaf1_c & bit_OSXSAVE) __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return "ref";

    /* XCR0: the system saves SSE and AVX state; and opmask and both halves of ZMM. */
    const int saves_avx = (xcr0 & 0x06) == 0x06, saves_avx512 = (xcr0 & 0xe6) == 0xe6;
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    const unsigned fma_f16c = bit_FMA | bit_F16C;
    const int avx2 = saves_avx && (b & bit_AVX2) && (leaf1_c & fma_f16c) == fma_f16c;
    if (avx2 && saves_avx512 && (b & avx512) == avx512 && (c & bit_AVX512VNNI)) return "avx512";
    if (avx2) return "avx2";
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP)
        return getauxval(AT_HWCAP2) & HWCAP2_I8MM ? "i8mm" : "neon";
#endif
    return "ref";
}

/* What /proc/cpuinfo says first of `field`, only characters that need no escape in Lua; or 0. */
static int find_cpuinfo(char *value, size_t bytes, const char *field)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[512];
    int found = 0;
    while (!found && f && fgets(line, sizeof line, f)) {
        if (strncmp(line, field, strlen(field)) != 0 || !strchr(line, ':')) continue;
        const char *from = strchr(line, ':') + 1;
        size_t n = 0;
        for (; *from && *from != '\n' && n + 1 < bytes; from++) {
            if (*from == ' ' && (n == 0 || value[n - 1] == ' ')) continue;
            value[n++] = *from < ' ' || *from > '~' || *from == '"' || *from == '\\' ? '?' : *from;
        }
        value[n] = 0;
        found = 1;
    }
    if (f) fclose(f);
    return found;
}

/* The CPU's name for the profile.  Linux on AArch64 has numbers for it. */
void find_cpu_name(char *name, size_t bytes)
{
    char maker[32], part[32];
    if (find_cpuinfo(name, bytes, "model name")) return;
    if (find_cpuinfo(maker, sizeof maker, "CPU implementer") &&
        find_cpuinfo(part, sizeof part, "CPU part"))
        snprintf(name, bytes, "CPU implementer %s, part %s", maker, part);
    else
        snprintf(name, bytes, "an unnamed CPU");
}

static uint64_t known(long sysconf_value)
{
    return sysconf_value > 0 ? (uint64_t)sysconf_value : 0;
}

struct caches find_caches(int cpu)
{
    struct caches c = { known(sysconf(_SC_LEVEL1_DCACHE_SIZE)),
                        known(sysconf(_SC_LEVEL2_CACHE_SIZE)),
                        known(sysconf(_SC_LEVEL3_CACHE_SIZE)) };
    for (int i = 0; i < 8; i++) {
        char level[16], type[32], size[32];
        const char *where = "/sys/devices/system/cpu/cpu%d/cache/index%d/%s";
        if (!read_line(level, sizeof level, where, cpu, i, "level") ||
            !read_line(type, sizeof type, where, cpu, i, "type") ||
            !read_line(size, sizeof size, where, cpu, i, "size") ||
            strcmp(type, "Instruction") == 0)
            continue;
        char *unit;
        uint64_t bytes = strtoull(size, &unit, 10);
        bytes <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : 0;
        if (atoi(level) == 1) c.l1d = bytes;
        if (atoi(level) == 2) c.l2 = bytes;
        if (atoi(level) == 3) c.l3 = bytes;
    }
    return c;
}

/* emulate.h -- kernels/cuda/ as ordinary C: the names that prims.h gives on a device.
 *
 * Included in front of kernels/cuda/step.cu (-include).  A block's threads are
 * fibers of one thread (emulate.c) that change places at barriers and exchanges,
 * so a missing barrier shows as a wrong result, and shared memory is static.
 */
#ifndef IG_EMULATE_H
#define IG_EMULATE_H

#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

struct emu_index {
    unsigned x, y, z;
};
extern struct emu_index threadIdx, blockIdx, gridDim;
extern unsigned char emu_shared[];

void emu_sync_block(void);
void emu_sync_warp(void);
uint32_t emu_swap(uint32_t v, int mask);
/* d = a * b + c of a warp, `depth` columns of a: a fragment's words are depth / 8 of a and depth / 16 of b. */
void emu_mma(int *d, const unsigned *a, const unsigned *b, int c, int depth);
/* d += a * b of BF16, 16 columns; like the device's, not in the order of kernels.h. */
void emu_mma_bf16(float *d, const unsigned *a, const unsigned *b);
/* The same of F16. */
void emu_mma_f16(float *d, const unsigned *a, const unsigned *b);
/* Four 8 x 8 matrices of 16-bit numbers: see ig_matrices. */
void emu_matrices(unsigned *w, const void *line, int turned);
unsigned emu_ballot(int v);

#define EMU_CAT2(a, b) a##_rows##b
#define EMU_CAT(a, b)  EMU_CAT2(a, b)
/* Both builds of a kernel are in one program. */
#define IG_KERNEL(name, threads, blocks) \
    void EMU_CAT(name, ROWS)(const struct ig_args a); \
    void EMU_CAT(name, ROWS)(const struct ig_args a)
#define IG_FN                       __attribute__((unused)) static inline
#define IG_SHARED                   static _Alignas(16)
#define IG_SHARED_SPARE(type, name) type *const name = (type *)(void *)emu_shared
#define UNROLL
#define UNROLL_BY(n)

#define __syncthreads emu_sync_block
#define __syncwarp    emu_sync_warp
#define __threadfence() ((void)0)

typedef struct {
    unsigned x, y, z, w;
} ig_u4;
typedef struct {
    unsigned x, y;
} ig_u2;
typedef struct {
    float x, y;
} ig_f2;
typedef struct {
    float x, y, z, w;
} ig_f4;

IG_FN unsigned ig_load4(const void *p)
{
    unsigned v;
    memcpy(&v, p, sizeof v);
    return v;
}
IG_FN unsigned ig_load1(const void *p) { return *(const unsigned char *)p; }
IG_FN unsigned ig_load2(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
IG_FN void ig_load8(unsigned *x, unsigned *y, const void *p)
{
    *x = ig_load4(p);
    *y = ig_load4((const char *)p + 4);
}
IG_FN ig_u4 ig_load16(const void *p)
{
    ig_u4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
IG_FN void ig_prefetch(const void *p) { (void)p; }
IG_FN void ig_read8(unsigned *x, unsigned *y, const void *p) { ig_load8(x, y, p); }
IG_FN unsigned ig_read4(const void *p) { return ig_load4(p); }
IG_FN unsigned ig_read2(const void *p) { return ig_load2(p); }
IG_FN float ig_load_float(const float *p) { return *p; }
IG_FN int ig_load_fresh(const int *p) { return *p; }
IG_FN float ig_load_host(const float *p) { return *(const volatile float *)p; }
IG_FN ig_u4 ig_load16_host(const void *p) { return ig_load16(p); }
IG_FN int ig_load_arrived(const int *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
IG_FN void ig_await_arrived(const int *p, int number)
{
    while ((int)((unsigned)ig_load_arrived(p) - (unsigned)number) < 0) sched_yield();
}
IG_FN void ig_await_host(const unsigned *done, unsigned step)
{
    while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != step) sched_yield();
}
IG_FN void ig_post_host(unsigned *posted, unsigned step) { __atomic_store_n(posted, step, __ATOMIC_RELAXED); }
IG_FN void ig_tell_host(uint64_t *to, int word, unsigned step)
{
    __atomic_store_n(to, (uint64_t)step << 32 | (unsigned)word, __ATOMIC_RELAXED);
}
IG_FN unsigned ig_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned)t.tv_sec * 1000000000u + (unsigned)t.tv_nsec;
}
IG_FN void ig_await_clock(unsigned from, unsigned ns)
{
    while (ig_clock() - from < ns) sched_yield();
}
IG_FN void ig_fetch16(void *dst, const void *src) { memcpy(dst, src, 16); }
IG_FN void ig_fetch16_of(void *dst, const void *src, int bytes)
{
    memset(dst, 0, 16);
    memcpy(dst, src, (size_t)bytes);
}
IG_FN void ig_fetch4(void *dst, const void *src) { memcpy(dst, src, 4); }
IG_FN void ig_fetch8(void *dst, const void *src) { memcpy(dst, src, 8); }
IG_FN void ig_fetched(void) {}
IG_FN void ig_fetch_mark(void) {}
#define ig_fetched_but(n) ((void)(n))
IG_FN void ig_mma32(int *d, const unsigned *a, const unsigned *b, int c) { emu_mma(d, a, b, c, 32); }
IG_FN void ig_mma16(int *d, const unsigned *a, unsigned b, int c) { emu_mma(d, a, &b, c, 16); }
IG_FN void ig_mma_bf16(float *d, const unsigned *a, const unsigned *b) { emu_mma_bf16(d, a, b); }
IG_FN void ig_mma_f16(float *d, const unsigned *a, const unsigned *b) { emu_mma_f16(d, a, b); }
IG_FN void ig_matrices(unsigned *w, const void *line) { emu_matrices(w, line, 0); }
IG_FN void ig_matrices_turned(unsigned *w, const void *line) { emu_matrices(w, line, 1); }
unsigned ig_to_bf16(float lo, float hi);
unsigned ig_to_halves(float lo, float hi);
IG_FN float ig_exp2(float x) { return exp2f(x); }
IG_FN unsigned ig_ballot(int v) { return emu_ballot(v); }
IG_FN unsigned ig_warp_max(unsigned v)
{
    for (int mask = 1; mask < 32; mask *= 2) {
        const unsigned other = emu_swap(v, mask);
        v = other > v ? other : v;
    }
    return v;
}
IG_FN float ig_inverse(float x) { return 1.0f / x; }
IG_FN int ig_count(unsigned bits) { return __builtin_popcount(bits); }
IG_FN void ig_after_previous(void) {}
#define stamp_mark(i) ((void)0)
#define stamp_at(pos)

IG_FN int ig_dot4(unsigned w, int x, int c)
{
    for (int i = 0; i < 4; i++) c += (int)(w >> 8 * i & 255u) * (int8_t)((unsigned)x >> 8 * i & 255u);
    return c;
}
IG_FN int ig_dot4s(unsigned w, int x, int c)
{
    for (int i = 0; i < 4; i++) c += (int8_t)(w >> 8 * i & 255u) * (int8_t)((unsigned)x >> 8 * i & 255u);
    return c;
}
IG_FN unsigned ig_book4(unsigned codes, unsigned a, unsigned b, unsigned c, unsigned d)
{
    const unsigned book[4] = { a, b, c, d };
    unsigned bytes = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned at = codes >> 8 * i & 15u;
        bytes |= (book[at / 4] >> 8 * (at % 4) & 255u) << 8 * i;
    }
    return bytes;
}
IG_FN float ig_bits(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
float ig_half(unsigned h);
unsigned short ig_to_half(float f);

IG_FN int ig_swap_int(int v, int mask) { return (int)emu_swap((uint32_t)v, mask); }
IG_FN float ig_swap(float v, int mask)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return ig_bits(emu_swap(u, mask));
}
/* Fibers do not interrupt each other. */
IG_FN int emu_add_int(int *p, int v)
{
    const int old = *p;
    *p = old + v;
    return old;
}
IG_FN unsigned emu_add_unsigned(unsigned *p, unsigned v)
{
    const unsigned old = *p;
    *p = old + v;
    return old;
}
#define atomicAdd(p, v) _Generic((p), int *: emu_add_int, unsigned *: emu_add_unsigned)(p, v)

#endif

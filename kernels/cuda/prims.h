/* prims.h -- the few operations that C has no word for: loads, dot products, barriers.
 *
 * The kernels are C: this file is where they meet the device's instructions.
 * Compiled by NVRTC for one architecture, or by a C compiler against
 * tests/cuda/emulate.h, which gives the same names to ordinary threads' work.
 */
#ifndef IG_PRIMS_H
#define IG_PRIMS_H

/* How far the number x is beyond y, both of a counter that wraps after days. */
#define IG_BEYOND(x, y) ((int)((unsigned)(x) - (unsigned)(y)))

#ifdef __CUDACC_RTC__

/* `blocks` blocks of `threads` threads shall fit a multiprocessor: that fixes the registers. */
#define IG_KERNEL(name, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const struct ig_args a)
#define IG_FN     static __device__ __forceinline__
#define IG_SHARED __shared__ __align__(16)
/* The block's shared memory whose size the launch says. */
#define IG_SHARED_SPARE(type, name) extern __shared__ __align__(16) type name[]
#define UNROLL _Pragma("unroll")
#define IG_PRAGMA(text) _Pragma(#text)
#define UNROLL_BY(n)    IG_PRAGMA(unroll n)

typedef uint4 ig_u4;
typedef uint2 ig_u2;
typedef float4 ig_f4;
typedef float2 ig_f2;

/* Weights are read once: they leave no line in L1. */
IG_FN ig_u4 ig_load16(const void *p)
{
    ig_u4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

IG_FN void ig_load8(unsigned *x, unsigned *y, const void *p)
{
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
                 : "=r"(*x), "=r"(*y)
                 : "l"(p)
                 : "memory");
}

IG_FN unsigned ig_load4(const void *p)
{
    unsigned v;
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

IG_FN unsigned ig_load2(const void *p)
{
    unsigned short v;
    asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
    return v;
}

IG_FN unsigned ig_load1(const void *p) { return __ldg((const unsigned char *)p); }

/* The line of `p` comes into L2. */
IG_FN void ig_prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
/* The same, of weights that several warps of a block read: through L1. */
IG_FN void ig_read8(unsigned *x, unsigned *y, const void *p)
{
    asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(*x), "=r"(*y) : "l"(p));
}
IG_FN unsigned ig_read4(const void *p)
{
    unsigned v;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
IG_FN unsigned ig_read2(const void *p)
{
    unsigned short v;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}

/* c + sum of four u8 * s8 */
IG_FN int ig_dot4(unsigned w, int x, int c)
{
    int d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(w), "r"(x), "r"(c));
    return d;
}

/* c + sum of four s8 * s8 */
IG_FN int ig_dot4s(unsigned w, int x, int c)
{
    int d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(w), "r"(x), "r"(c));
    return d;
}

/* Four codes below 16 -> bytes of the book a, b, c, d. */
IG_FN unsigned ig_book4(unsigned codes, unsigned a, unsigned b, unsigned c, unsigned d)
{
    const unsigned three = codes & 0x07070707u, pairs = three | three >> 4;
    const unsigned select = (pairs & 0xffu) | (pairs >> 8 & 0xff00u);
    const unsigned upper = (codes >> 3 & 0x01010101u) * 255u;
    return (__byte_perm(a, b, select) & ~upper) | (__byte_perm(c, d, select) & upper);
}

/* d[16][8] = a[16][32] * b[32][8] + c of int8 in one warp, and with 16 columns of a.  Lane l, group
 * g = l / 4, c = l % 4, holds: a[0], a[1] of rows g, g + 8 columns 4c ... + 3; a[2], a[3] the same of
 * columns 16 + 4c; b[0], b[1] of column g rows 4c, 16 + 4c; d of row g columns 2c, 2c + 1, then of
 * row g + 8 (PTX manual, fragments of mma.m16n8k32). */
IG_FN void ig_mma32(int *d, const unsigned *a, const unsigned *b, int c)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c));
}
IG_FN void ig_mma16(int *d, const unsigned *a, unsigned b, int c)
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%7,%7,%7,%7};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b), "r"(c));
}
/* Bit i: what lane i of the warp says. */
IG_FN unsigned ig_ballot(int v) { return __ballot_sync(~0u, v); }
IG_FN int ig_count(unsigned bits) { return __popc(bits); }
IG_FN unsigned ig_warp_max(unsigned v) { return __reduce_max_sync(~0u, v); }

IG_FN float ig_half(unsigned h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)h));
    return f;
}

/* Round to nearest even, as ig_fp16_from_f32. */
IG_FN unsigned short ig_to_half(float f)
{
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

IG_FN float ig_bits(unsigned u) { return __uint_as_float(u); }

/* 1 / x rounded to nearest, for normal x whose inverse is normal: what the compiler makes of the division
 * there, less the branch for the others. */
IG_FN float ig_inverse(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}

/* Past L1: what other blocks, or a kernel that may still run, wrote. */
IG_FN float ig_load_float(const float *p) { return __ldcg(p); }
IG_FN int ig_load_fresh(const int *p) { return __ldcg(p); }

/* Mapped host memory.  What the CPU answered is read after *done has come to `step`; what it is
 * asked carries the step in each word, since a fence behind it takes 5 us on a busy link (bench/LOG.tsv). */
IG_FN float ig_load_host(const float *p)
{
    float v;
    asm volatile("ld.relaxed.sys.global.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
    return v;
}
/* 16 bytes of it, once something it was written before has been seen. */
IG_FN ig_u4 ig_load16_host(const void *p)
{
    ig_u4 v;
    asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
/* A word in device memory that a copy writes after what it tells of. */
IG_FN int ig_load_arrived(const int *p)
{
    int v;
    asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
IG_FN void ig_await_arrived(const int *p, int number)
{
    while (IG_BEYOND(ig_load_arrived(p), number) < 0) __nanosleep(100);
}
IG_FN void ig_await_host(const unsigned *done, unsigned step)
{
    unsigned v;
    for (;;) {
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(done) : "memory");
        if (v == step) return;
        __nanosleep(100);
    }
}
IG_FN void ig_post_host(unsigned *posted, unsigned step)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(posted), "r"(step) : "memory");
}
/* A word and the step that it is of, at once. */
IG_FN void ig_tell_host(uint64_t *to, int word, unsigned step)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"((uint64_t)step << 32 | (unsigned)word)
                 : "memory");
}
/* Nanoseconds, of which the lower bits may stand still. */
IG_FN unsigned ig_clock(void)
{
    unsigned t;
    asm volatile("mov.u32 %0, %globaltimer_lo;" : "=r"(t));
    return t;
}
/* Until so many nanoseconds have passed since `from`. */
IG_FN void ig_await_clock(unsigned from, unsigned ns)
{
    while (ig_clock() - from < ns) __nanosleep(500);
}
/* 16 bytes from memory into the block's shared memory, in the background. */
IG_FN void ig_fetch16(void *dst, const void *src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(dst)),
                 "l"(src)
                 : "memory");
}
/* The first `bytes` of them; the rest are zeros. */
IG_FN void ig_fetch16_of(void *dst, const void *src, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(dst)),
                 "l"(src), "r"(bytes)
                 : "memory");
}
IG_FN void ig_fetch8(void *dst, const void *src)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(dst)),
                 "l"(src)
                 : "memory");
}
IG_FN void ig_fetch4(void *dst, const void *src)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(dst)),
                 "l"(src)
                 : "memory");
}
/* This thread's fetches have arrived. */
IG_FN void ig_fetched(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* The fetches since the last such mark are one group; all but the latest `n` groups have arrived. */
IG_FN void ig_fetch_mark(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define ig_fetched_but(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

IG_FN int ig_swap_int(int v, int mask) { return __shfl_xor_sync(~0u, v, mask); }
IG_FN float ig_swap(float v, int mask) { return __shfl_xor_sync(~0u, v, mask); }

#include "prims16.h"
#include "stamp.h"
/* Everything before this kernel in the stream is done and visible; the next kernel may be put
 * in place.  In that order a kernel's first instructions can count on everything but the
 * kernel just before it.  Letting the next one start before the wait was slower everywhere
 * (bench/LOG.tsv): what waits holds registers that the running kernel's successors need. */
IG_FN void ig_after_previous(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    stamp_waited();
}

#endif
#endif

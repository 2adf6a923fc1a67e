/* experts_formats.h -- experts.cu: the device's instructions, and what a step of a panel is in Q4_0 and in BF16. */
#ifndef IG_EXPERTS_FORMATS_H
#define IG_EXPERTS_FORMATS_H

#include <cstdint>

#define FN static __device__ __forceinline__
struct xq {
    int8_t q[32];
    float d;
    int32_t sum;
};
FN uint4 ld16(const void *p)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
FN uint2 ld8(const void *p)
{
    uint2 v;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
    return v;
}
FN unsigned ld2(const void *p)
{
    unsigned short v;
    asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
    return v;
}
FN int dp4(unsigned w, int x, int c)
{
    int d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(w), "r"(x), "r"(c));
    return d;
}
FN float h2f(unsigned h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)h));
    return f;
}
FN void gd_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
FN void gd_go() { asm volatile("griddepcontrol.launch_dependents;"); }
FN unsigned sa(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
FN void bar_init(uint64_t *b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory"); }
FN void bar_arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sa(b)) : "memory"); }
FN void bar_expect(uint64_t *b, unsigned n)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory");
}
FN void bulk(void *d, const void *s, unsigned n, uint64_t *b)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sa(d)), "l"(s),
                 "r"(n), "r"(sa(b))
                 : "memory");
}
FN void bar_wait(uint64_t *b, unsigned ph)
{
    asm volatile("{\n.reg .pred p;\nW%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W%=;\n}" ::"r"(sa(b)),
                 "r"(ph)
                 : "memory");
}
FN void cp16(void *d, const void *s)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sa(d)), "l"(s) : "memory");
}
FN void cp_mark() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> FN void cp_but() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
FN void named(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }

struct Q4 {
    enum { TP = 128, STEP = 2304, NSA = 16, NSB = 56, NA = 1, NP = 8, XA = 128 * 40, XB = 448 * 40, WORDS = 5 };
    struct reg {
        uint4 q;
        unsigned d;
    };
    static __device__ __forceinline__ int row(int t) { return (t & 3) * 4 + (t >> 3 & 1) * 2 + (t >> 2 & 1); }
    static __device__ __forceinline__ void load(reg &r, const uint8_t *p, int t)
    {
        const uint8_t *u = p + (t >> 4) * 288;
        r.q = ld16(u + 32 + 16 * (t & 15));
        r.d = ld2(u + 2 * row(t));
    }
    static __device__ __forceinline__ void take(reg &r, const uint8_t *p, int t)
    {
        const uint8_t *u = p + (t >> 4) * 288;
        r.q = *(const uint4 *)(u + 32 + 16 * (t & 15));
        r.d = *(const unsigned short *)(u + 2 * row(t));
    }
    static __device__ __forceinline__ void use(float *acc, const reg &r, const void *x, int step, int t)
    {
        const xq *b = (const xq *)x + step * 8 + (t >> 4);
        const int k = t >> 2 & 3;
        const int2 v = *(const int2 *)(b->q + 8 * k);
        const unsigned q[4] = { r.q.x, r.q.y, r.q.z, r.q.w };
        int s[4];
#pragma unroll
        for (int j = 0; j < 4; j++) s[j] = dp4(q[j] & 0x0f0f0f0fu, v.x, dp4(q[j] >> 4 & 0x0f0f0f0fu, v.y, 0));
        const bool up = t & 8, odd = t & 4;
        int a = up ? s[2] : s[0], c = up ? s[3] : s[1];
        a += __shfl_xor_sync(~0u, up ? s[0] : s[2], 8);
        c += __shfl_xor_sync(~0u, up ? s[1] : s[3], 8);
        const int give = odd ? a : c, keep = odd ? c : a;
        const int sum = keep + __shfl_xor_sync(~0u, give, 4);
        const int2 tail = *(const int2 *)&b->d;
        acc[0] = __fmaf_rn(__fmul_rn(h2f(r.d), __int_as_float(tail.x)), (float)(sum - 8 * tail.y), acc[0]);
    }
    static __device__ __forceinline__ void put(float (*parts)[16], const float *acc, int t) { parts[t >> 4][row(t)] = acc[0]; }
    static __device__ __forceinline__ float get(float (*p)[16], int r)
    {
        return ((p[0][r] + p[4][r]) + (p[2][r] + p[6][r])) + ((p[1][r] + p[5][r]) + (p[3][r] + p[7][r]));
    }
};
struct BF {
    enum { TP = 128, STEP = 1024, NSA = 128, NSB = 448, NA = 2, NP = 16, XA = 4096 * 4, XB = 14336 * 4, WORDS = 2 };
    struct reg {
        uint2 q;
    };
    static __device__ __forceinline__ void load(reg &r, const uint8_t *p, int t) { r.q = ld8(p + t * 8); }
    static __device__ __forceinline__ void take(reg &r, const uint8_t *p, int t) { r.q = *(const uint2 *)(p + t * 8); }
    static __device__ __forceinline__ void use(float *acc, const reg &r, const void *x, int step, int t)
    {
        const float2 v = ((const float2 *)x)[step * 16 + (t >> 3)];
        const unsigned q[2] = { r.q.x, r.q.y };
#pragma unroll
        for (int j = 0; j < 2; j++) {
            acc[j] = __fmaf_rn(__uint_as_float(q[j] << 16), v.x, acc[j]);
            acc[j] = __fmaf_rn(__uint_as_float(q[j] & 0xffff0000u), v.y, acc[j]);
        }
    }
    static __device__ __forceinline__ void put(float (*parts)[16], const float *acc, int t)
    {
        parts[t >> 3][(t & 7) * 2] = acc[0];
        parts[t >> 3][(t & 7) * 2 + 1] = acc[1];
    }
    static __device__ __forceinline__ float get(float (*p)[16], int r)
    {
        float a[16];
#pragma unroll
        for (int i = 0; i < 16; i++) a[i] = p[i][r];
#pragma unroll
        for (int i = 0; i < 8; i++) a[i] += a[i + 8];
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] += a[i + 4];
        a[0] += a[2];
        a[1] += a[3];
        a[0] += a[1];
        return a[0];
    }
};

#endif

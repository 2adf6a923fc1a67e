/* wgmma.h -- the matrix unit of sm_90a: 64 rows of four warps times columns that lie in shared memory.
 *
 * A lane's rows are those of mma.m16n8k16.  The unit works in the background: registers that it reads or writes are
 * not to be touched before ig_wgmma_done_but says so.
 */
#ifndef IG_WGMMA_H
#define IG_WGMMA_H

#define WGMMA_R4(n)  "+f"(acc[n][0]), "+f"(acc[n][1]), "+f"(acc[n][2]), "+f"(acc[n][3])
#define WGMMA_R32(n) \
    WGMMA_R4(n), WGMMA_R4(n + 1), WGMMA_R4(n + 2), WGMMA_R4(n + 3), WGMMA_R4(n + 4), WGMMA_R4(n + 5), WGMMA_R4(n + 6), \
        WGMMA_R4(n + 7)
#define WGMMA_32 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
    "%30,%31"
#define WGMMA_64 \
    WGMMA_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
             "%57,%58,%59,%60,%61,%62,%63"

/* acc[columns / 8] += a times the columns at `b`, a matrix descriptor (PTX manual, 128-byte swizzle). */
IG_FN void ig_wgmma_64(float (*acc)[4], const unsigned *a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_32 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
                 : WGMMA_R32(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
IG_FN void ig_wgmma_128(float (*acc)[4], const unsigned *a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_64
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
                 : WGMMA_R32(0), WGMMA_R32(8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
/* Of F16; a line is a row of the right factor. */
IG_FN void ig_wgmma_64_f16(float (*acc)[4], const unsigned *a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" WGMMA_32 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : WGMMA_R32(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
IG_FN void ig_wgmma_128_f16(float (*acc)[4], const unsigned *a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WGMMA_64
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
                 : WGMMA_R32(0), WGMMA_R32(8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
IG_FN unsigned ig_shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
IG_FN void ig_wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
IG_FN void ig_wgmma_mark(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define ig_wgmma_done_but(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
IG_FN void ig_wgmma_see_shared(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#endif

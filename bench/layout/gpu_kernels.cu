/* gpu_kernels.cu -- GEMV candidates for one packed order of weights on CPU and GPU.
 *
 * Layout A is panel.h's; B keeps 16-byte runs of one row (see cpu.c).  Every kernel
 * sums in kernels.h's order with P parts, so its bits equal the scalar sum's.
 *
 *   quad   half a warp a tile: each lane loads 16 B = 4 rows of a group of columns, and
 *          three shuffles give every lane one row's integer sum (A)
 *   word   half a warp a tile: each lane loads its own row's 4-byte words (A)
 *   run    half a warp a tile: each lane loads its own row's 16-byte runs (B)
 *   bulk   the same from shared memory, filled by bulk copies of whole tiles (A, B)
 *   async  the same from shared memory, each lane copying its own next D tiles (A, B)
 *
 * __launch_bounds__ names a block count below the maximum: told that 64 registers a
 * thread are free, ptxas leaves the loads together; else it sinks them to their uses.
 *
 * nvcc -arch=sm_90 -O3
 */
#include "gpu.h"

enum { PR = IG_PANEL_ROWS, STAGES = 4 };

/* -- loads that leave no line in L1 */
static __device__ __forceinline__ uint4 load16(const void *p)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

static __device__ __forceinline__ uint32_t load4(const void *p)
{
    uint32_t v;
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ uint16_t load2(const void *p)
{
    uint16_t v;
    asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ float half_to_float(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

/* c + sum of four u8 * s8 */
static __device__ __forceinline__ int dot4(uint32_t w, int x, int c)
{
    int d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(w), "r"(x), "r"(c));
    return d;
}

/* -- tiles: what a lane loads of one, and its row's (or rows') integer sum */
struct q4 {
    enum { TILE = 288, ZERO = 8, VECS = 1, FMT = IG_Q4_0 };
    static __device__ __forceinline__ uint32_t lo(const uint4 *q, int j)
    {
        return ((const uint32_t *)q)[j] & 0x0f0f0f0fu;
    }
    static __device__ __forceinline__ uint32_t hi(const uint4 *q, int j)
    {
        return ((const uint32_t *)q)[j] >> 4 & 0x0f0f0f0fu;
    }
    static __device__ __forceinline__ int x0(int k) { return 8 * k; } /* A: columns of lo */
    static __device__ __forceinline__ int x1(int k) { return 8 * k + 4; }
};

struct q8 {
    enum { TILE = 544, ZERO = 128, VECS = 2, FMT = IG_Q8_0 };
    static __device__ __forceinline__ uint32_t lo(const uint4 *q, int j)
    {
        return ((const uint32_t *)q)[j];
    }
    static __device__ __forceinline__ uint32_t hi(const uint4 *q, int j)
    {
        return ((const uint32_t *)(q + 1))[j];
    }
    static __device__ __forceinline__ int x0(int k) { return 4 * k; }
    static __device__ __forceinline__ int x1(int k) { return 16 + 4 * k; }
};

/* Four rows' sums over the four lane groups k = lane / 4 % 4 -> one row's a lane. */
static __device__ __forceinline__ int scatter4(const int s[4], int lane)
{
    const bool up = lane & 8, odd = lane & 4;
    int a = up ? s[2] : s[0], b = up ? s[3] : s[1];
    a += __shfl_xor_sync(~0u, up ? s[0] : s[2], 8);
    b += __shfl_xor_sync(~0u, up ? s[1] : s[3], 8);
    const int give = odd ? a : b, keep = odd ? b : a;
    return keep + __shfl_xor_sync(~0u, give, 4);
}

/* The sum of lane's row in layout A (quads) or B (runs). */
template <class F, char L>
static __device__ __forceinline__ int row_sum(const uint4 *q, const struct ig_xq *x, int lane)
{
    if (L == 'A') {
        const int k = lane >> 2 & 3;
        const int x0 = *(const int *)(x->q + F::x0(k)), x1 = *(const int *)(x->q + F::x1(k));
        int s[4];
#pragma unroll
        for (int j = 0; j < 4; j++) s[j] = dot4(F::lo(q, j), x0, dot4(F::hi(q, j), x1, 0));
        return scatter4(s, lane);
    }
    const int2 *xv = (const int2 *)x->q; /* B: lo is columns 0..15, hi 16..31 */
    const int2 a = xv[0], b = xv[1], c = xv[2], d = xv[3];
    int s = dot4(F::lo(q, 0), a.x, dot4(F::hi(q, 0), c.x, 0));
    s = dot4(F::lo(q, 1), a.y, dot4(F::hi(q, 1), c.y, s));
    s = dot4(F::lo(q, 2), b.x, dot4(F::hi(q, 2), d.x, s));
    return dot4(F::lo(q, 3), b.y, dot4(F::hi(q, 3), d.y, s));
}

template <char L> static __device__ __forceinline__ int lane_row(int lane)
{
    if (L == 'B') return lane & 15;
    return (lane & 3) * 4 + (lane >> 3 & 1) * 2 + (lane >> 2 & 1);
}

template <class F>
static __device__ __forceinline__ float enter(float acc, int s, float dw, const struct ig_xq *x)
{
    const int2 tail = *(const int2 *)&x->d;
    const float dx = __int_as_float(tail.x);
    return __fmaf_rn(__fmul_rn(dw, dx), (float)(s - F::ZERO * tail.y), acc);
}

/* Parts of a panel -> its 16 results. */
template <int P>
static __device__ __forceinline__ void finish(float *y, float acc, int part, int row)
{
    __shared__ float parts[P][PR];
    parts[part][row] = acc;
    __syncthreads();
    if (threadIdx.x < PR) {
        float a[P];
#pragma unroll
        for (int i = 0; i < P; i++) a[i] = parts[i][threadIdx.x];
#pragma unroll
        for (int h = P / 2; h; h /= 2)
#pragma unroll
            for (int i = 0; i < h; i++) a[i] = __fadd_rn(a[i], a[i + h]);
        y[threadIdx.x] = a[0];
    }
}

/* -- straight from global memory, U tiles a lane in flight */
template <class F, char L, int P, int U, bool XS>
static __global__ void __launch_bounds__(16 * P, 1024 / (16 * P))
    direct(float *__restrict__ y, const uint8_t *__restrict__ w,
           const struct ig_xq *__restrict__ xg, int nb, int share)
{
    extern __shared__ __align__(16) uint8_t xs[];
    const int lane = threadIdx.x % 32, part = threadIdx.x / 16, l = threadIdx.x % 16;
    const int row = lane_row<L>(lane);
    w += (size_t)blockIdx.x * nb * F::TILE;
    xg += blockIdx.x / share * nb;
    if (XS) {
        for (int i = threadIdx.x; i < nb * 5; i += 16 * P) ((int2 *)xs)[i] = ((const int2 *)xg)[i];
        __syncthreads();
    }
    const struct ig_xq *x = XS ? (const struct ig_xq *)xs : xg;

    float acc = 0.0f;
    for (int b0 = 0; b0 < nb; b0 += P * U) {
        uint4 q[U][F::VECS];
        uint16_t d[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int b = b0 + u * P + part;
            const uint8_t *t = w + (size_t)(b < nb ? b : 0) * F::TILE;
#pragma unroll
            for (int i = 0; i < F::VECS; i++) q[u][i] = load16(t + 32 + 256 * i + 16 * l);
            d[u] = load2(t + 2 * row);
        }
        __syncwarp(); /* keeps the compiler from sinking the loads to their uses */
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int b = b0 + u * P + part;
            const struct ig_xq *xb = x + (b < nb ? b : 0);
            const int s = row_sum<F, L>(q[u], xb, lane);
            if (b < nb) acc = enter<F>(acc, s, half_to_float(d[u]), xb);
        }
    }
    finish<P>(y + (size_t)blockIdx.x * PR, acc, part, row);
}

/* -- the plain one: 4-byte loads of one's own row, layout A, Q4_0 */
template <int P, int U>
static __global__ void __launch_bounds__(16 * P, 1024 / (16 * P))
    word(float *__restrict__ y, const uint8_t *__restrict__ w, const struct ig_xq *__restrict__ x,
         int nb, int share)
{
    const int part = threadIdx.x / 16, row = threadIdx.x % 16;
    w += (size_t)blockIdx.x * nb * q4::TILE;
    x += blockIdx.x / share * nb;
    float acc = 0.0f;
    for (int b0 = part; b0 < nb; b0 += P * U) {
        uint32_t q[U][4];
        uint16_t d[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            const uint8_t *t = w + (size_t)(b0 + u * P < nb ? b0 + u * P : 0) * q4::TILE;
#pragma unroll
            for (int k = 0; k < 4; k++) q[u][k] = load4(t + 32 + 64 * k + 4 * row);
            d[u] = load2(t + 2 * row);
        }
        __syncwarp(); /* keeps the compiler from sinking the loads to their uses */
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (b0 + u * P >= nb) break;
            const struct ig_xq *xb = x + b0 + u * P;
            const int2 *xv = (const int2 *)xb->q;
            int s = 0;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                s = dot4(q[u][k] & 0x0f0f0f0fu, xv[k].x, s);
                s = dot4(q[u][k] >> 4 & 0x0f0f0f0fu, xv[k].y, s);
            }
            acc = enter<q4>(acc, s, half_to_float(d[u]), xb);
        }
    }
    finish<P>(y + (size_t)blockIdx.x * PR, acc, part, row);
}

/* -- through shared memory: bulk copies of 2 * P tiles, STAGES of them in flight */
static __device__ __forceinline__ uint32_t shared_addr(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void bulk_get(void *dst, const void *src, uint32_t bytes,
                                                uint64_t *bar)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_addr(bar)),
                 "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(shared_addr(dst)),
                 "l"(src), "r"(bytes), "r"(shared_addr(bar))
                 : "memory");
}

static __device__ __forceinline__ void bar_wait(uint64_t *bar, uint32_t phase)
{
    asm volatile("{\n.reg .pred p;\nWAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(shared_addr(bar)),
                 "r"(phase)
                 : "memory");
}

template <class F, char L, int P>
static __global__ void __launch_bounds__(16 * P, 1024 / (16 * P))
    bulk(float *__restrict__ y, const uint8_t *__restrict__ w, const struct ig_xq *__restrict__ x,
         int nb, int share)
{
    enum { PER = 2 * P, BYTES = PER * F::TILE };
    extern __shared__ __align__(128) uint8_t ring[];
    __shared__ uint64_t full[STAGES];
    const int lane = threadIdx.x % 32, part = threadIdx.x / 16, l = threadIdx.x % 16;
    const int row = lane_row<L>(lane), chunks = (nb + PER - 1) / PER;
    w += (size_t)blockIdx.x * nb * F::TILE;
    x += blockIdx.x / share * nb;
    auto get = [&](int c) {
        const int tiles = nb - c * PER < PER ? nb - c * PER : PER;
        bulk_get(ring + c % STAGES * BYTES, w + (size_t)c * BYTES, tiles * F::TILE,
                 &full[c % STAGES]);
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_addr(&full[i])));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int c = 0; c < STAGES && c < chunks; c++) get(c);
    }
    __syncthreads();

    float acc = 0.0f;
    for (int c = 0; c < chunks; c++) {
        bar_wait(&full[c % STAGES], c / STAGES & 1);
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int b = c * PER + u * P + part;
            const uint8_t *t = ring + c % STAGES * BYTES + (u * P + part) * F::TILE;
            const struct ig_xq *xb = x + (b < nb ? b : 0);
            uint4 q[F::VECS];
#pragma unroll
            for (int i = 0; i < F::VECS; i++) q[i] = *(const uint4 *)(t + 32 + 256 * i + 16 * l);
            const int s = row_sum<F, L>(q, xb, lane);
            if (b < nb) acc = enter<F>(acc, s, half_to_float(*(const uint16_t *)(t + 2 * row)), xb);
        }
        __syncthreads();
        if (threadIdx.x == 0 && c + STAGES < chunks) get(c + STAGES);
    }
    finish<P>(y + (size_t)blockIdx.x * PR, acc, part, row);
}

/* -- each lane's next D tiles on their way into its own slots of shared memory */
template <class F, char L, int P, int D>
static __global__ void __launch_bounds__(16 * P, 1024 / (16 * P))
    async(float *__restrict__ y, const uint8_t *__restrict__ w, const struct ig_xq *__restrict__ x,
          int nb, int share)
{
    __shared__ uint4 slot[D][F::VECS][16 * P];
    __shared__ uint32_t scale[D][P][8];
    const int lane = threadIdx.x % 32, part = threadIdx.x / 16, l = threadIdx.x % 16;
    const int row = lane_row<L>(lane), steps = (nb + P - 1) / P;
    w += (size_t)blockIdx.x * nb * F::TILE;
    x += blockIdx.x / share * nb;
    auto get = [&](int i) {
        const int b = i * P + part;
        if (b < nb) {
            const uint8_t *t = w + (size_t)b * F::TILE;
#pragma unroll
            for (int v = 0; v < F::VECS; v++) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                                 shared_addr(&slot[i % D][v][threadIdx.x])),
                             "l"(t + 32 + 256 * v + 16 * l)
                             : "memory");
            }
            if (l < 8) {
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                                 shared_addr(&scale[i % D][part][l])),
                             "l"(t + 4 * l)
                             : "memory");
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
#pragma unroll
    for (int i = 0; i < D - 1; i++) get(i);

    float acc = 0.0f;
    for (int i = 0; i < steps; i++) {
        __syncwarp();
        get(i + D - 1);
        asm volatile("cp.async.wait_group %0;" ::"n"(D - 1) : "memory");
        __syncwarp();
        const int b = i * P + part;
        const struct ig_xq *xb = x + (b < nb ? b : 0);
        uint4 q[F::VECS];
#pragma unroll
        for (int v = 0; v < F::VECS; v++) q[v] = slot[i % D][v][threadIdx.x];
        const uint16_t d = ((const uint16_t *)scale[i % D][part])[row];
        const int s = row_sum<F, L>(q, xb, lane);
        if (b < nb) acc = enter<F>(acc, s, half_to_float(d), xb);
    }
    finish<P>(y + (size_t)blockIdx.x * PR, acc, part, row);
}

/* Four accumulators a lane -> the results of N panels: 4 rows of one part (A), or 4 parts of one
 * row (B). */
template <char L, int P, int N>
static __device__ __forceinline__ void finish4(float *y, const float acc[4], int panels)
{
    __shared__ float parts[N][P][PR];
    const int sub = threadIdx.x / (4 * P), l = threadIdx.x % (4 * P);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (L == 'A')
            parts[sub][l / 4][l % 4 * 4 + j] = acc[j];
        else
            parts[sub][l / 16 * 4 + j][l % 16] = acc[j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < N * PR; i += 4 * P * N) {
        float a[P];
#pragma unroll
        for (int k = 0; k < P; k++) a[k] = parts[i / PR][k][i % PR];
#pragma unroll
        for (int h = P / 2; h; h /= 2)
#pragma unroll
            for (int k = 0; k < h; k++) a[k] = __fadd_rn(a[k], a[k + h]);
        if (blockIdx.x * N + i / PR < panels) y[(size_t)blockIdx.x * N * PR + i] = a[0];
    }
}

/* -- BF16: four accumulators a lane; 4 * P lanes a panel, 16 * P threads a block */
template <char L, int P, int U>
static __global__ void __launch_bounds__(16 * P, 1024 / (16 * P))
    bf16(float *__restrict__ y, const uint8_t *__restrict__ w, const float *__restrict__ x,
         int cols, int share, int panels)
{
    const int sub = threadIdx.x / (4 * P), l = threadIdx.x % (4 * P);
    const int panel = blockIdx.x * 4 + sub, chunks = cols / (2 * P);
    w += (size_t)(panel < panels ? panel : 0) * cols * 32;
    x += (panel < panels ? panel : 0) / share * cols;
    float acc[4] = { 0, 0, 0, 0 };
    for (int c0 = 0; c0 < chunks; c0 += U) {
        uint4 q[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int c = c0 + u < chunks ? c0 + u : 0;
            q[u] = load16(w + ((size_t)c * 4 * P + l) * 16);
        }
        __syncwarp();
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (c0 + u >= chunks) break;
            const float *xc = x + (c0 + u) * 2 * P;
            float2 v[4]; /* A: one pair of columns for 4 rows; B: 4 pairs of one row */
#pragma unroll
            for (int j = 0; j < 4; j++)
                v[j] = ((const float2 *)xc)[L == 'A' ? l / 4 : l / 16 * 4 + j];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t b = ((const uint32_t *)&q[u])[j];
                acc[j] = __fmaf_rn(__uint_as_float(b << 16), v[j].x, acc[j]);
                acc[j] = __fmaf_rn(__uint_as_float(b & 0xffff0000u), v[j].y, acc[j]);
            }
        }
    }
    finish4<L, P, 4>(y, acc, panels);
}

/* The same from shared memory: each lane's next D loads on their way, N panels a block. */
template <char L, int P, int D, int N>
static __global__ void __launch_bounds__(4 * P * N)
    bf16_async(float *__restrict__ y, const uint8_t *__restrict__ w, const float *__restrict__ x,
               int cols, int share, int panels)
{
    __shared__ uint4 slot[D][4 * P * N];
    const int sub = threadIdx.x / (4 * P), l = threadIdx.x % (4 * P);
    const int panel = blockIdx.x * N + sub, chunks = cols / (2 * P);
    w += (size_t)(panel < panels ? panel : 0) * cols * 32 + l * 16;
    x += (panel < panels ? panel : 0) / share * cols;
    auto get = [&](int c) {
        if (c < chunks) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                             shared_addr(&slot[c % D][threadIdx.x])),
                         "l"(w + (size_t)c * 64 * P)
                         : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
#pragma unroll
    for (int c = 0; c < D - 1; c++) get(c);
    float acc[4] = { 0, 0, 0, 0 };
#pragma unroll 4
    for (int c = 0; c < chunks; c++) {
        get(c + D - 1);
        asm volatile("cp.async.wait_group %0;" ::"n"(D - 1) : "memory");
        const uint4 q = slot[c % D][threadIdx.x];
        const float2 *xc = (const float2 *)(x + c * 2 * P);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 v = xc[L == 'A' ? l / 4 : l / 16 * 4 + j];
            const uint32_t b = ((const uint32_t *)&q)[j];
            acc[j] = __fmaf_rn(__uint_as_float(b << 16), v.x, acc[j]);
            acc[j] = __fmaf_rn(__uint_as_float(b & 0xffff0000u), v.y, acc[j]);
        }
    }
    finish4<L, P, N>(y, acc, panels);
}

/* -- launchers */
template <class F, char L, int P, int U, bool XS>
static void run_direct(const struct gemv *g, cudaStream_t s)
{
    const int nb = g->cols / 32;
    direct<F, L, P, U, XS><<<g->panels, 16 * P, XS ? nb * 40 : 0, s>>>(
        g->y, g->w, (const struct ig_xq *)g->x, nb, g->share);
}

template <int P, int U> static void run_word(const struct gemv *g, cudaStream_t s)
{
    word<P, U><<<g->panels, 16 * P, 0, s>>>(g->y, g->w, (const struct ig_xq *)g->x, g->cols / 32,
                                            g->share);
}

template <class F, char L, int P> static void run_bulk(const struct gemv *g, cudaStream_t s)
{
    const int bytes = STAGES * 2 * P * F::TILE;
    cudaFuncSetAttribute(bulk<F, L, P>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    bulk<F, L, P><<<g->panels, 16 * P, bytes, s>>>(g->y, g->w, (const struct ig_xq *)g->x,
                                                   g->cols / 32, g->share);
}

template <class F, char L, int P, int D> static void run_async(const struct gemv *g, cudaStream_t s)
{
    async<F, L, P, D><<<g->panels, 16 * P, 0, s>>>(g->y, g->w, (const struct ig_xq *)g->x,
                                                   g->cols / 32, g->share);
}

template <char L, int P, int U> static void run_bf16(const struct gemv *g, cudaStream_t s)
{
    bf16<L, P, U><<<(g->panels + 3) / 4, 16 * P, 0, s>>>(g->y, g->w, (const float *)g->x, g->cols,
                                                         g->share, g->panels);
}

template <char L, int P, int D, int N>
static void run_bf16_async(const struct gemv *g, cudaStream_t s)
{
    bf16_async<L, P, D, N><<<(g->panels + N - 1) / N, 4 * P * N, 0, s>>>(
        g->y, g->w, (const float *)g->x, g->cols, g->share, g->panels);
}

#define DIRECT(f, l, p, u, xs, name)                                                               \
    {                                                                                              \
        name, (enum ig_fmt)f::FMT, #l[0], p, run_direct<f, #l[0], p, u, xs>                        \
    }
#define BULK(f, l, p)                                                                              \
    {                                                                                              \
        "bulk", (enum ig_fmt)f::FMT, #l[0], p, run_bulk<f, #l[0], p>                               \
    }
#define ASYNC(f, l, p, d, name)                                                                    \
    {                                                                                              \
        name, (enum ig_fmt)f::FMT, #l[0], p, run_async<f, #l[0], p, d>                             \
    }
#define BF(l, p, u, name)                                                                          \
    {                                                                                              \
        name, IG_BF16, #l[0], p, run_bf16<#l[0], p, u>                                             \
    }
#define BFA(l, p, d, n, name)                                                                      \
    {                                                                                              \
        name, IG_BF16, #l[0], p, run_bf16_async<#l[0], p, d, n>                                    \
    }
#define BLOCKS(f)                                                                                  \
    DIRECT(f, A, 4, 4, false, "quad-4"), DIRECT(f, A, 8, 2, false, "quad-2"),                      \
        DIRECT(f, A, 8, 4, false, "quad-4"), DIRECT(f, A, 8, 8, false, "quad-8"),                  \
        DIRECT(f, A, 8, 4, true, "quad-4 xs"), DIRECT(f, A, 16, 2, false, "quad-2"),               \
        DIRECT(f, A, 16, 4, false, "quad-4"), DIRECT(f, B, 4, 4, false, "run-4"),                  \
        DIRECT(f, B, 8, 2, false, "run-2"), DIRECT(f, B, 8, 4, false, "run-4"),                    \
        DIRECT(f, B, 8, 8, false, "run-8"), DIRECT(f, B, 8, 4, true, "run-4 xs"),                  \
        DIRECT(f, B, 16, 4, false, "run-4"), BULK(f, A, 4), BULK(f, A, 8), BULK(f, A, 16),         \
        BULK(f, B, 8), ASYNC(f, A, 8, 4, "async-4"), ASYNC(f, A, 8, 8, "async-8"),                 \
        ASYNC(f, B, 8, 4, "async-4")

extern "C" {
extern const struct gpu_variant gpu_variants[] = {
    BLOCKS(q4),
    { "word-2", IG_Q4_0, 'A', 8, run_word<8, 2> },
    { "word-4", IG_Q4_0, 'A', 8, run_word<8, 4> },
    BLOCKS(q8),
    BF(A, 4, 8, "quad-8"),
    BF(A, 8, 4, "quad-4"),
    BF(A, 8, 8, "quad-8"),
    BF(A, 8, 16, "quad-16"),
    BF(A, 16, 8, "quad-8"),
    BF(B, 4, 8, "run-8"),
    BF(B, 8, 4, "run-4"),
    BF(B, 8, 8, "run-8"),
    BF(B, 8, 16, "run-16"),
    BF(B, 16, 8, "run-8"),
    BFA(A, 4, 32, 2, "async-32 2"),
    BFA(A, 8, 16, 1, "async-16 1"),
    BFA(A, 8, 32, 1, "async-32 1"),
    BFA(A, 8, 16, 2, "async-16 2"),
    BFA(A, 8, 16, 4, "async-16 4"),
    BFA(A, 8, 8, 4, "async-8 4"),
    BFA(A, 16, 16, 1, "async-16 1"),
    BFA(A, 16, 16, 2, "async-16 2"),
    BFA(B, 8, 16, 1, "async-16 1"),
};
extern const int gpu_n_variants = sizeof gpu_variants / sizeof gpu_variants[0];
}

static __global__ void fill(uint4 *dst, const uint4 *src, size_t words, int pool, size_t total)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < total;
         i += (size_t)gridDim.x * blockDim.x) {
        dst[i] = src[i / words * 37 % pool * words + i % words];
    }
}

extern "C" void gpu_fill(uint8_t *dst, const uint8_t *src, size_t bytes, int count, int pool,
                         cudaStream_t stream)
{
    fill<<<2048, 256, 0, stream>>>((uint4 *)dst, (const uint4 *)src, bytes / 16, pool,
                                   bytes / 16 * count);
}

static __global__ void __launch_bounds__(512) read_all(const uint8_t *p, size_t words, float *sink)
{
    uint32_t a = 0;
    const size_t step = (size_t)gridDim.x * 512;
    size_t i = blockIdx.x * (size_t)512 + threadIdx.x;
    for (; i + 3 * step < words; i += 4 * step) {
        uint4 v[4];
#pragma unroll
        for (int u = 0; u < 4; u++) v[u] = load16(p + (i + u * step) * 16);
#pragma unroll
        for (int u = 0; u < 4; u++) a ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
    }
    if (a == 0x12345678u) *sink = 1.0f;
}

extern "C" void gpu_read(const uint8_t *p, size_t bytes, float *sink, cudaStream_t stream)
{
    read_all<<<132 * 4, 512, 0, stream>>>(p, bytes / 16, sink);
}

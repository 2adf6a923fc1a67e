/* rows.cu -- kernels on whole rows: embedding, norm, int8 blocks, RoPE into the KV cache.
 *
 * A block a row.  A decode step uses the first two only.
 */
#include "args.h"
#include "blocks.h"
#include "row.h"

IG_FN float weight_at(const unsigned char *p, int fmt, int r, int c)
{
    const unsigned short *half = (const unsigned short *)(const void *)p;
    switch (fmt) {
    case IG_F32: return ((const float *)(const void *)p)[c * PR + r];
    case IG_F16: return ig_fp16_to_f32(half[(c / 2 * PR + r) * 2 + c % 2]);
    case IG_BF16: return ig_bf16_to_f32(half[(c / 2 * PR + r) * 2 + c % 2]);
    default: return block_weight(fmt, p, r, c);
    }
}

/* What the host says, each by a thread of its own: a read of its memory takes a microsecond, and reads by
 * one thread that also stores would wait for each other. */
IG_FN void take_words(const struct ig_args *a, int t, int force)
{
    const int i = (int)threadIdx.x;
    const int32_t *const from[] = { a->host.token, a->host.pos, a->host.seq, a->host.turn, a->host.want };
    int32_t *const to[] = { a->row.token, a->row.pos, a->row.seq, a->row.turn, a->row.want };
    for (int k = 0; k < 5; k++)
        if (i == 32 * k && (k < 4 || t < a->n_want)) to[k][t] = from[k][t];
    if (t == 0 && i == 160) *a->force = force;
    if (N_LAYER_ENC > 0 && t == 0 && i == 162 && a->whole > 0) *a->input = a->whole;
    if (CACHED && i == 161) *a->xc.step += 1;
    if (CACHED && i >= 192 && i - 192 < N_EXPERT_USED + IG_SPLIT_MORE) a->xc.split[i - 192] = a->xc.host_split[i - 192];
}
_Static_assert(192 + N_EXPERT_USED + IG_SPLIT_MORE <= ROW_THREADS, "a thread a word");

/* Recorded guesses, all reads under way at once. */
IG_FN void take_recorded(const struct ig_args *a)
{
#if ROWS == 1 && N_WAY > 0
    enum { ALL = 2 * N_LAYER * N_EXPERT_USED, BUNCH = LEAST(DIV_UP(ALL, ROW_THREADS), 8) };
    for (int from = (int)threadIdx.x; from < ALL; from += BUNCH * ROW_THREADS) {
        int32_t e[BUNCH];
        UNROLL for (int u = 0; u < BUNCH; u++)
            e[u] = from + u * ROW_THREADS < ALL ? a->xc.host_recorded[from + u * ROW_THREADS] : -1;
        UNROLL for (int u = 0; u < BUNCH; u++)
            if (from + u * ROW_THREADS < ALL) a->xc.recorded[from + u * ROW_THREADS] = e[u];
    }
#else
    (void)a;
#endif
}

/* Embeddings of the batch's tokens; the batch itself comes from the host's memory. */
IG_KERNEL(ig_embed, ROW_THREADS, 2)
{
    ig_after_previous();
    const int t = (int)blockIdx.x, i = (int)threadIdx.x, force = *a.host_force;
    stamp_at(a.host.pos[0]);
    const int id = a.host.token[t], fmt = FMT_OF(FMT_EMBD, a.embd.fmt);
    const unsigned char *p = a.embd.p + (size_t)(id / PR) * a.embd.stride;
#if N_EXPERT > 0
    if (force) { /* all reads under way at once */
        enum { ALL = N_LAYER * N_EXPERT_USED, EACH = DIV_UP(ALL, ROW_THREADS), BUNCH = LEAST(EACH, 8) };
        const size_t at = (size_t)t * ALL;
        for (int from = i; from < ALL; from += BUNCH * ROW_THREADS) {
            int32_t e[BUNCH];
            float w[BUNCH];
            UNROLL for (int u = 0; u < BUNCH; u++)
            {
                const int k = from + u * ROW_THREADS;
                e[u] = k < ALL ? a.host_expert[at + (size_t)k] : 0;
                w[u] = k < ALL ? a.host_weight[at + (size_t)k] : 0.0f;
            }
            UNROLL for (int u = 0; u < BUNCH; u++)
            {
                const int k = from + u * ROW_THREADS;
                if (k >= ALL) break;
                a.force_expert[at + (size_t)k] = e[u];
                a.force_weight[at + (size_t)k] = w[u];
            }
        }
    }
#endif
    if (force > 1) take_recorded(&a);
    take_words(&a, t, force);
    for (int c = i; c < N_EMBD; c += ROW_THREADS)
        a.x[(size_t)t * N_EMBD + (size_t)c] = weight_at(p, fmt, id % PR, c) * EMBD_SCALE;
}

/* in 0: rows of x before the mixer; 1: before the feed-forward block; 2: wanted rows, at the end. */
IG_KERNEL(ig_norm, ROW_THREADS, 2)
{
    IG_SHARED float xs[N_EMBD];
    ig_f4 v[ROW_QUADS], w[ROW_QUADS];
    load_quads(w, a.in == 0 ? a.mixer_norm : a.in == 1 ? a.ffn_norm : a.output_norm, ROW_THREADS);
    ig_after_previous();
    const int t = (int)blockIdx.x, from = a.in == 2 ? a.row.want[t] : t;
    struct ig_xq *q = a.in == 2 ? a.lnq : a.xq;
    load_quads(v, a.x + (size_t)from * N_EMBD, ROW_THREADS);
    norm_quads(v, w, a.in == 0 ? a.mixer_norm_bias : a.in == 1 ? a.ffn_norm_bias : a.output_norm_bias, xs,
               ROW_THREADS);
    store_quads((a.in == 2 ? a.ln : a.xn) + (size_t)t * N_EMBD, v, ROW_THREADS);
#if ROWS > 1 && GEMM_FAST
    if (a.in < 2) round_quads(a.xb + (size_t)t * N_EMBD, v, ROW_THREADS);
#endif
    if (a.in == 2 ? ANY_BLOCK(FMT_OUTPUT) : ANY_BLOCK(FMT_QKV | FMT_ROUTER | FMT_GATE_UP))
        quantize_quads(q + (size_t)t * (N_EMBD / QB), v, QUADS(N_EMBD, ROW_THREADS), N_EMBD,
                       ROW_THREADS);
}

#if ROWS > 1
/* Attention's output as int8 blocks, where ig_attn's slices are not whole blocks. */
IG_KERNEL(ig_quantize, ROW_THREADS, 2)
{
    ig_after_previous();
    quantize_output(a.aoq + (size_t)blockIdx.x * (O_DIM / QB), a.ao + (size_t)blockIdx.x * O_DIM,
                    ROW_THREADS);
}
#endif

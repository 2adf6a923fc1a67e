/* attn_turns.inc.h -- an ig_attn_fn: KV(heads) for up to HEADS_MOST heads at a time.
 *
 * Include it with KV and Q_BYTES, the bytes of a head's query, defined; it undefines them again.
 */
static void KV(attn)(struct ig_attn *st, const void *q, const void *k, const void *v,
                     const void *next, int hd, int g, int lo, int hi, float scale,
                     const float *bias, int step)
{
    IG_KNOWN_HEADS(hd, g);
    const int turns = (g + HEADS_MOST - 1) / HEADS_MOST;
    for (int h = 0, t = 0, n; t < turns; t++, h += n) {
        const void *qh = (const char *)q + (size_t)h * Q_BYTES;
        n = (g - h) / (turns - t); /* as even as they can be */
        switch (n) {
#define CASE(nh)                                                                                   \
    case nh:                                                                                       \
        KV(heads)(st, h, qh, k, v, t ? k : next, hd, nh, lo, hi, scale, bias, step);               \
        break;
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
#if VL == 16
            CASE(5)
            CASE(6)
            CASE(7)
            CASE(8)
#endif
#undef CASE
        }
    }
}

#undef KV
#undef Q_BYTES

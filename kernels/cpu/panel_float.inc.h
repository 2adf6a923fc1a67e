/* panel_float.inc.h -- panel times activations for F32, F16 and BF16, over vec_*.h.
 *
 * Include it with these defined; it undefines them again:
 *   FN(f)               function name with the format's and the ISA's suffix
 *   PAIR(p, h, a, b)    columns 2j and 2j+1 (at p) of rows VL*h.. as vectors
 *   SINGLE(p, h, a)     column 2j alone: the last one of an odd count
 *   PAIR_BYTES          bytes from one pair of columns to the next
 *
 * One row of activations: a chunk of columns streams by, GROUP accumulators of one
 * half at a time.  Up to RB rows: parts outermost inside the chunk, so that RB
 * accumulators live in registers and each weight is widened once for RB rows.
 * Bound: n == 1 one read of the panel, else FMA issue.
 */
enum {
    FN(HALVES) = IG_PANEL_ROWS / VL,
    FN(GROUP) = VREGS / 2, /* accumulators at a time */
    FN(RB) = 8,
    FN(PARTS) = VREGS / 16, /* of them RB accumulators each: enough to hide an FMA's latency */
    FN(CHUNK) = 128         /* pairs of columns: at most 16 KiB of panel, and 8 of activations */
};

static void FN(finish)(float y[IG_PANEL_ROWS], float acc[IG_FLOAT_PARTS][IG_PANEL_ROWS])
{
    for (int r = 0; r < IG_PANEL_ROWS; r += VL) {
        V s[8];
        UNROLL
        for (int p = 0; p < 8; p++) s[p] = VADD(VLOAD(acc[p] + r), VLOAD(acc[p + 8] + r));
        UNROLL
        for (int p = 0; p < 4; p++) s[p] = VADD(s[p], s[p + 4]);
        VSTORE(y + r, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}

/* The last pairs and the odd column, each into its part by itself. */
static void FN(tail)(float acc[IG_FLOAT_PARTS][IG_PANEL_ROWS], const uint8_t *w, const float *x,
                     int pair, int cols)
{
    for (; 2 * pair < cols; pair++) {
        const uint8_t *p = w + (size_t)pair * PAIR_BYTES;
        for (int h = 0; h < FN(HALVES); h++) {
            float *to = acc[pair % IG_FLOAT_PARTS] + h * VL;
            V a, b;
            if (2 * pair + 1 < cols) {
                PAIR(p, h, &a, &b);
                const V s = VFMA(a, VSET1(x[2 * pair]), VLOAD(to));
                VSTORE(to, VFMA(b, VSET1(x[2 * pair + 1]), s));
            } else {
                SINGLE(p, h, &a);
                VSTORE(to, VFMA(a, VSET1(x[2 * pair]), VLOAD(to)));
            }
        }
    }
}

static void FN(one)(float y[IG_PANEL_ROWS], const uint8_t *w, const float *x, int cols)
{
    float acc[IG_FLOAT_PARTS][IG_PANEL_ROWS] = { { 0 } };
    const int pairs = cols / 2 / IG_FLOAT_PARTS * IG_FLOAT_PARTS;
    for (int c = 0; c < pairs; c += FN(CHUNK)) {
        const int end = c + FN(CHUNK) < pairs ? c + FN(CHUNK) : pairs;
        for (int i = 0; i < FN(HALVES) * IG_FLOAT_PARTS / FN(GROUP); i++) {
            const int h = i % FN(HALVES), first = i / FN(HALVES) * FN(GROUP);
            V s[FN(GROUP)], a, b;
            UNROLL
            for (int p = 0; p < FN(GROUP); p++) s[p] = VLOAD(acc[first + p] + h * VL);
            for (int j = c + first; j < end; j += IG_FLOAT_PARTS) {
                UNROLL
                for (int p = 0; p < FN(GROUP); p++) {
                    PAIR(w + (size_t)(j + p) * PAIR_BYTES, h, &a, &b);
                    s[p] = VFMA(a, VSET1(x[2 * (j + p)]), s[p]);
                    s[p] = VFMA(b, VSET1(x[2 * (j + p) + 1]), s[p]);
                    PREFETCH_DECODE(w + (size_t)(j + p) * PAIR_BYTES);
                    if (PAIR_BYTES > 64) PREFETCH_DECODE(w + (size_t)(j + p) * PAIR_BYTES + 64);
                }
            }
            UNROLL
            for (int p = 0; p < FN(GROUP); p++) VSTORE(acc[first + p] + h * VL, s[p]);
        }
    }
    FN(tail)(acc, w, x, pairs, cols);
    FN(finish)(y, acc);
}

/* rb rows, rb a constant at every call. */
static inline __attribute__((always_inline)) void
FN(rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *w, const void *const *xs, int cols, const int rb)
{
    float acc[FN(RB)][IG_FLOAT_PARTS][IG_PANEL_ROWS] = { { { 0 } } };
    float x[FN(RB)][2 * FN(CHUNK)]; /* a copy of the chunk: one register addresses all rows */
    const int pairs = cols / 2 / IG_FLOAT_PARTS * IG_FLOAT_PARTS;
    for (int c = 0; c < pairs; c += FN(CHUNK)) {
        const int end = c + FN(CHUNK) < pairs ? c + FN(CHUNK) : pairs;
        for (int t = 0; t < rb; t++)
            memcpy(x[t], (const float *)xs[t] + 2 * c, (size_t)(end - c) * 2 * sizeof(float));
        for (int i = 0; i < FN(HALVES) * IG_FLOAT_PARTS / FN(PARTS); i++) {
            const int h = i % FN(HALVES), p = i / FN(HALVES) * FN(PARTS);
            V s[FN(PARTS)][FN(RB)], a, b;
            UNROLL
            for (int u = 0; u < FN(PARTS); u++) {
                UNROLL
                for (int t = 0; t < rb; t++) s[u][t] = VLOAD(acc[t][p + u] + h * VL);
            }
            for (int j = c + p; j < end; j += IG_FLOAT_PARTS) {
                const float *xj = &x[0][2 * (j - c)];
                UNROLL
                for (int u = 0; u < FN(PARTS); u++) {
                    PREFETCH(w + (size_t)(j + u) * PAIR_BYTES);
                    PAIR(w + (size_t)(j + u) * PAIR_BYTES, h, &a, &b);
                    UNROLL
                    for (int t = 0; t < rb; t++)
                        s[u][t] = VFMA(a, VSET1(xj[2 * (t * FN(CHUNK) + u)]), s[u][t]);
                    UNROLL
                    for (int t = 0; t < rb; t++)
                        s[u][t] = VFMA(b, VSET1(xj[2 * (t * FN(CHUNK) + u) + 1]), s[u][t]);
                }
            }
            UNROLL
            for (int u = 0; u < FN(PARTS); u++) {
                UNROLL
                for (int t = 0; t < rb; t++) VSTORE(acc[t][p + u] + h * VL, s[u][t]);
            }
        }
    }
    for (int t = 0; t < rb; t++) {
        FN(tail)(acc[t], w, xs[t], pairs, cols);
        FN(finish)(y[t], acc[t]);
    }
}

static void FN(panel)(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x, int cols,
                      int n)
{
    int t = 0;
    IG_KNOWN_COLS(cols);
    for (; t + 8 <= n; t += 8) FN(rows)(y + t, panel, x + t, cols, 8);
    for (; t + 4 <= n; t += 4) FN(rows)(y + t, panel, x + t, cols, 4);
    if (t + 2 <= n) {
        FN(rows)(y + t, panel, x + t, cols, 2);
        t += 2;
    }
    if (t < n) FN(one)(y[t], panel, x[t], cols);
}

#undef FN
#undef PAIR
#undef SINGLE
#undef PAIR_BYTES

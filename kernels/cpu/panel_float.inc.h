/* panel_float.inc.h -- panel times activations for F32, F16 and BF16, over vec_*.h.
 *
 * Include it with these defined; it undefines them again:
 *   FN(f)               function name with the format's and the ISA's suffix
 *   PAIR(p, h, a, b)    columns 2j and 2j+1 (at p) of rows VL*h.. as vectors
 *   SINGLE(p, h, a)     column 2j alone: the last one of an odd count
 *   PAIR_BYTES          bytes from one pair of columns to the next
 *
 * One row of activations: the panel streams by once, eight accumulators a half.
 * Up to RB rows: parts outermost inside a chunk of columns that stays in L1, so
 * that RB accumulators live in registers and each weight is widened once for
 * RB rows.  Bound: n == 1 one read of the panel, else FMA issue.
 */
enum { FN(HALVES) = IG_PANEL_ROWS / VL, FN(RB) = 8, FN(CHUNK) = 64 /* pairs */ };

static void FN(finish)(float y[IG_PANEL_ROWS], float acc[IG_PARTS][IG_PANEL_ROWS])
{
    for (int r = 0; r < IG_PANEL_ROWS; r += VL) {
        V s[4];
        for (int p = 0; p < 4; p++) s[p] = VADD(VLOAD(acc[p] + r), VLOAD(acc[p + 4] + r));
        VSTORE(y + r, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}

/* The odd last column enters the part after the last whole pair. */
static void FN(odd)(float acc[IG_PARTS][IG_PANEL_ROWS], const uint8_t *w, const float *x, int pairs)
{
    for (int h = 0; h < FN(HALVES); h++) {
        V a;
        SINGLE(w + (size_t)pairs * PAIR_BYTES, h, &a);
        float *to = acc[pairs % IG_PARTS] + h * VL;
        VSTORE(to, VFMA(a, VSET1(x[2 * pairs]), VLOAD(to)));
    }
}

static void FN(one)(float y[IG_PANEL_ROWS], const uint8_t *w, const float *x, int cols)
{
    float acc[IG_PARTS][IG_PANEL_ROWS] = { { 0 } };
    const int pairs = cols / 2;
    for (int c = 0; c < pairs; c += FN(CHUNK)) {
        const int end = c + FN(CHUNK) < pairs ? c + FN(CHUNK) : pairs;
        for (int h = 0; h < FN(HALVES); h++) {
            V s[IG_PARTS], a, b;
            int j = c;
#pragma GCC unroll 8
            for (int p = 0; p < IG_PARTS; p++) s[p] = VLOAD(acc[p] + h * VL);
            for (; j + IG_PARTS <= end; j += IG_PARTS) {
#pragma GCC unroll 8
                for (int p = 0; p < IG_PARTS; p++) {
                    PAIR(w + (size_t)(j + p) * PAIR_BYTES, h, &a, &b);
                    s[p] = VFMA(a, VSET1(x[2 * (j + p)]), s[p]);
                    s[p] = VFMA(b, VSET1(x[2 * (j + p) + 1]), s[p]);
                }
            }
#pragma GCC unroll 8
            for (int p = 0; p < IG_PARTS; p++) VSTORE(acc[p] + h * VL, s[p]);
            for (int p = 0; j < end; j++, p++) {
                float *to = acc[p] + h * VL;
                PAIR(w + (size_t)j * PAIR_BYTES, h, &a, &b);
                const V t = VFMA(a, VSET1(x[2 * j]), VLOAD(to));
                VSTORE(to, VFMA(b, VSET1(x[2 * j + 1]), t));
            }
        }
    }
    if (cols % 2) FN(odd)(acc, w, x, pairs);
    FN(finish)(y, acc);
}

/* rb rows, rb a constant at every call. */
static inline __attribute__((always_inline)) void
FN(rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *w, const void *const *xs, int cols, const int rb)
{
    float acc[FN(RB)][IG_PARTS][IG_PANEL_ROWS] = { { { 0 } } };
    const float *x[FN(RB)];
    for (int t = 0; t < rb; t++) x[t] = xs[t];
    const int pairs = cols / 2;
    for (int c = 0; c < pairs; c += FN(CHUNK)) {
        const int end = c + FN(CHUNK) < pairs ? c + FN(CHUNK) : pairs;
        for (int h = 0; h < FN(HALVES); h++) {
            for (int p = 0; p < IG_PARTS; p++) {
                V s[FN(RB)], a, b;
                for (int t = 0; t < rb; t++) s[t] = VLOAD(acc[t][p] + h * VL);
                for (int j = c + p; j < end; j += IG_PARTS) {
                    PAIR(w + (size_t)j * PAIR_BYTES, h, &a, &b);
                    for (int t = 0; t < rb; t++) s[t] = VFMA(a, VSET1(x[t][2 * j]), s[t]);
                    for (int t = 0; t < rb; t++) s[t] = VFMA(b, VSET1(x[t][2 * j + 1]), s[t]);
                }
                for (int t = 0; t < rb; t++) VSTORE(acc[t][p] + h * VL, s[t]);
            }
        }
    }
    for (int t = 0; t < rb; t++) {
        if (cols % 2) FN(odd)(acc[t], w, x[t], pairs);
        FN(finish)(y[t], acc[t]);
    }
}

static void FN(panel)(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x, int cols,
                      int n)
{
    int t = 0;
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

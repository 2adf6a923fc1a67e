
#define PANEL_DOTS panel_dots
#define STRIP 2 /* panels */
static inline __attribute__((always_inline)) void
panel_dots(float p[][IG_KV_BLOCK], const struct ig_xq *q, const uint8_t *k, int blocks, int nh, int j)
{
    V part[IG_BLOCK_PARTS][8][STRIP];
    const size_t panel = (size_t)blocks * IG_KV_TILE;
    for (int b = 0; b < blocks; b++, k += IG_KV_TILE) {
        QI s[8][STRIP];
        V d[STRIP];
        UNROLL
        for (int r = 0; r < STRIP; r++) d[r] = VLOAD_F16(k + (size_t)r * panel);
        UNROLL
        for (int i = 0; i < nh; i++) s[i][0] = s[i][1] = QSET32(-128 * q[i * blocks + b].sum);
        UNROLL
        for (int c = 0; c < 8; c++) {
            QI w[STRIP];
            UNROLL
            for (int r = 0; r < STRIP; r++) w[r] = QLOAD(k + (size_t)r * panel + 32 + 64 * c);
            UNROLL
            for (int i = 0; i < nh; i++) {
                QI x = QX4(q[i * blocks + b].q + 4 * c);
                __asm__("" : "+v"(x));
                UNROLL
                for (int r = 0; r < STRIP; r++) s[i][r] = _mm512_dpbusd_epi32(s[i][r], w[r], x);
            }
        }
        V (*to)[STRIP] = part[b % IG_BLOCK_PARTS];
        UNROLL
        for (int i = 0; i < nh; i++) {
            const V dx = VSET1(q[i * blocks + b].d);
            UNROLL
            for (int r = 0; r < STRIP; r++) to[i][r] = VFMA(VMUL(d[r], dx), QFLOAT(s[i][r]), b < IG_BLOCK_PARTS ? VZERO : to[i][r]);
        }
    }
    for (int b = blocks; b < IG_BLOCK_PARTS; b++) {
        UNROLL
        for (int i = 0; i < nh; i++) part[b][i][0] = part[b][i][1] = VZERO;
    }
    UNROLL
    for (int i = 0; i < nh; i++) {
      UNROLL
      for (int r = 0; r < STRIP; r++) {
        V s[4];
        if (blocks <= 4) 
        UNROLL
        for (int b = 0; b < 4; b++) s[b] = part[b][i][r];
        else
        UNROLL
        for (int b = 0; b < 4; b++) s[b] = VADD(part[b][i][r], part[b + 4][i][r]);
        VSTORE(p[i] + j + 16 * r, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
      }
    }
}

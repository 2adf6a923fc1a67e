/* tile.c -- one row of a tile, as quant.h describes it.
 *
 * Every byte of a tile belongs to one row, so rows can be written in any order.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include <string.h>

#include "../quant.h"

enum { PR = IG_PANEL_ROWS, QB = IG_QBLOCK };

/* Four codes of neighbouring columns are one 32-bit word, so a plane moves word by word. */
static void put_plane(uint8_t *at, const uint8_t *q, int low, int bits)
{
    const int per = 8 / bits;
    const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
    for (int g = 0; g < bits; g++) {
        uint32_t word = 0;
        for (int t = 0; t < per; t++) {
            uint32_t four;
            memcpy(&four, q + 4 * (g * per + t), sizeof four);
            word |= (four >> low & mask) << bits * t;
        }
        memcpy(at + 64 * g, &word, sizeof word);
    }
}

static void get_plane(uint8_t *q, const uint8_t *at, int low, int bits)
{
    const int per = 8 / bits;
    const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
    for (int g = 0; g < bits; g++) {
        uint32_t word;
        memcpy(&word, at + 64 * g, sizeof word);
        for (int t = 0; t < per; t++) {
            uint32_t four = 0;
            if (low) memcpy(&four, q + 4 * (g * per + t), sizeof four);
            four |= (word >> bits * t & mask) << low;
            memcpy(q + 4 * (g * per + t), &four, sizeof four);
        }
    }
}

/* at: the sub-scales' first byte of row r. */
static void put_scales(const struct ig_qfmt *f, uint8_t *at, const struct ig_qcodes *c)
{
    uint8_t v[IG_QSUBS] = { 0 };
    for (int i = 0; i < f->n_sub; i++) v[i] = (uint8_t)(c->sc[i] + f->sc_zero);
    if (f->sc == IG_QSC_6 && f->min) memcpy(v + f->n_sub, c->mn, f->n_sub);
    switch (f->sc) {
    case IG_QSC_6:
        for (int i = 0; i < 12; i++)
            at[i / 4 * 64 + i % 4 * PR] = (uint8_t)(v[i] | (v[12 + i % 4] >> 2 * (i / 4) & 3) << 6);
        break;
    case IG_QSC_8:
        for (int i = 0; i < 16; i++) at[i * PR] = v[i];
        break;
    case IG_QSC_44:
        for (int i = 0; i < 16; i++) at[i * PR] = (uint8_t)(v[i] | c->mn[i] << 4);
        break;
    case IG_QSC_42:
        for (int i = 0; i < 2; i++)
            at[i * PR] =
                (uint8_t)(v[i] >> 4 | v[i + 2] >> 4 << 2 | v[i + 4] >> 4 << 4 | v[i + 6] >> 4 << 6);
        for (int i = 0; i < 4; i++) at[32 + i * PR] = (uint8_t)((v[i] & 15) | (v[i + 4] & 15) << 4);
        break;
    default:
        break;
    }
}

static void get_scales(const struct ig_qfmt *f, struct ig_qcodes *c, const uint8_t *at)
{
    uint8_t v[IG_QSUBS] = { 0 };
    switch (f->sc) {
    case IG_QSC_6:
        for (int i = 0; i < 12; i++) {
            const int byte = at[i / 4 * 64 + i % 4 * PR];
            v[i] = byte & 63;
            v[12 + i % 4] = (uint8_t)(v[12 + i % 4] | byte >> 6 << 2 * (i / 4));
        }
        break;
    case IG_QSC_8:
        for (int i = 0; i < 16; i++) v[i] = at[i * PR];
        break;
    case IG_QSC_44:
        for (int i = 0; i < 16; i++) {
            v[i] = at[i * PR] & 15;
            c->mn[i] = at[i * PR] >> 4;
        }
        break;
    case IG_QSC_42:
        for (int i = 0; i < 8; i++)
            v[i] = (uint8_t)((at[32 + i % 4 * PR] >> 4 * (i / 4) & 15) |
                             (at[i % 2 * PR] >> 2 * (i / 2) & 3) << 4);
        break;
    default:
        break;
    }
    for (int i = 0; i < f->n_sub; i++) c->sc[i] = (int8_t)(v[i] - f->sc_zero);
    if (f->sc == IG_QSC_6 && f->min)
        for (int i = 0; i < f->n_sub; i++) c->mn[i] = v[f->n_sub + i];
}

static int bits_of(const struct ig_qfmt *f) { return f->plane[0] + f->plane[1]; }

/* Where the columns start. */
static int head_bytes(const struct ig_qfmt *f)
{
    return PR * f->bytes - f->cols / QB * 64 * bits_of(f);
}

void ig_qcodes_to_tile(const struct ig_qfmt *f, uint8_t *tile, int r, const struct ig_qcodes *c)
{
    uint8_t *at = tile;
    memcpy(at + f->d_bytes * r, (const uint8_t[]){ (uint8_t)(c->d & 255), (uint8_t)(c->d >> 8) },
           f->d_bytes);
    at += f->d_bytes * PR;
    if (f->min) {
        memcpy(at + 2 * r, (const uint8_t[]){ (uint8_t)(c->m & 255), (uint8_t)(c->m >> 8) }, 2);
        at += 2 * PR;
    }
    put_scales(f, at + r, c);
    at = tile + head_bytes(f) + 4 * r;
    for (int j = 0; j < f->cols / QB; j++, at += 64 * bits_of(f)) {
        put_plane(at, c->q + j * QB, 0, f->plane[0]);
        if (f->plane[1]) put_plane(at + 64 * f->plane[0], c->q + j * QB, f->plane[0], f->plane[1]);
    }
}

void ig_qcodes_from_tile(const struct ig_qfmt *f, struct ig_qcodes *c, const uint8_t *tile, int r)
{
    const uint8_t *at = tile;
    c->d = at[f->d_bytes * r];
    if (f->d_bytes == 2) c->d = (uint16_t)(c->d | at[2 * r + 1] << 8);
    at += f->d_bytes * PR;
    if (f->min) {
        c->m = (uint16_t)(at[2 * r] | at[2 * r + 1] << 8);
        at += 2 * PR;
    }
    get_scales(f, c, at + r);
    at = tile + head_bytes(f) + 4 * r;
    for (int j = 0; j < f->cols / QB; j++, at += 64 * bits_of(f)) {
        get_plane(c->q + j * QB, at, 0, f->plane[0]);
        if (f->plane[1]) get_plane(c->q + j * QB, at + 64 * f->plane[0], f->plane[0], f->plane[1]);
    }
}

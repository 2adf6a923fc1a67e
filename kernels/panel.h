/* panel.h -- the packed order of weights, the same for CPU and GPU.
 *
 * A matrix [rows][cols] is cut into panels of 16 rows (the last one padded with
 * zero weights).  Inside a panel, columns ascend and 16 rows lie side by side:
 *
 *   F32   per column:      16 x f32                                     64 B
 *   F16   per 2 columns:   16 x (f16, f16)                              64 B
 *   BF16  per 2 columns:   16 x (bf16, bf16)                            64 B
 *   blocks                 tiles of 32 or 256 columns, kernels/quant.h: scales of
 *                          the 16 rows, then planes of codes in groups of 64 B.
 *                          Q8_0 is 16 x f16 and 8 groups, group k with columns
 *                          4k..4k+3 of each row as u8 = q + 128; Q4_0 is 16 x f16
 *                          and 4 groups, group k with columns 8k..8k+3 in the low
 *                          nibbles and 8k+4..8k+7 in the high ones.
 *
 * A block format's panel is exactly as large as its 16 standard rows.
 * Odd column counts of F16/BF16 are padded with a zero column.  The order is
 * lossless: ig_panel_row gives back exactly the values that went in.
 *
 * "Standard rows" below are GGUF's row-major blocks or plain f32/f16/bf16 arrays.
 */
#ifndef IG_PANEL_H
#define IG_PANEL_H

#include "kernels.h"

const char *ig_fmt_name(enum ig_fmt fmt);           /* "q8_0" */
int ig_fmt_cols(enum ig_fmt fmt);                   /* columns must be a multiple: 1, 32, 256 */
size_t ig_fmt_row_bytes(enum ig_fmt fmt, int cols); /* one standard row */
size_t ig_panel_bytes(enum ig_fmt fmt, int cols);   /* one packed panel */

/* No magnitude above this survives ig_row_from_f32. */
float ig_fmt_most(enum ig_fmt fmt);

/* Standard row -> f32, f32 -> standard row (quantising as the GGUF types do). */
void ig_row_to_f32(enum ig_fmt fmt, float *dst, const void *row, int cols);
void ig_row_from_f32(enum ig_fmt fmt, void *row, const float *src, int cols);

/* Up to 16 standard rows -> one panel; rows n..15 become zero weights. */
void ig_panel_pack(enum ig_fmt fmt, void *panel, const void *const *rows, int n, int cols);
/* Row r of a packed panel becomes zero weights. */
void ig_panel_zero_row(enum ig_fmt fmt, void *panel, int r, int cols);
/* Row r of a packed panel, as f32[cols]. */
void ig_panel_row(enum ig_fmt fmt, float *dst, const void *panel, int r, int cols);

#endif

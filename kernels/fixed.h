/* fixed.h -- the sizes of a build for one shape.
 *
 * Kernels take their sizes as arguments.  Compiled with -DIG_FIXED_COLS=N a matrix kernel serves
 * matrices of N columns and no others, with -DIG_FIXED_HD=N -DIG_FIXED_GROUP=G attention serves
 * heads of N in groups of G: the compiler then knows every trip count.  bench/kernels.c and
 * bench/attn.c link both builds of the same text and print what the constants gain; engines have
 * the general one, since that is nothing (docs/ARCHITECTURE.md).
 */
#ifndef IG_FIXED_H
#define IG_FIXED_H

#ifdef IG_FIXED_COLS
#define IG_KNOWN_COLS(cols) ((cols) == IG_FIXED_COLS ? (void)0 : __builtin_unreachable())
#else
#define IG_KNOWN_COLS(cols) ((void)0)
#endif

#ifdef IG_FIXED_HD
#define IG_KNOWN_HEADS(hd, g)                                                                      \
    ((hd) == IG_FIXED_HD && (g) == IG_FIXED_GROUP ? (void)0 : __builtin_unreachable())
#else
#define IG_KNOWN_HEADS(hd, g) ((void)0)
#endif

#endif

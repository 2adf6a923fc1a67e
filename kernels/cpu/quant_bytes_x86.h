/* quant_bytes_x86.h -- the byte words of quant_unpack.inc.h: BL bytes in one vector B.
 * Shifts may carry bits over from a neighbour, which callers mask.
 */
#define B            __m256i
#define BL           32
#define BLOAD(p)     _mm256_loadu_si256((const void *)(p))
#define BSTORE(p, a) _mm256_storeu_si256((void *)(p), a)
#define BSET(x)      _mm256_set1_epi8(x)
#define BAND(a, b)   _mm256_and_si256(a, b)
#define BOR(a, b)    _mm256_or_si256(a, b)
#define BSUB(a, b)   _mm256_sub_epi8(a, b)
#define BSHL(a, n)   _mm256_slli_epi16(a, n)
#define BSHR(a, n)   _mm256_srli_epi16(a, n)
#define BSHLV(a, n)  _mm256_slli_epi16(a, n) /* n need not be a constant */

/* unroll.h -- UNROLL, before a loop whose trip count is a small constant and whose arrays should be
 * registers.  Sanitized builds check every step: unrolled, they compile for minutes.
 */
#if defined __SANITIZE_ADDRESS__
#define UNROLL
#elif defined __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* base.h -- errors, assertions and small arithmetic that every module uses.
 *
 * Start-up code returns enum ig_err and fills struct ig_why with what was
 * expected and what was found; only main.c prints it.  After start-up there is
 * nothing to return: ig_die() ends the process with the place in its message.
 */
#ifndef IG_BASE_H
#define IG_BASE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* name, exit code */
#define IG_ERRORS(X)                                                                               \
    X(OK, 0)                                                                                       \
    X(FAIL, 1)                                                                                     \
    X(IO, 1)                                                                                       \
    X(NO_MEM, 1)                                                                                   \
    X(BAD_FILE, 1)                                                                                 \
    X(USAGE, 2)                                                                                    \
    X(MISMATCH, 3)  /* the file is not this build's */                                             \
    X(NO_DEVICE, 3) /* no device that the build was planned for */                                 \
    X(NO_ISA, 3)    /* the CPU lacks an instruction set that it was planned for */

enum ig_err {
#define X(name, code) IG_##name,
    IG_ERRORS(X)
#undef X
};

struct ig_why {
    /* One line: the thing, what was expected, what was found.  More stand indented below. */
    char text[1024];
};

/* Copy `from`, cut to `room` bytes, so that it cannot steer a terminal: control bytes (and C1's, in
 * UTF-8) become \xNN.  Every message goes through this, since names of users and of files are in
 * them.  A line break before two spaces stays: it is a message that goes on. */
void ig_escape(char *to, size_t room, const char *from);

int ig_exit_code(enum ig_err err);

/* Set `why` and return `err`: `return ig_fail(why, IG_BAD_FILE, "%s: ...", path);` */
enum ig_err ig_fail(struct ig_why *why, enum ig_err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Print to stderr and exit(1); for errors after start-up, which nothing can mend. */
_Noreturn void ig_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#ifdef NDEBUG
#define IG_ASSERT(x) ((void)0)
#else
#define IG_ASSERT(x) ((x) ? (void)0 : ig_die("%s:%d: assertion failed: %s", __FILE__, __LINE__, #x))
#endif

/* Checked arithmetic for sizes that come from outside: 1 when it does not wrap. */
static inline int ig_mul_ok(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline int ig_add_ok(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif

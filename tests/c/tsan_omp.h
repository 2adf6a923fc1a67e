/* tsan_omp.h -- ThreadSanitizer sees where OpenMP's threads begin and end.
 *
 * libgomp is not instrumented, so what a region's threads read of the code before it, and the code after
 * it of theirs, would count as races.  Linked with --wrap=GOMP_parallel.
 */
#ifndef TSAN_OMP_H
#define TSAN_OMP_H

#ifdef __SANITIZE_THREAD__

/* What libgomp itself does with the memory of its tasks is not looked at, either. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "called_from_lib:libgomp.so.1\n"; }

void __tsan_acquire(void *at);
void __tsan_release(void *at);
void __real_GOMP_parallel(void (*fn)(void *), void *data, unsigned n, unsigned flags);
void __wrap_GOMP_parallel(void (*fn)(void *), void *data, unsigned n, unsigned flags);

struct tsan_region {
    void (*fn)(void *);
    void *data;
};

static void tsan_body(void *at)
{
    const struct tsan_region *r = at;
    __tsan_acquire(at);
    r->fn(r->data);
    __tsan_release(at);
}

void __wrap_GOMP_parallel(void (*fn)(void *), void *data, unsigned n, unsigned flags)
{
    static struct tsan_region r; /* one region at a time */
    r = (struct tsan_region){ fn, data };
    __tsan_release(&r);
    __real_GOMP_parallel(tsan_body, &r, n, flags);
    __tsan_acquire(&r);
}

#endif
#endif

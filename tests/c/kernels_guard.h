/* kernels_guard.h -- buffers that end at a page nobody may touch.
 *
 * Reading or writing one byte past the end faults, so the kernels' tests need
 * no sanitizer to catch it.
 */
#ifndef KERNELS_GUARD_H
#define KERNELS_GUARD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct guard {
    void *p; /* `bytes` bytes, the last one just before the guard page */
    void *map;
    size_t mapped;
};

static inline struct guard guard_alloc(size_t bytes)
{
    enum { PAGE = 4096 };
    struct guard g;
    const size_t body = (bytes + PAGE - 1) / PAGE * PAGE;
    g.mapped = body + PAGE;
    g.map = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect((char *)g.map + body, PAGE, PROT_NONE) != 0) {
        perror("guard_alloc");
        exit(1);
    }
    g.p = (char *)g.map + body - bytes;
    return g;
}

static inline void guard_free(struct guard g) { munmap(g.map, g.mapped); }

#endif

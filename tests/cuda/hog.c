/* hog.c -- takes all but LEFT MiB of the device's memory, says "ready", and holds it until its input ends. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef int call;

int main(int argc, char **argv)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    if (!lib || argc != 2) return 1;
    call (*init)(unsigned), (*retain)(void **, int), (*set)(void *), (*info)(size_t *, size_t *);
    call (*alloc)(unsigned long long *, size_t);
    *(void **)(void *)&init = dlsym(lib, "cuInit");
    *(void **)(void *)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)(void *)&set = dlsym(lib, "cuCtxSetCurrent");
    *(void **)(void *)&info = dlsym(lib, "cuMemGetInfo_v2");
    *(void **)(void *)&alloc = dlsym(lib, "cuMemAlloc_v2");
    if (!init || !retain || !set || !info || !alloc) return 1;
    if (init(0) != 0 || retain(&context, 0) != 0 || set(context) != 0) return 1;
    const size_t left = strtoull(argv[1], NULL, 10) << 20;
    size_t piece = (size_t)1 << 30, free_now = 0, all = 0;
    unsigned long long p;
    while (info(&free_now, &all) == 0 && free_now > left + (1 << 20) && piece >= 1 << 20) {
        if (piece > free_now - left || alloc(&p, piece) != 0) piece /= 2;
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}

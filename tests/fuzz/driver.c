/* driver.c -- runs a fuzz target without a fuzzer: a fixed number of mutants of its
 * seeds, the same ones every time.
 *
 *   fuzz_x [-n COUNT] [-s SEED] [FILE...]   FILEs are more seeds, or inputs to repeat with -n 0;
 * SEED: other mutants fuzz_x -w FOLDER                write the seeds, as a corpus for libFuzzer:
 *   clang -fsanitize=fuzzer,address fuzz_x.c ... && ./a.out FOLDER
 *
 * A target defines LLVMFuzzerTestOneInput, and may define fuzz_seed.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
/* Seed i into out (at most `room`); its size, 0 when there is no seed i. */
size_t fuzz_seed(int i, uint8_t *out, size_t room) __attribute__((weak));

enum { ROOM = 1 << 16, SEEDS = 64, COUNT = 20000 };

static struct {
    uint8_t *p;
    size_t n;
} seed[SEEDS];
static int n_seed;

static uint64_t state = 1;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (uint32_t)((state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % n : 0;
}

static void add_seed(const uint8_t *p, size_t n)
{
    if (n_seed == SEEDS) return;
    seed[n_seed].p = malloc(n + 1);
    if (!seed[n_seed].p) exit(1);
    memcpy(seed[n_seed].p, p, n);
    seed[n_seed++].n = n;
}

static void add_file(const char *path)
{
    static uint8_t buf[ROOM];
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: cannot open\n", path);
        exit(1);
    }
    add_seed(buf, fread(buf, 1, sizeof buf, f));
    fclose(f);
}

/* Numbers that break arithmetic, at any width. */
static uint64_t bad_number(void)
{
    static const uint64_t some[] = { 0,
                                     1,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     UINT64_MAX,
                                     INT64_MAX,
                                     UINT64_C(1) << 63,
                                     1 << 20,
                                     UINT64_MAX - 7,
                                     UINT64_C(1) << 61,
                                     32 };
    const uint64_t v = some[below(sizeof some / sizeof *some)];
    return below(4) ? v : v + below(16);
}

static size_t mutate_once(uint8_t *p, size_t n)
{
    const size_t at = below((uint32_t)n + 1), other = below((uint32_t)n + 1);
    size_t width = (size_t)1 << below(4);
    uint64_t v;

    switch (below(8)) {
    case 0: /* a bit */
        if (at < n) p[at] ^= (uint8_t)(1 << below(8));
        break;
    case 1: /* a byte */
        if (at < n) p[at] = (uint8_t)below(256);
        break;
    case 2: /* a number, little-endian */
        v = bad_number();
        if (at + width <= n) memcpy(p + at, &v, width);
        break;
    case 3: /* a number in digits */
        if (at + 20 < n)
            (void)snprintf((char *)p + at, 20, "%llu", (unsigned long long)bad_number());
        break;
    case 4: /* the end goes */
        return at;
    case 5: /* a piece goes */
        if (at < other) {
            memmove(p + at, p + other, n - other);
            return n - (other - at);
        }
        break;
    case 6: /* a piece comes twice */
        if (at < other && n + (other - at) <= ROOM) {
            memmove(p + other + (other - at), p + other, n - other);
            memcpy(p + other, p + at, other - at);
            return n + (other - at);
        }
        break;
    default: /* a piece moves over another */
        width = below(16);
        if (at + width <= n && other + width <= n) memmove(p + at, p + other, width);
        break;
    }
    return n;
}

static void run(const uint8_t *p, size_t n)
{
    /* A copy of exactly this size, so that a sanitizer sees one byte too many. */
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact) exit(1);
    memcpy(exact, p, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

static void write_seeds(const char *folder)
{
    char path[1024];
    for (int i = 0; i < n_seed; i++) {
        snprintf(path, sizeof path, "%s/seed-%d", folder, i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(seed[i].p, 1, seed[i].n, f) != seed[i].n || fclose(f)) exit(1);
    }
}

int main(int argc, char **argv)
{
    static uint8_t buf[ROOM];
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    const char *folder = NULL;
    long count = COUNT;
    size_t n;

    for (int i = 0; fuzz_seed && (n = fuzz_seed(i, buf, sizeof buf)) > 0; i++) add_seed(buf, n);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-n") == 0 && i + 1 < argc)
            count = atol(argv[++i]);
        else if (strcmp(argv[i], "-s") == 0 && i + 1 < argc)
            state = strtoull(argv[++i], NULL, 10) * 2 + 1; /* never 0 */
        else if (strcmp(argv[i], "-w") == 0 && i + 1 < argc)
            folder = argv[++i];
        else
            add_file(argv[i]);
    }
    if (folder) {
        write_seeds(folder);
        return 0;
    }
    if (n_seed == 0) add_seed((const uint8_t *)"", 0);

    printf("1..1\n");
    for (int i = 0; i < n_seed; i++) run(seed[i].p, seed[i].n);
    for (long i = 0; i < count; i++) {
        const int s = (int)below((uint32_t)n_seed);
        memcpy(buf, seed[s].p, seed[s].n);
        n = seed[s].n;
        for (uint32_t k = 1 + below(4); k > 0; k--) n = mutate_once(buf, n);
        run(buf, n);
    }
    printf("ok 1 - %s: %d seeds, %ld mutants\n", name, n_seed, count);
    for (int i = 0; i < n_seed; i++) free(seed[i].p);
    return 0;
}

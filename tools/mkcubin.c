/* mkcubin.c -- CUDA C to a cubin (or PTX) by NVRTC, at build time and without a GPU.
 *
 *     mkcubin -a sm_89 [-p] [-I DIR]... [-D NAME=VALUE]... -o OUT FILE.cu
 *
 * -p writes PTX for the architecture instead, to look at or to load: with the NUL that ends it, as
 * cuModuleLoadData wants text (NVRTC counts it in the size).  Floating-point arithmetic is as
 * written: no contraction, no flushing, IEEE division and square root.  The
 * kernels are C, so the few standard headers they name are given here: NVRTC
 * has none.  What the compiler says goes to standard error; exit code 1 when it
 * refused.
 */
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 96 };

static const char *const header_name[] = { "stdint.h", "stddef.h", "math.h", "string.h" };
static const char *const header_text[] = {
    "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;\n"
    "typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned uint32_t;\n"
    "typedef long long int64_t; typedef unsigned long long uint64_t;\n"
    "typedef unsigned long long uintptr_t;\n",
    "#ifndef NULL\n#define NULL 0\n#endif\n",
    "#define INFINITY __int_as_float(0x7f800000)\n",
    "\n",
};
enum { N_HEADER = sizeof header_name / sizeof *header_name };

struct job {
    const char *out, *file;
    const char *option[MOST];
    int n_option, ptx;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "mkcubin: %s: %s\n", what, why);
    exit(1);
}

static void check(nvrtcResult r, const char *what)
{
    if (r != NVRTC_SUCCESS) fail(what, nvrtcGetErrorString(r));
}

static char *joined(const char *a, const char *b)
{
    const size_t n = strlen(a) + strlen(b) + 1;
    char *s = malloc(n);
    if (!s) fail(b, "no memory");
    snprintf(s, n, "%s%s", a, b);
    return s;
}

static void option(struct job *j, const char *text)
{
    if (j->n_option == MOST) fail(text, "too many options");
    j->option[j->n_option++] = text;
}

static struct job parse(int argc, char **argv)
{
    static const char *const always[] = {
        "-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true", "-std=c++17",
        "-default-device", "-D_Static_assert=static_assert",
        "-diag-suppress=20044", /* kernels.h declares tables of the CPU's kernels */
    };
    struct job j = { 0 };
    const char *arch = NULL;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) option(&j, always[i]);
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (strcmp(a, "-p") == 0)
            j.ptx = 1;
        else if (strcmp(a, "-o") == 0 && i + 1 < argc)
            j.out = argv[++i];
        else if (strcmp(a, "-a") == 0 && i + 1 < argc)
            arch = argv[++i];
        else if (strncmp(a, "-D", 2) == 0 || strncmp(a, "-I", 2) == 0 || strncmp(a, "--", 2) == 0)
            option(&j, a);
        else if (a[0] != '-' && !j.file)
            j.file = a;
        else
            fail(a, "unknown argument");
    }
    if (!j.out || !j.file || !arch || strncmp(arch, "sm_", 3) != 0)
        fail("usage", "mkcubin -a sm_NN [-p] [-I DIR]... [-DNAME=VALUE]... -o OUT FILE.cu");
    option(&j, joined(j.ptx ? "-arch=compute_" : "-arch=sm_", arch + 3));
    return j;
}

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) fail(path, "cannot read");
    const long n = ftell(f);
    char *text = calloc(1, (size_t)n + 1);
    rewind(f);
    if (!text || fread(text, 1, (size_t)n, f) != (size_t)n) fail(path, "cannot read");
    fclose(f);
    return text;
}

static void write_file(const char *path, const char *data, size_t n)
{
    /* An object of a name that make trusts must be whole. */
    FILE *f = fopen(path, "wb");
    if (f && fwrite(data, 1, n, f) == n && fclose(f) == 0) return;
    if (f) remove(path);
    fail(path, "cannot write");
}

int main(int argc, char **argv)
{
    const struct job j = parse(argc, argv);
    nvrtcProgram program;
    size_t n = 0;
    check(nvrtcCreateProgram(&program, slurp(j.file), j.file, N_HEADER, header_text, header_name),
          j.file);
    const nvrtcResult r = nvrtcCompileProgram(program, j.n_option, j.option);
    check(nvrtcGetProgramLogSize(program, &n), "log");
    if (n > 1) {
        char *log = malloc(n);
        if (!log) fail("log", "no memory");
        check(nvrtcGetProgramLog(program, log), "log");
        fputs(log, stderr);
    }
    check(r, j.file);
    check(j.ptx ? nvrtcGetPTXSize(program, &n) : nvrtcGetCUBINSize(program, &n), "size");
    char *image = malloc(n);
    if (!image) fail(j.out, "no memory");
    check(j.ptx ? nvrtcGetPTX(program, image) : nvrtcGetCUBIN(program, image), "result");
    write_file(j.out, image, n);
    free(image);
    nvrtcDestroyProgram(&program);
    return 0;
}

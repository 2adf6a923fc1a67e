/* driver.c -- a machine whose GPU is in trouble, for tests/gpu.sh.
 *
 * Alone, as libcuda.so.1 in LD_LIBRARY_PATH: a driver that is too old.
 * In LD_PRELOAD, in front of the real driver: DRIVER_ARCH=89 names another architecture,
 * DRIVER_PIN=BYTES is the most memory that can be registered in all, as where a limit is low,
 * DRIVER_FREE=BYTES what is free of the device's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, MAJOR = 75, MINOR = 76 };

#ifdef ALONE

int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (void)flags, 0; }
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) { return *version = 11000, 0; }

#else

typedef int attribute_fn(int *value, int which, int device);
typedef int register_fn(void *p, size_t bytes, unsigned flags);
typedef int info_fn(size_t *left, size_t *all);
typedef int old_proc_fn(const char *name, void **fn, int version, unsigned long long flags);
typedef int proc_fn(const char *name, void **fn, int version, unsigned long long flags, int *status);
static attribute_fn *attribute;
static register_fn *reg;
static info_fn *info;
static proc_fn *proc;
static old_proc_fn *old_proc;
static size_t registered;

static int my_attribute(int *value, int which, int device)
{
    const char *arch = getenv("DRIVER_ARCH");
    const int code = attribute(value, which, device), n = arch ? atoi(arch) : 0;
    if (n && which == MAJOR) *value = n / 10;
    if (n && which == MINOR) *value = n % 10;
    return code;
}

static int my_register(void *p, size_t bytes, unsigned flags)
{
    const char *most = getenv("DRIVER_PIN");
    if (most && registered + bytes > strtoull(most, NULL, 10)) return OUT_OF_MEMORY;
    const int code = reg(p, bytes, flags);
    if (code == 0) registered += bytes;
    return code;
}

static int my_info(size_t *left, size_t *all)
{
    const char *most = getenv("DRIVER_FREE");
    const int code = info(left, all);
    if (most && code == 0) *left = strtoull(most, NULL, 10);
    return code;
}

static int my_proc(const char *name, void **fn, int version, unsigned long long flags, int *status);
static int my_old_proc(const char *name, void **fn, int version, unsigned long long flags);

/* Ours in place of the driver's, which ours call. */
static void take(const char *name, void **fn, int version)
{
    if (strncmp(name, "cuGetProcAddress", 16) == 0) { /* has had a status since 12.0 */
        if (version >= 12000) proc = (proc_fn *)*fn;
        else old_proc = (old_proc_fn *)*fn;
        *fn = version >= 12000 ? (void *)my_proc : (void *)my_old_proc;
    } else if (strcmp(name, "cuDeviceGetAttribute") == 0) {
        attribute = (attribute_fn *)*fn;
        *fn = (void *)my_attribute;
    } else if (strncmp(name, "cuMemGetInfo", 12) == 0) {
        info = (info_fn *)*fn;
        *fn = (void *)my_info;
    } else if (strncmp(name, "cuMemHostRegister", 17) == 0) {
        reg = (register_fn *)*fn;
        *fn = (void *)my_register;
    }
}

static int my_proc(const char *name, void **fn, int version, unsigned long long flags, int *status)
{
    proc_fn *const real = proc; /* which may be asked for itself */
    const int code = real(name, fn, version, flags, status);
    if (code == 0 && fn && *fn) take(name, fn, version);
    return code;
}
static int my_old_proc(const char *name, void **fn, int version, unsigned long long flags)
{
    const int code = old_proc(name, fn, version, flags);
    if (code == 0 && fn && *fn) take(name, fn, version);
    return code;
}

/* The driver's functions are asked for by name: here, and then of what this finds. */
void *dlsym(void *lib, const char *name)
{
    static void *(*real)(void *, const char *);
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    void *fn = real(lib, name);
    if (fn) take(name, &fn, strcmp(name, "cuGetProcAddress") == 0 ? 0 : 12000);
    return fn;
}

#endif

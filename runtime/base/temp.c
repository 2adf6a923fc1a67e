/* temp.c -- see temp.h. */
#include "temp.h"
#include "stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTIAL ".partial-"

enum ig_err ig_temp_check(const char *out, struct ig_why *why)
{
    struct stat st;
    if (stat(out, &st) != 0 || S_ISREG(st.st_mode)) return IG_OK;
    return ig_fail(why, IG_IO, "%s: want the name of a regular file, got something else", out);
}

/* Of a process that is no more, or had this one's number before it (containers give the same
 * numbers again, and at the same time: the lock tells). */
static int is_left(const char *pid)
{
    const size_t n = strlen(pid);
    if (n == 0 || n >= 10 || strspn(pid, "0123456789") != n) return 0;
    const pid_t p = (pid_t)atol(pid);
    return p == getpid() || (kill(p, 0) != 0 && errno == ESRCH);
}

/* Removes a file of that name, unless somebody holds its lock or the name is another file's by
 * now. */
static void remove_left(int folder, const char *name)
{
    struct stat locked, named;
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &locked) == 0 && S_ISREG(locked.st_mode) &&
        fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == locked.st_dev &&
        named.st_ino == locked.st_ino)
        unlinkat(folder, name, 0);
    close(fd);
}

/* Removes `to.partial-PID` files of processes that were killed: whoever writes one holds its lock
 * until it has its name. */
static void sweep(const char *to)
{
    const char *slash = strrchr(to, '/'), *base = slash ? slash + 1 : to;
    const size_t n = strlen(base), mark = strlen(PARTIAL);
    char *folder = slash ? strndup(to, (size_t)(slash + 1 - to)) : strdup("./");
    DIR *dir = folder ? opendir(folder) : NULL;

    for (struct dirent *d; dir && (d = readdir(dir));)
        if (strncmp(d->d_name, base, n) == 0 && strncmp(d->d_name + n, PARTIAL, mark) == 0 &&
            is_left(d->d_name + n + mark))
            remove_left(dirfd(dir), d->d_name);
    if (dir) closedir(dir);
    free(folder);
}

/* A file of our own that nobody has swept before it was locked; -1 with errno. */
static int create(const char *name, unsigned mode)
{
    struct stat st;
    for (int tries = 0; tries < 8; tries++) {
        const int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0) return -1;
        /* Waits for a sweeper that was there first; where there are no locks, nobody sweeps. */
        while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
        }
        if (fstat(fd, &st) == 0 && st.st_nlink > 0) return fd;
        close(fd);
    }
    errno = EBUSY;
    return -1;
}

enum ig_err ig_temp_open(struct ig_temp *t, const char *out, unsigned mode, struct ig_why *why)
{
    *t = (struct ig_temp){ .fd = -1 };
    const enum ig_err err = ig_temp_check(out, why);
    if (err) return err;
    char *to = ig_file_target(out);
    if (!to) return ig_fail(why, IG_IO, "%s: cannot create: %s", out, strerror(errno));
    const size_t n = strlen(to) + 32;
    char *name = malloc(n);
    if (!name) {
        free(to);
        return ig_fail(why, IG_NO_MEM, "%s: no memory", out);
    }
    snprintf(name, n, "%s" PARTIAL "%ld", to, (long)getpid());
    ig_stop_catch();
    sweep(to);
    t->fd = create(name, mode);
    if (t->fd >= 0) {
        t->out = out;
        t->to = to;
        t->name = name;
        ig_stop_unlink(name);
        sigaction(SIGXFSZ, &(struct sigaction){ .sa_handler = SIG_IGN }, &t->xfsz);
        return IG_OK;
    }
    const int error = errno;
    const char *slash = strrchr(to, '/');
    if (error == ENOENT && slash)
        ig_fail(why, IG_IO, "%s: cannot create: the folder %.*s does not exist", out,
                (int)(slash - to), to);
    else if (error == EEXIST)
        ig_fail(why, IG_IO,
                "%s: another program is writing it, into %s: try again when that has ended", out,
                name);
    else
        ig_fail(why, IG_IO, "%s: cannot create: %s", out, strerror(error));
    free(name); /* not ours to remove */
    free(to);
    return IG_IO;
}

static void end(struct ig_temp *t, int remove)
{
    if (t->fd >= 0) close(t->fd);
    if (t->name) {
        if (remove) unlink(t->name);
        ig_stop_spare(t->name);
        sigaction(SIGXFSZ, &t->xfsz, NULL);
        free(t->name);
        free(t->to);
    }
    *t = (struct ig_temp){ .fd = -1 };
}

enum ig_err ig_temp_keep(struct ig_temp *t, struct ig_why *why)
{
    enum ig_err err = IG_OK;
    const int lock = dup(t->fd); /* until it has its name */

    if (close(t->fd) != 0) err = ig_fail(why, IG_IO, "%s: %s", t->name, strerror(errno));
    t->fd = -1;
    if (!err && rename(t->name, t->to) != 0)
        err =
            ig_fail(why, IG_IO, "%s: cannot rename %s to it: %s", t->out, t->name, strerror(errno));
    end(t, err != IG_OK);
    if (lock >= 0) close(lock);
    return err;
}

void ig_temp_drop(struct ig_temp *t) { end(t, 1); }

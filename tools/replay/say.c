/* say.c -- see say.h. */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

int ig_say(const char *fmt, ...)
{
    struct ig_why why;
    char text[sizeof why.text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ig_escape(why.text, sizeof why.text, text);
    fprintf(stderr, "replay: %s\n", why.text);
    return -1;
}

int ig_out_file_open(struct out_file *o, const char *path)
{
    struct ig_why why;
    o->f = NULL;
    if (ig_temp_open(&o->to, path, 0666, &why)) return ig_say("%s", why.text);
    const int fd = dup(o->to.fd);
    o->f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (o->f) return 0;
    ig_say("%s: cannot write: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    ig_temp_drop(&o->to);
    return -1;
}

int ig_out_file_keep(struct out_file *o)
{
    struct ig_why why;
    const int bad = ferror(o->f);
    if (fclose(o->f) || bad) {
        ig_say("%s: cannot write", o->to.out);
        ig_temp_drop(&o->to);
        return -1;
    }
    return ig_temp_keep(&o->to, &why) ? ig_say("%s", why.text) : 0;
}

void ig_out_file_drop(struct out_file *o)
{
    fclose(o->f);
    ig_temp_drop(&o->to);
}

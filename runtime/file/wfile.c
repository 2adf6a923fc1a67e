/* wfile.c -- reading weights files; wfile_write.c writes them.
 *
 * Section offsets are not free: they follow from the sections' sizes
 * (ig_wfile_place), so a header is compared with the one possible layout.
 */
#include "wfile.h"
#include "file.h"
#include "hash.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef unsigned long long ull; /* for %llu */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is the struct, little-endian");
_Static_assert(sizeof(struct ig_wheader) == 432 && sizeof(struct ig_wblock) == 24, "no padding");
_Static_assert(sizeof(struct ig_wheader) <= IG_WALIGN, "the header is page 0");
_Static_assert(sizeof(struct ig_wtrailer) == 32, "no padding");

static int align_up(uint64_t *n)
{
    if (!ig_add_ok(*n, IG_WALIGN - 1, n)) return 0;
    *n &= ~(uint64_t)(IG_WALIGN - 1);
    return 1;
}

int ig_wfile_place(struct ig_wheader *h)
{
    struct ig_wsection *const section[] = { &h->tokenizer, &h->blocks, &h->data };
    uint64_t at = IG_WALIGN;

    for (int i = 0; i < 3; i++) {
        section[i]->off = at;
        if (!ig_add_ok(at, section[i]->bytes, &at) || !align_up(&at)) return 0;
    }
    h->file_bytes = at;
    return 1;
}

int ig_wfile_trailer(int fd, uint64_t size, uint64_t *off, uint64_t *bytes)
{
    struct ig_wtrailer t;
    struct ig_why why;
    uint64_t end;

    if (size < sizeof t) return 0;
    if (ig_file_read(fd, "", &t, size - sizeof t, sizeof t, &why)) return 0;
    if (memcmp(t.magic, IG_WTRAILER_MAGIC, sizeof t.magic) != 0 ||
        t.hash != XXH3_64bits(&t, offsetof(struct ig_wtrailer, hash)))
        return 0;
    if (t.off % IG_WALIGN || !ig_add_ok(t.off, t.bytes, &end) || end != size - sizeof t) return 0;
    *off = t.off;
    *bytes = t.bytes;
    return 1;
}

/* Open the file and say where in it the weights file is. */
static enum ig_err locate(struct ig_wfile *f, const char *path, uint64_t *bytes, struct ig_why *why)
{
    const char *name = path ? path : "/proc/self/exe";
    struct stat st;
    uint64_t size;

    if (path && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return ig_fail(why, IG_IO, "%s: is a folder; pack it first: %s pack %s -o FILE.ingot", path,
                       program_invocation_short_name, path);
    const enum ig_err err = ig_file_open(&f->fd, &size, name, why);
    if (err) return err;
    f->path = strdup(path ? path : "embedded weights");
    if (!f->path) return ig_fail(why, IG_NO_MEM, "%s: no memory", name);
    f->base = 0;
    *bytes = size;
    if (!path && !ig_wfile_trailer(f->fd, size, &f->base, bytes))
        return ig_fail(why, IG_BAD_FILE,
                       "embedded weights: trailer: want one at this executable's end, got none "
                       "(pass a weights file, or pack with --embed)");
    return IG_OK;
}

/* Text that is NUL-padded to its end. */
static int is_padded(const char *text, size_t bytes)
{
    const size_t n = strnlen(text, bytes);
    if (n == bytes) return 0;
    for (size_t i = n; i < bytes; i++)
        if (text[i]) return 0;
    return 1;
}

static enum ig_err bad(const struct ig_wfile *f, const char *field, uint64_t want, uint64_t got,
                       struct ig_why *why)
{
    return ig_fail(why, IG_BAD_FILE, "%s: %s: want %llu, got %llu", f->path, field, (ull)want,
                   (ull)got);
}

static enum ig_err bad_hash(const struct ig_wfile *f, const char *what, uint64_t want, uint64_t got,
                            struct ig_why *why)
{
    return ig_fail(why, IG_BAD_FILE, "%s: checksum of %s: want %016llx, got %016llx", f->path, what,
                   (ull)want, (ull)got);
}

/* What people pass by mistake, by its first bytes; NULL: something else. */
static const char *kind_of(const unsigned char *first)
{
    if (memcmp(first, "GGUF", 4) == 0) return "GGUF checkpoint";
    if (memcmp(first + 4, "\0\0\0", 4) == 0 && first[8] == '{') return "safetensors checkpoint";
    return NULL;
}

static enum ig_err not_weights(const struct ig_wfile *f, struct ig_why *why)
{
    const char *kind = kind_of((const unsigned char *)&f->h);
    if (kind)
        return ig_fail(why, IG_BAD_FILE,
                       "%s: not a weights file (%s): first %s pack %s -o FILE.ingot", f->path, kind,
                       program_invocation_short_name, f->path);
    return ig_fail(why, IG_BAD_FILE,
                   "%s: not a weights file: its first bytes are not %s; pack makes one from a "
                   "checkpoint",
                   f->path, IG_WMAGIC);
}

static enum ig_err read_header(struct ig_wfile *f, uint64_t bytes, struct ig_why *why)
{
    struct ig_wheader *h = &f->h;

    const uint64_t n = bytes < sizeof *h ? bytes : sizeof *h;
    const enum ig_err err = ig_file_read(f->fd, f->path, h, f->base, n, why);
    if (err) return err;
    if (n >= sizeof h->magic && memcmp(h->magic, IG_WMAGIC, sizeof h->magic) != 0)
        return not_weights(f, why);
    if (n < sizeof *h)
        return ig_fail(why, IG_BAD_FILE, "%s: size: want at least %zu bytes, got %llu", f->path,
                       sizeof *h, (ull)bytes);
    if (h->header_bytes != sizeof *h)
        return bad(f, "header_bytes", sizeof *h, h->header_bytes, why);
    const uint64_t hash = XXH3_64bits(h, offsetof(struct ig_wheader, header_hash));
    if (hash != h->header_hash) return bad_hash(f, "header", h->header_hash, hash, why);
    if (!is_padded(h->model_id, sizeof h->model_id))
        return ig_fail(why, IG_BAD_FILE, "%s: model_id: want text padded with NULs", f->path);
    if (!is_padded(h->layout_text, sizeof h->layout_text))
        return ig_fail(why, IG_BAD_FILE, "%s: layout_text: want text padded with NULs", f->path);
    return IG_OK;
}

static enum ig_err check_sections(const struct ig_wfile *f, uint64_t bytes, struct ig_why *why)
{
    const struct ig_wheader *h = &f->h;
    struct ig_wheader want = *h;

    if (h->blocks.bytes != h->n_block * (uint64_t)sizeof(struct ig_wblock))
        return bad(f, "blocks.bytes", h->n_block * (uint64_t)sizeof(struct ig_wblock),
                   h->blocks.bytes, why);
    if (!ig_wfile_place(&want))
        return ig_fail(why, IG_BAD_FILE, "%s: sections: want sizes that add up below 2^64",
                       f->path);
    if (h->tokenizer.bytes > IG_WTOKENIZER_MOST)
        return ig_fail(why, IG_BAD_FILE, "%s: tokenizer.bytes: want at most %llu, got %llu",
                       f->path, (ull)IG_WTOKENIZER_MOST, (ull)h->tokenizer.bytes);
    if (h->tokenizer.off != want.tokenizer.off)
        return bad(f, "tokenizer.off", want.tokenizer.off, h->tokenizer.off, why);
    if (h->blocks.off != want.blocks.off)
        return bad(f, "blocks.off", want.blocks.off, h->blocks.off, why);
    if (h->data.off != want.data.off) return bad(f, "data.off", want.data.off, h->data.off, why);
    if (h->data.hash != 0) return bad(f, "data.hash", 0, h->data.hash, why);
    if (h->file_bytes != want.file_bytes)
        return bad(f, "file_bytes", want.file_bytes, h->file_bytes, why);
    if (h->file_bytes != bytes)
        return ig_fail(why, IG_BAD_FILE, "%s: size: want %llu bytes (header), got %llu%s", f->path,
                       (ull)h->file_bytes, (ull)bytes, bytes < h->file_bytes ? ": truncated" : "");
    return IG_OK;
}

/* Nothing reads the padding, but a byte set there is damage all the same. */
static enum ig_err check_padding(const struct ig_wfile *f, const char *what, uint64_t end,
                                 struct ig_why *why)
{
    char pad[IG_WALIGN];
    const uint64_t n = -end % IG_WALIGN;

    const enum ig_err err = ig_file_read(f->fd, f->path, pad, f->base + end, n, why);
    if (err) return err;
    for (uint64_t i = 0; i < n; i++)
        if (pad[i])
            return ig_fail(why, IG_BAD_FILE, "%s: padding after %s: want 0 at %llu, got %u",
                           f->path, what, (ull)(end + i), (unsigned char)pad[i]);
    return IG_OK;
}

static enum ig_err bad_block(const struct ig_wfile *f, uint32_t i, uint64_t most,
                             struct ig_why *why)
{
    return ig_fail(why, IG_BAD_FILE, "%s: block %u: bytes: want 1 to %llu, got %llu", f->path, i,
                   (ull)most, (ull)f->blocks[i].bytes);
}

/* The section lies inside the file, but a sparse file is as large as it says: memory is taken only
 * as far as there are blocks. */
static enum ig_err load_blocks(struct ig_wfile *f, struct ig_why *why)
{
    const struct ig_wheader *h = &f->h;
    const size_t one = sizeof *f->blocks, step = 1 << 16;

    for (size_t n = 0, more; n < h->n_block; n += more) {
        more = h->n_block - n < step ? h->n_block - n : step;
        struct ig_wblock *grown = realloc(f->blocks, (n + more) * one);
        if (!grown) return ig_fail(why, IG_NO_MEM, "%s: no memory for its blocks", f->path);
        f->blocks = grown;
        const enum ig_err err = ig_file_read(f->fd, f->path, grown + n,
                                             f->base + h->blocks.off + n * one, more * one, why);
        if (err) return err;
        for (size_t i = n; i < n + more; i++)
            if (grown[i].bytes == 0) return bad_block(f, (uint32_t)i, h->data.bytes, why);
    }
    return IG_OK;
}

static enum ig_err read_blocks(struct ig_wfile *f, struct ig_why *why)
{
    const struct ig_wheader *h = &f->h;
    uint64_t at = 0;

    const enum ig_err err = load_blocks(f, why);
    if (err) return err;
    const uint64_t hash = XXH3_64bits(f->blocks, (size_t)h->blocks.bytes);
    if (hash != h->blocks.hash) return bad_hash(f, "the block table", h->blocks.hash, hash, why);
    for (uint32_t i = 0; i < h->n_block; i++) {
        const struct ig_wblock *b = &f->blocks[i];
        if (b->off != at)
            return ig_fail(why, IG_BAD_FILE, "%s: block %u: off: want %llu, got %llu", f->path, i,
                           (ull)at, (ull)b->off);
        if (b->bytes > h->data.bytes - at) return bad_block(f, i, h->data.bytes - at, why);
        at += b->bytes;
    }
    if (at != h->data.bytes) return bad(f, "bytes of all blocks", h->data.bytes, at, why);
    return IG_OK;
}

enum ig_err ig_wfile_layout(const struct ig_wfile *f, uint64_t expect, struct ig_why *why)
{
    if (expect == 0 || f->h.layout_hash == expect) return IG_OK;
    /* The text is the model's shape, then what was chosen for it. */
    const size_t shape = strcspn(ig_layout_text, ";");
    const int same_model = strncmp(ig_layout_text, f->h.layout_text, shape) == 0 &&
                           strcspn(f->h.layout_text, ";") == shape;
    return ig_fail(why, IG_MISMATCH,
                   "%s: %s\n  this binary: %016llx, %s\n  the file:    %016llx, %s", f->path,
                   same_model ? "packed for another layout of this model; pack the checkpoint "
                                "again with this binary"
                              : "packed for another model; use the binary it was packed with, or "
                                "another file",
                   (ull)expect, ig_layout_text, (ull)f->h.layout_hash, f->h.layout_text);
}

enum ig_err ig_wfile_open(struct ig_wfile *f, const char *path, uint64_t expect_layout,
                          struct ig_why *why)
{
    uint64_t bytes = 0;

    *f = (struct ig_wfile){ .fd = -1 };
    enum ig_err err = locate(f, path, &bytes, why);
    if (!err) err = read_header(f, bytes, why);
    if (!err) err = ig_wfile_layout(f, expect_layout, why);
    if (!err) err = check_sections(f, bytes, why);
    if (!err) err = read_blocks(f, why);
    if (!err) err = check_padding(f, "header", sizeof f->h, why);
    if (!err) err = check_padding(f, "tokenizer", f->h.tokenizer.off + f->h.tokenizer.bytes, why);
    if (!err) err = check_padding(f, "blocks", f->h.blocks.off + f->h.blocks.bytes, why);
    if (!err) err = check_padding(f, "data", f->h.data.off + f->h.data.bytes, why);
    if (err) ig_wfile_close(f);
    return err;
}

enum ig_err ig_wfile_read(const struct ig_wfile *f, void *dst, uint64_t off, uint64_t bytes,
                          struct ig_why *why)
{
    if (off > f->h.data.bytes || bytes > f->h.data.bytes - off)
        return ig_fail(why, IG_BAD_FILE, "%s: data: want %llu bytes at %llu, got %llu in all",
                       f->path, (ull)bytes, (ull)off, (ull)f->h.data.bytes);
    return ig_file_read(f->fd, f->path, dst, f->base + f->h.data.off + off, bytes, why);
}

enum ig_err ig_wfile_check(const struct ig_wfile *f, uint32_t block, const void *bytes,
                           struct ig_why *why)
{
    IG_ASSERT(block < f->h.n_block);
    const struct ig_wblock *b = &f->blocks[block];
    struct ig_hash h;
    ig_hash_start(&h);
    ig_hash_add(&h, bytes, (size_t)b->bytes);
    const uint64_t hash = ig_hash_end(&h);

    if (hash == b->hash) return IG_OK;
    return ig_fail(why, IG_BAD_FILE,
                   "%s: checksum of block %u (data %llu to %llu): want %016llx, got %016llx",
                   f->path, block, (ull)b->off, (ull)(b->off + b->bytes), (ull)b->hash, (ull)hash);
}

enum ig_err ig_wfile_tokenizer(const struct ig_wfile *f, void **blob, size_t *bytes,
                               struct ig_why *why)
{
    const struct ig_wsection *s = &f->h.tokenizer;

    *bytes = (size_t)s->bytes;
    *blob = malloc((size_t)s->bytes + 1);
    if (!*blob) return ig_fail(why, IG_NO_MEM, "%s: no memory for its tokenizer", f->path);
    enum ig_err err = ig_file_read(f->fd, f->path, *blob, f->base + s->off, s->bytes, why);
    if (!err) {
        const uint64_t hash = XXH3_64bits(*blob, (size_t)s->bytes);
        if (hash != s->hash) err = bad_hash(f, "the tokenizer", s->hash, hash, why);
    }
    if (err) {
        free(*blob);
        *blob = NULL;
    }
    return err;
}

void ig_wfile_close(struct ig_wfile *f)
{
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f->blocks);
    *f = (struct ig_wfile){ .fd = -1 };
}

/* Where the executable's own bytes end; 0 when it cannot be told. */
static uint64_t image_end(int fd, const char *path)
{
    struct ig_why why;
    ElfW(Ehdr) e;
    ElfW(Phdr) p;
    ElfW(Shdr) s;

    if (ig_file_read(fd, path, &e, 0, sizeof e, &why) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
        (e.e_phnum && e.e_phentsize != sizeof p) || (e.e_shnum && e.e_shentsize != sizeof s))
        return 0;
    uint64_t end = e.e_shoff + (uint64_t)e.e_shnum * sizeof s;
    for (uint64_t i = 0; i < e.e_phnum; i++) {
        if (ig_file_read(fd, path, &p, e.e_phoff + i * sizeof p, sizeof p, &why)) return 0;
        if (p.p_offset + p.p_filesz > end) end = p.p_offset + p.p_filesz;
    }
    for (uint64_t i = 0; i < e.e_shnum; i++) {
        if (ig_file_read(fd, path, &s, e.e_shoff + i * sizeof s, sizeof s, &why)) return 0;
        if (s.sh_type != SHT_NOBITS && s.sh_offset + s.sh_size > end) end = s.sh_offset + s.sh_size;
    }
    return end;
}

enum ig_err ig_wfile_embedded(int *found, struct ig_why *why)
{
    const char *exe = "/proc/self/exe";
    uint64_t size, off, bytes;
    int fd;

    *found = 0;
    enum ig_err err = ig_file_open(&fd, &size, exe, why);
    if (err) return err;
    *found = ig_wfile_trailer(fd, size, &off, &bytes);
    if (!*found) {
        const uint64_t end = image_end(fd, exe);
        if (end && size > end)
            err = ig_fail(
                why, IG_BAD_FILE,
                "%s: its embedded weights are cut short: want the trailer " IG_WTRAILER_MAGIC
                " at the end",
                program_invocation_name);
    }
    close(fd);
    return err;
}

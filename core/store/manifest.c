#include "core/store/manifest.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

enum { MAX_NAME = 128, MAX_TEXT = 64 << 20 };

void sr_manifest_free(sr_manifest *m) {
    if (m == NULL) return;
    for (int64_t i = 0; i < m->count; i++) {
        sr_free(m->files[i].name);
        sr_free(m->files[i].blocks);
    }
    sr_free(m->files);
    sr_free(m);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Length of a component at the start of `name`, 0 when it is not allowed. */
static size_t component(const char *name) {
    size_t n = 0;
    if (name[0] == '.') return 0;
    while (is_plain(name[n])) n++;
    return n <= MAX_NAME ? n : 0;
}

static bool is_good_name(const char *name) {
    size_t n = component(name);
    if (n > 0 && name[n] == '/') {
        name += n + 1;
        n = component(name);
    }
    return n > 0 && name[n] == '\0';
}

sr_status sr_manifest_check_name(const char *name) {
    if (is_good_name(name) && strcmp(name, SR_MANIFEST_NAME) != 0) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "checkpoint: '%.40s' is not a valid file name; use letters, "
                   "digits, '.', '_' and '-', and at most one subdirectory",
                   name);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_lines(FILE *f, const sr_manifest *m) {
    fprintf(f, "seqrun checkpoint 1\nstep %" PRId64 "\n", m->step);
    for (int64_t i = 0; i < m->count; i++) {
        const sr_manifest_file *file = &m->files[i];
        fprintf(f, "file %" PRIu64 " %016" PRIx64 "%016" PRIx64 " %s\n", file->bytes, file->sum[0],
                file->sum[1], file->name);
        for (int64_t b = 0; b < file->block_count; b++)
            fprintf(f, "block %016" PRIx64 "\n", file->blocks[b]);
    }
}

/* Room for the text of a manifest; every line has a bound. */
static size_t room_for(const sr_manifest *m) {
    size_t room = 256;
    for (int64_t i = 0; i < m->count; i++)
        room += 80 + 2 * MAX_NAME + (size_t)m->files[i].block_count * 24;
    return room;
}

sr_status sr_manifest_print(char **text, size_t *size, const sr_manifest *m) {
    size_t room = room_for(m);
    SR_TRY(sr_new(text, room));
    FILE *f = fmemopen(*text, room, "w");
    if (f == NULL) {
        sr_free(*text);
        *text = NULL;
        return sr_fail(SR_ENOMEM, "out of memory while writing a manifest");
    }
    print_lines(f, m);
    fflush(f);
    size_t n = (size_t)ftell(f);
    XXH128_hash_t sum = XXH3_128bits(*text, n);
    fprintf(f, "end %016" PRIx64 "%016" PRIx64 "\n", sum.high64, sum.low64);
    fflush(f);
    *size = (size_t)ftell(f);
    fclose(f);
    return SR_OK;
}

/* ---- parsing ---------------------------------------------------------------------------------
 *
 * A cursor over lines.  Every field has one spelling: no signs, no leading zeros, no upper case.
 */

typedef struct cursor {
    const char *at, *end;
    const char *path;
    int64_t line;
} cursor;

static sr_status damaged(const cursor *c) {
    return sr_fail(SR_EDATA, "%s: line %" PRId64 " is corrupt", c->path, c->line);
}

static bool take(cursor *c, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

static bool take_number(cursor *c, uint64_t *out) {
    const char *start = c->at;
    uint64_t n = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*c->at - '0'), &n))
            return false;
    *out = n;
    return c->at > start && (*start != '0' || c->at == start + 1);
}

static bool take_hex(cursor *c, uint64_t *out) {
    uint64_t n = 0;
    if (c->end - c->at < 16) return false;
    for (int i = 0; i < 16; i++, c->at++) {
        bool digit = *c->at >= '0' && *c->at <= '9', letter = *c->at >= 'a' && *c->at <= 'f';
        if (!digit && !letter) return false;
        n = n << 4 | (uint64_t)(digit ? *c->at - '0' : *c->at - 'a' + 10);
    }
    *out = n;
    return true;
}

static bool take_end(cursor *c) {
    c->line++;
    return take(c, "\n");
}

static bool take_name(cursor *c, char name[2 * MAX_NAME + 2]) {
    size_t n = 0;
    while (c->at < c->end && *c->at != '\n' && n < 2 * MAX_NAME + 1) name[n++] = *c->at++;
    name[n] = '\0';
    return is_good_name(name);
}

/* The block lines of a file whose size is known. */
static sr_status parse_blocks(cursor *c, sr_manifest_file *file) {
    uint64_t blocks = file->bytes / SR_MANIFEST_BLOCK + (file->bytes % SR_MANIFEST_BLOCK != 0);
    if (blocks > (uint64_t)(c->end - c->at) / 23) return damaged(c); /* 23 bytes per line */
    SR_TRY(sr_new(&file->blocks, blocks));
    for (file->block_count = 0; (uint64_t)file->block_count < blocks; file->block_count++)
        if (!take(c, "block ") || !take_hex(c, &file->blocks[file->block_count]) || !take_end(c))
            return damaged(c);
    return SR_OK;
}

static sr_status parse_file(cursor *c, sr_manifest *m) {
    char name[2 * MAX_NAME + 2];
    if (m->count == SR_MANIFEST_MAX_FILES) return damaged(c);
    SR_TRY(sr_grow(&m->files, m->count + 1));
    sr_manifest_file *file = &m->files[m->count];
    memset(file, 0, sizeof *file);
    m->count++;
    if (!take_number(c, &file->bytes) || !take(c, " ") || !take_hex(c, &file->sum[0]) ||
        !take_hex(c, &file->sum[1]) || !take(c, " ") || !take_name(c, name) || !take_end(c))
        return damaged(c);
    for (int64_t i = 0; i + 1 < m->count; i++)
        if (strcmp(m->files[i].name, name) == 0) return damaged(c);
    SR_TRY(sr_strdup(&file->name, name));
    return parse_blocks(c, file);
}

static sr_status parse_lines(cursor *c, sr_manifest *m, const char *text) {
    uint64_t version, step, sum[2];
    if (!take(c, "seqrun checkpoint ") || !take_number(c, &version) || !take_end(c))
        return damaged(c);
    if (version != 1)
        return sr_fail(SR_EDATA,
                       "%s: format version %" PRIu64
                       " is not 1; use the version of seqrun that wrote it",
                       c->path, version);
    if (!take(c, "step ") || !take_number(c, &step) || step > INT64_MAX || !take_end(c))
        return damaged(c);
    m->step = (int64_t)step;
    while (take(c, "file ")) SR_TRY(parse_file(c, m));
    XXH128_hash_t found = XXH3_128bits(text, (size_t)(c->at - text));
    if (!take(c, "end ") || !take_hex(c, &sum[0]) || !take_hex(c, &sum[1]) || !take_end(c) ||
        c->at != c->end || sum[0] != found.high64 || sum[1] != found.low64)
        return damaged(c);
    return SR_OK;
}

sr_status sr_manifest_parse(sr_manifest **out, const char *text, size_t size, const char *path) {
    *out = NULL;
    sr_manifest *m;
    SR_TRY(sr_new(&m, 1));
    cursor c = {.at = text, .end = text + size, .path = path, .line = 1};
    sr_status st = parse_lines(&c, m, text);
    return SR_GIVE(out, m, st, sr_manifest_free);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A missing file makes the checkpoint corrupt, not absent. */
static sr_status as_data(sr_status st, const char *path) {
    return st == SR_ENOENT ? sr_fail(SR_EDATA, "%s: the file is missing", path) : st;
}

sr_status sr_manifest_read(sr_manifest **out, const char *folder) {
    *out = NULL;
    char *path;
    void *text;
    size_t size;
    SR_TRY(sr_file_join(&path, folder, SR_MANIFEST_NAME));
    sr_status st = as_data(sr_file_read(&text, &size, path, MAX_TEXT), path);
    if (st == SR_OK) {
        st = sr_manifest_parse(out, text, size, path);
        sr_free(text);
    }
    sr_free(path);
    return st;
}

/* Compares an open file with its sums, a block at a time. */
static sr_status verify_bytes(int fd, const sr_manifest_file *file, void *block, const char *path) {
    XXH3_state_t whole;
    XXH3_128bits_reset(&whole);
    for (int64_t b = 0; b < file->block_count; b++) {
        uint64_t at = (uint64_t)b * SR_MANIFEST_BLOCK, left = file->bytes - at;
        size_t n = left < SR_MANIFEST_BLOCK ? (size_t)left : SR_MANIFEST_BLOCK;
        SR_TRY(sr_file_pread(fd, block, n, at, path));
        if (XXH3_64bits(block, n) != file->blocks[b])
            return sr_fail(SR_EDATA, "%s: corrupt between byte %" PRIu64 " and %" PRIu64, path, at,
                           at + n);
        XXH3_128bits_update(&whole, block, n);
    }
    XXH128_hash_t sum = XXH3_128bits_digest(&whole);
    if (sum.high64 != file->sum[0] || sum.low64 != file->sum[1])
        return sr_fail(SR_EDATA, "%s: corrupt: checksum mismatch", path);
    return SR_OK;
}

static sr_status verify_file(const sr_manifest_file *file, void *block, const char *path) {
    int fd;
    size_t size;
    SR_TRY(as_data(sr_file_open(&fd, &size, path, (size_t)INT64_MAX), path));
    sr_status st = SR_OK;
    if (size != file->bytes)
        st = sr_fail(SR_EDATA, "%s: has %zu bytes; the manifest says %" PRIu64, path, size,
                     file->bytes);
    if (st == SR_OK) st = verify_bytes(fd, file, block, path);
    sr_io_now.close(fd);
    return st;
}

sr_status sr_manifest_verify(const sr_manifest *m, const char *folder) {
    void *block;
    sr_status st = sr_alloc(&block, SR_MANIFEST_BLOCK, 1);
    for (int64_t i = 0; st == SR_OK && i < m->count; i++) {
        char *path = NULL;
        st = sr_file_join(&path, folder, m->files[i].name);
        if (st == SR_OK) st = verify_file(&m->files[i], block, path);
        sr_free(path);
    }
    sr_free(block);
    return st;
}

#include "core/text/source.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"
#include "core/text/unpack.h"
#include "core/unicode/utf8.h"

enum { BLOCK = 64 << 10 };

/* The amount of invalid UTF-8 in a block of text. */
typedef struct window {
    uint64_t start, size, invalid, first; /* offsets in the file; of the first invalid sequence */
} window;

struct sr_source {
    char **files;
    size_t count, room, next; /* next: the file to open after the current one */
    uint64_t total;
    size_t line_limit;
    bool any_bytes, has_stdin;

    int fd;             /* of the current file, -1 if none is open */
    sr_unpack *packed;  /* NULL: it is not compressed */
    uint8_t raw[BLOCK]; /* as read from storage */
    size_t raw_at, raw_size;
    bool raw_end;

    uint8_t *text; /* line_limit + BLOCK bytes; unread text is [at, filled) */
    size_t at, filled, scanned, checked;
    uint64_t offset;            /* in the file, of text[0] */
    bool text_end, fresh, open; /* open: only a part of the last line was returned */
    window window;
    bool has_records; /* the open file is of JSONL */
    uint64_t line;    /* number of the last line of that file */
    sr_documents documents;
    sr_source_counts counts;
};

/* ---- the list of files ---- */

static sr_status add_file(sr_source *s, const char *path) {
    if (s->count == SR_SOURCE_FILES)
        return sr_fail(SR_EDATA, "%s: more than %d files; concatenate some of them", path,
                       SR_SOURCE_FILES);
    if (s->count == s->room) {
        size_t room = s->room > 0 ? s->room * 2 : 16;
        SR_TRY(sr_grow(&s->files, room));
        s->room = room;
    }
    SR_TRY(sr_strdup(&s->files[s->count], path));
    s->count++;
    return SR_OK;
}

static sr_status add_tree(sr_source *s, const char *path, int depth);

/* Of a file that cannot be examined: left out if it is gone, or is a link to nothing. */
static sr_status unless_gone(const char *path) {
    return sr_io_absent(errno) ? SR_OK : sr_io_failed("examine", path);
}

static sr_status add_entry(sr_source *s, const char *folder, const char *name, int depth) {
    struct stat st;
    char *path = NULL;
    SR_TRY(sr_file_join(&path, folder, name));
    sr_status result = SR_OK;
    if (lstat(path, &st) != 0) {
        result = unless_gone(path);
    } else if (S_ISDIR(st.st_mode)) {
        result = add_tree(s, path, depth + 1);
    } else if (S_ISLNK(st.st_mode) && stat(path, &st) != 0) {
        result = unless_gone(path);
    } else if (S_ISREG(st.st_mode)) { /* links to directories are skipped */
        s->total += (uint64_t)st.st_size;
        result = add_file(s, path);
    }
    sr_free(path);
    return result;
}

static sr_status add_tree(sr_source *s, const char *path, int depth) {
    if (depth > SR_SOURCE_DEPTH)
        return sr_fail(SR_EDATA, "%s: directories nested deeper than %d", path, SR_SOURCE_DEPTH);
    char **names = NULL;
    size_t count = 0;
    SR_TRY(sr_file_list(&names, &count, path));
    sr_status st = SR_OK;
    for (size_t i = 0; i < count && st == SR_OK; i++)
        if (names[i][0] != '.') st = add_entry(s, path, names[i], depth);
    sr_file_list_free(names, count);
    return st;
}

static sr_status add_found(sr_source *s, const char *path, const struct stat *st) {
    if (!S_ISDIR(st->st_mode)) {
        s->total += S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
        return add_file(s, path);
    }
    size_t before = s->count;
    SR_TRY(add_tree(s, path, 1));
    if (s->count == before) return sr_fail(SR_EDATA, "%s: no files in this directory", path);
    return SR_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct paths {
    char **list;
    size_t count, room;
} paths;

static sr_status add_match(paths *p, const char *path) {
    if (p->count == p->room) {
        size_t room = p->room > 0 ? p->room * 2 : 16;
        SR_TRY(sr_grow(&p->list, room));
        p->room = room;
    }
    SR_TRY(sr_strdup(&p->list[p->count], path));
    p->count++;
    return SR_OK;
}

static sr_status match_in(paths *found, const char *folder, const char *pattern);

/* What matches the rest of a pattern below "FOLDER NAME", FOLDER with its slash. */
static sr_status match_below(paths *found, const char *folder, const char *name, size_t length,
                             const char *rest) {
    char *path = NULL;
    struct stat st;
    size_t size = strlen(folder) + length + 2;
    SR_TRY(sr_new(&path, size));
    snprintf(path, size, "%s%.*s%s", folder, (int)length, name, *rest == '/' ? "/" : "");
    sr_status result;
    while (*rest == '/') rest++;
    if (*rest != '\0')
        result = match_in(found, path, rest);
    else
        result = lstat(path, &st) == 0 ? add_match(found, path) : unless_gone(path);
    sr_free(path);
    return result;
}

/* What matches a pattern of the shell in a directory, without what is hidden.  Not glob(), which
 * leaves out what it cannot examine, and ends a directory where it cannot read on. */
static sr_status match_in(paths *found, const char *folder, const char *pattern) {
    char part[NAME_MAX + 1], **names = NULL;
    size_t count = 0, length = strcspn(pattern, "/");
    if (length > NAME_MAX) return SR_OK;
    memcpy(part, pattern, length);
    part[length] = '\0';
    if (strpbrk(part, "*?[\\") == NULL)
        return match_below(found, folder, part, length, pattern + length);
    sr_status st = sr_file_list(&names, &count, *folder != '\0' ? folder : ".");
    if (st == SR_ENOENT) return SR_OK;
    for (size_t i = 0; i < count && st == SR_OK; i++)
        if (fnmatch(part, names[i], FNM_PERIOD) == 0)
            st = match_below(found, folder, names[i], strlen(names[i]), pattern + length);
    sr_file_list_free(names, count);
    return st;
}

static sr_status add_matches(sr_source *s, const char *pattern) {
    paths found = {0};
    size_t slashes = strspn(pattern, "/");
    sr_status st = match_in(&found, slashes > 0 ? "/" : "", pattern + slashes);
    if (st == SR_OK && found.count == 0)
        st = sr_fail(SR_ENOENT, "%s: no file matches this pattern; check it, or give a directory",
                     pattern);
    if (found.count > 0) qsort(found.list, found.count, sizeof *found.list, by_name);
    for (size_t i = 0; i < found.count && st == SR_OK; i++) {
        struct stat facts;
        if (stat(found.list[i], &facts) == 0)
            st = add_found(s, found.list[i], &facts);
        else
            st = unless_gone(found.list[i]);
    }
    sr_file_list_free(found.list, found.count);
    return st;
}

static sr_status add_path(sr_source *s, const char *path) {
    struct stat st;
    if (strcmp(path, "-") == 0) {
        s->has_stdin = true;
        return add_file(s, path);
    }
    if (stat(path, &st) == 0) return add_found(s, path, &st);
    if (errno == ENOENT && strpbrk(path, "*?[") != NULL) return add_matches(s, path);
    return sr_io_failed("open", path);
}

sr_status sr_source_open(sr_source **out, const char *const *paths, size_t count,
                         const sr_source_opts *opts) {
    *out = NULL;
    size_t limit = opts != NULL && opts->line_limit > 0 ? opts->line_limit : SR_SOURCE_LINE;
    if (limit < 16 || limit > 1 << 30)
        return sr_fail(SR_EINVAL, "source: line limit of %zu bytes; must be 16 to 2^30", limit);
    sr_source *s = NULL;
    SR_TRY(sr_new(&s, 1));
    s->fd = -1;
    s->line_limit = limit;
    s->any_bytes = opts != NULL && opts->any_bytes;
    if (opts != NULL) s->documents.how = opts->records;
    sr_status st;
    SR_GO(fail, st, sr_new(&s->text, limit + BLOCK));
    for (size_t i = 0; i < count; i++) SR_GO(fail, st, add_path(s, paths[i]));
    *out = s;
    return SR_OK;
fail:
    sr_source_close(s);
    return st;
}

static void close_file(sr_source *s) {
    sr_unpack_close(s->packed);
    s->packed = NULL;
    if (s->fd > 0) sr_io_now.close(s->fd);
    s->fd = -1;
}

void sr_source_close(sr_source *s) {
    if (s == NULL) return;
    close_file(s);
    sr_documents_close(&s->documents);
    for (size_t i = 0; i < s->count; i++) sr_free(s->files[i]);
    sr_free(s->files);
    sr_free(s->text);
    sr_free(s);
}

/* ---- bytes from storage, unpacked ---- */

/* What messages call the open file. */
static const char *path_of(const sr_source *s) {
    const char *path = s->files[s->next - 1];
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static sr_status read_raw(sr_source *s) {
    if (s->raw_at == s->raw_size) s->raw_at = s->raw_size = 0;
    size_t got = 0;
    if (s->raw_size < BLOCK && !s->raw_end) {
        SR_TRY(
            sr_file_read_some(&got, s->fd, s->raw + s->raw_size, BLOCK - s->raw_size, path_of(s)));
        s->raw_end = got == 0;
    }
    s->raw_size += got;
    s->counts.bytes_read += got;
    return SR_OK;
}

static sr_status open_next(sr_source *s) {
    const char *path = s->files[s->next++];
    uint64_t size;
    s->raw_at = s->raw_size = 0;
    s->raw_end = s->text_end = false;
    s->at = s->filled = s->scanned = s->checked = 0;
    s->offset = 0;
    s->fresh = true;
    s->line = 0;
    s->has_records = sr_records_in(&s->documents.how, path);
    s->window = (window){0};
    if (strcmp(path, "-") == 0)
        s->fd = 0;
    else
        SR_TRY(sr_file_open_stream(&s->fd, &size, path));
    s->counts.files++;
    while (s->raw_size < SR_UNPACK_MAGIC && !s->raw_end) SR_TRY(read_raw(s));
    return sr_unpack_open(&s->packed, s->raw, s->raw_size, path_of(s));
}

static sr_status unpack(size_t *got, sr_source *s, uint8_t *to, size_t room) {
    for (*got = 0; *got == 0;) {
        if (s->raw_at == s->raw_size && !s->raw_end) SR_TRY(read_raw(s));
        sr_unpacked done;
        size_t size = s->raw_size - s->raw_at;
        SR_TRY(sr_unpack_some(&done, s->packed, to, room, s->raw + s->raw_at, size));
        s->raw_at += done.used;
        *got = done.got;
        if (*got == 0 && size == 0 && s->raw_end) return sr_unpack_end(s->packed);
    }
    return SR_OK;
}

/* What was read to look for compression, then the rest of the file without a copy. */
static sr_status copy_raw(size_t *got, sr_source *s, uint8_t *to, size_t room) {
    if (s->raw_at == s->raw_size && !s->raw_end) {
        SR_TRY(sr_file_read_some(got, s->fd, to, room, path_of(s)));
        s->raw_end = *got == 0;
        s->counts.bytes_read += *got;
        return SR_OK;
    }
    *got = s->raw_size - s->raw_at < room ? s->raw_size - s->raw_at : room;
    memcpy(to, s->raw + s->raw_at, *got);
    s->raw_at += *got;
    return SR_OK;
}

/* ---- does it look like text? ---- */

static sr_status judge_window(sr_source *s, bool file_ends) {
    window *w = &s->window;
    if (w->size < BLOCK && !file_ends) return SR_OK;
    if (w->invalid >= 8 && w->invalid * 10 > w->size)
        return sr_fail(SR_EDATA,
                       "%s: not UTF-8 text: %ju of %ju bytes from byte %ju on are invalid, the "
                       "first at byte %ju; convert the file with iconv, or exclude it",
                       path_of(s), (uintmax_t)w->invalid, (uintmax_t)w->size, (uintmax_t)w->start,
                       (uintmax_t)w->first);
    *w = (window){.start = w->start + w->size};
    return SR_OK;
}

static size_t first_invalid(const uint8_t *bytes, size_t size) {
    int32_t cp = 0;
    size_t at = 0;
    for (int length; at < size; at += (size_t)length) {
        length = sr_utf8_decode(&cp, bytes + at, size - at);
        if (cp < 0) break;
    }
    return at;
}

/* Validates the text read since the last call. */
static sr_status check_text(sr_source *s) {
    const uint8_t *bytes = s->text + s->checked;
    size_t size = s->filled - s->checked, rest = 0;
    const uint8_t *zero = memchr(bytes, 0, size);
    if (zero != NULL)
        return sr_fail(SR_EDATA,
                       "%s: not text: zero byte at offset %ju; convert UTF-16 with iconv, or "
                       "exclude the file",
                       path_of(s), (uintmax_t)(s->offset + (uint64_t)(zero - s->text)));
    size_t invalid = sr_utf8_invalid(bytes, size, s->text_end ? NULL : &rest);
    window *w = &s->window;
    if (invalid > 0 && w->invalid == 0) {
        w->first = s->offset + s->checked + first_invalid(bytes, size);
    }
    w->invalid += invalid;
    w->size += size - rest;
    s->counts.invalid += invalid;
    s->checked = s->filled - rest;
    return judge_window(s, s->text_end);
}

/* Reads more text after the buffered text. */
static sr_status fill(sr_source *s) {
    if (s->line_limit + BLOCK - s->filled < BLOCK) {
        size_t keep_from = s->checked < s->at ? s->checked : s->at;
        memmove(s->text, s->text + keep_from, s->filled - keep_from);
        s->offset += keep_from;
        s->at -= keep_from, s->filled -= keep_from, s->checked -= keep_from;
        s->scanned -= keep_from;
    }
    size_t got = 0, room = s->line_limit + BLOCK - s->filled;
    if (room > BLOCK) room = BLOCK;
    if (s->packed != NULL)
        SR_TRY(unpack(&got, s, s->text + s->filled, room));
    else
        SR_TRY(copy_raw(&got, s, s->text + s->filled, room));
    s->filled += got;
    s->text_end = got == 0;
    if (!s->any_bytes) return check_text(s);
    s->checked = s->filled;
    return SR_OK;
}

/* ---- lines ---- */

static sr_status give(sr_source *s, sr_line *line, size_t size, size_t skip, bool ends) {
    *line = (sr_line){s->text + s->at, size, ends, .file_starts = s->fresh};
    s->line += !s->open;
    s->fresh = false;
    s->open = !ends;
    s->at += size + skip;
    s->scanned = s->at;
    s->counts.bytes += size + skip;
    s->counts.lines += ends;
    return SR_OK;
}

/* Where to split the first `limit` bytes of a line: after the last white space, else between code
 * points. */
static size_t cut_of(const uint8_t *bytes, size_t limit) {
    for (size_t n = limit; n > limit / 2; n--)
        if (bytes[n - 1] == ' ' || bytes[n - 1] == '\t' || bytes[n - 1] == '\r') return n;
    return sr_utf8_whole(bytes, limit);
}

/* The next line of the files, unchanged. */
static sr_status read_line(sr_source *s, sr_line *line) {
    for (;;) {
        if (s->fd < 0) {
            *line = (sr_line){0};
            if (s->next == s->count) return SR_OK;
            SR_TRY(open_next(s));
        }
        const uint8_t *from = s->text + s->scanned;
        const uint8_t *end =
            s->filled > s->scanned ? memchr(from, '\n', s->filled - s->scanned) : 0;
        size_t size = (end != NULL ? (size_t)(end - s->text) : s->filled) - s->at;
        if (size > s->line_limit || (size == s->line_limit && end == NULL && !s->text_end)) {
            s->counts.long_cut++;
            return give(s, line, cut_of(s->text + s->at, s->line_limit), 0, false);
        }
        if (end != NULL) return give(s, line, size, 1, true);
        if (s->text_end && (size > 0 || s->open)) return give(s, line, size, 0, true);
        s->scanned = s->filled;
        if (s->text_end)
            close_file(s);
        else
            SR_TRY(fill(s));
    }
}

sr_status sr_source_line(sr_source *s, sr_line *line) {
    sr_documents *d = &s->documents;
    for (;;) {
        if (d->record != NULL) {
            *line = (sr_line){.in_record = true};
            line->bytes =
                sr_documents_next(d, s->line_limit, &line->size, &line->ends, &line->file_starts);
            if (line->bytes != NULL) return SR_OK;
        }
        SR_TRY(read_line(s, line));
        if (line->bytes == NULL || !s->has_records) return SR_OK;
        SR_TRY(sr_documents_add(d, line->bytes, line->size, line->ends, path_of(s), s->line));
    }
}

size_t sr_source_files(const sr_source *s) {
    return s->count;
}

const char *sr_source_file(const sr_source *s, size_t i) {
    return s->files[i];
}

const char *sr_source_path(const sr_source *s) {
    return s->next > 0 ? path_of(s) : "";
}

bool sr_source_ready(sr_source *s) {
    if (s->documents.record != NULL) return true;
    if (s->fd < 0) return s->next < s->count && strcmp(s->files[s->next], "-") != 0;
    if (s->raw_at < s->raw_size || s->raw_end) return true;
    if (s->filled > s->at && memchr(s->text + s->at, '\n', s->filled - s->at) != NULL) return true;
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

sr_source_counts sr_source_count(const sr_source *s) {
    sr_source_counts c = s->counts;
    c.left_out = s->documents.other;
    c.records = s->documents.wanted + c.left_out;
    return c;
}

uint64_t sr_source_total(const sr_source *s) {
    return s->has_stdin ? 0 : s->total;
}

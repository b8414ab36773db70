#include "core/text/rows.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/text/source.h"
#include "core/unicode/utf8.h"

enum { SLACK = 2 }; /* bytes beyond the limit: CR and LF */

struct sr_rows {
    sr_source *source;
    sr_rows_opts opts;
    uint64_t line; /* lines of the file so far */

    uint8_t *bytes; /* the cells of the row, one after the other */
    size_t used, room;
    sr_cell *cells; /* bytes are set when the row is complete */
    size_t count, cells_room;

    const char *file; /* of the row */
    uint64_t first;   /* its first line */
    bool open;        /* in a quoted cell that continues on the next line */
    bool file_starts;
    uint64_t quote; /* line of its quote */
    size_t cell;    /* where the current cell starts in bytes */
    bool suspect;   /* the text has zero bytes or invalid UTF-8 */
    const char *wrong;
    size_t wrong_cell;
};

sr_status sr_rows_open(sr_rows **out, const char *const *paths, size_t count,
                       const sr_rows_opts *opts) {
    *out = NULL;
    sr_rows *r = NULL;
    SR_TRY(sr_new(&r, 1));
    r->opts = *opts;
    if (r->opts.limit == 0) r->opts.limit = SR_ROW_LIMIT;
    if (r->opts.delimiter == 0) r->opts.delimiter = opts->format == SR_ROWS_QUOTED ? ',' : '\t';
    sr_status st = sr_source_open(&r->source, paths, count,
                                  &(sr_source_opts){r->opts.limit + SLACK, .any_bytes = true});
    return SR_GIVE(out, r, st, sr_rows_close);
}

void sr_rows_close(sr_rows *r) {
    if (r == NULL) return;
    sr_source_close(r->source);
    sr_free(r->bytes);
    sr_free(r->cells);
    sr_free(r);
}

/* ---- cells ---- */

static sr_status fail_at(const sr_rows *r, uint64_t line, const char *what) {
    return sr_fail(SR_EDATA, "%s:%ju: %s", r->file, (uintmax_t)line, what);
}

static void spoil(sr_rows *r, const char *wrong) {
    if (r->wrong != NULL) return;
    r->wrong = wrong;
    r->wrong_cell = r->count + 1;
}

static sr_status too_long(const sr_rows *r) {
    char what[160];
    snprintf(what, sizeof what, "the row is longer than %zu bytes; %s", r->opts.limit,
             r->open ? "close its quote, or read the file as TSV if quotes are text"
                     : "split its text into several rows");
    return fail_at(r, r->first, what);
}

/* Room for a further line.  The cells of a row are never larger than its text. */
static sr_status reserve(sr_rows *r, size_t size) {
    size_t wanted = r->used + size;
    if (wanted > r->opts.limit + SLACK) return too_long(r);
    if (wanted <= r->room) return SR_OK;
    size_t room = wanted * 2;
    SR_TRY(sr_grow(&r->bytes, room));
    r->room = room;
    return SR_OK;
}

static void append(sr_rows *r, const uint8_t *bytes, size_t size) {
    memcpy(r->bytes + r->used, bytes, size);
    r->used += size;
}

static sr_status end_cell(sr_rows *r) {
    if (r->count == SR_ROW_CELLS)
        return fail_at(r, r->first, "more than 1024 columns; check the delimiter");
    if (r->count == r->cells_room) {
        size_t room = r->cells_room > 0 ? r->cells_room * 2 : 16;
        SR_TRY(sr_grow(&r->cells, room));
        r->cells_room = room;
    }
    r->cells[r->count++] = (sr_cell){.size = r->used - r->cell};
    r->cell = r->used;
    return SR_OK;
}

/* ---- lines to cells ---- */

static size_t find(const uint8_t *bytes, size_t from, size_t size, char what) {
    const uint8_t *at = from < size ? memchr(bytes + from, what, size - from) : NULL;
    return at != NULL ? (size_t)(at - bytes) : size;
}

static sr_status split_literal(sr_rows *r, const uint8_t *bytes, size_t size, char delimiter) {
    for (size_t at = 0;; at++) {
        size_t end = find(bytes, at, size, delimiter);
        append(r, bytes + at, end - at);
        SR_TRY(end_cell(r));
        if (end == size) return SR_OK;
        at = end;
    }
}

static sr_status split_words(sr_rows *r, const uint8_t *bytes, size_t size) {
    if (find(bytes, 0, size, '\t') < size) return split_literal(r, bytes, size, '\t');
    for (size_t at = 0; at < size;) {
        size_t end = find(bytes, at, size, ' ');
        append(r, bytes + at, end - at);
        if (end > at) SR_TRY(end_cell(r));
        at = end + 1;
    }
    return SR_OK;
}

/* The rest of a quoted cell, from *at on; *at is after its closing quote, or the cell stays open.
 */
static void read_quoted(sr_rows *r, const uint8_t *bytes, size_t *at, size_t size) {
    while (r->open) {
        size_t end = find(bytes, *at, size, '"');
        append(r, bytes + *at, end - *at);
        *at = end;
        if (end == size) return;
        r->open = end + 1 < size && bytes[end + 1] == '"';
        if (r->open) append(r, bytes + end, 1);
        *at += r->open ? 2 : 1;
    }
}

static sr_status split_quoted(sr_rows *r, const uint8_t *bytes, size_t size) {
    for (size_t at = 0;; at++) {
        if (!r->open && at < size && bytes[at] == '"') {
            r->open = true;
            r->quote = r->line;
            at++;
        }
        bool quoted = r->open;
        read_quoted(r, bytes, &at, size);
        if (r->open) return SR_OK;
        size_t end = find(bytes, at, size, r->opts.delimiter);
        if (quoted && end > at) spoil(r, "text after a closing quote; double the quotes in a cell");
        append(r, bytes + at, end - at);
        SR_TRY(end_cell(r));
        if (end == size) return SR_OK;
        at = end;
    }
}

static sr_status split(sr_rows *r, const uint8_t *bytes, size_t size) {
    switch (r->opts.format) {
    case SR_ROWS_QUOTED:
        return split_quoted(r, bytes, size);
    case SR_ROWS_LITERAL:
        return split_literal(r, bytes, size, r->opts.delimiter);
    case SR_ROWS_WORDS:
        return split_words(r, bytes, size);
    default:
        append(r, bytes, size);
        return end_cell(r);
    }
}

/* ---- rows ---- */

static const char *bad_bytes(const uint8_t *bytes, size_t size) {
    if (memchr(bytes, 0, size) != NULL) return "zero byte, not UTF-8 text (iconv converts it)";
    if (sr_utf8_invalid(bytes, size, NULL) > 0)
        return "invalid UTF-8 (iconv converts other encodings)";
    return NULL;
}

/* Adds a line to the row; r->open if the row continues. */
static sr_status add_line(sr_rows *r, const sr_line *line) {
    const uint8_t *bytes = line->bytes;
    size_t size = line->size;
    if (line->file_starts && size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
        bytes += 3, size -= 3;
    SR_TRY(reserve(r, size + 1));
    bool cr = size > 0 && bytes[size - 1] == '\r';
    if (cr) size--;
    if (size == 0 && !r->open) return SR_OK;
    r->suspect = r->suspect || bad_bytes(bytes, size) != NULL;
    SR_TRY(split(r, bytes, size));
    if (r->open) append(r, (const uint8_t *)"\r\n" + !cr, 1 + (size_t)cr);
    return SR_OK;
}

/* Sets the cells of the complete row. */
static void finish(sr_rows *r, sr_row *row) {
    const uint8_t *at = r->bytes;
    *row = (sr_row){r->cells, r->count, r->file, r->first, r->file_starts, r->wrong, r->wrong_cell};
    for (size_t i = 0; i < r->count; i++) {
        sr_cell *c = &r->cells[i];
        c->bytes = at;
        at += c->size;
        if (!r->suspect || row->wrong != NULL) continue;
        row->wrong = bad_bytes(c->bytes, c->size);
        row->wrong_cell = i + 1;
    }
}

static sr_status check_end(const sr_rows *r) {
    if (!r->open) return SR_OK;
    return fail_at(r, r->quote,
                   "the quote that opens here is never closed; close it, or read the file as TSV "
                   "if quotes are text");
}

sr_status sr_rows_next(sr_rows *r, sr_row *row) {
    *row = (sr_row){0};
    r->used = r->count = r->cell = 0;
    r->wrong = NULL;
    r->suspect = false;
    do {
        sr_line line;
        SR_TRY(sr_source_line(r->source, &line));
        if (line.bytes == NULL || line.file_starts) SR_TRY(check_end(r));
        if (line.bytes == NULL) return SR_OK;
        if (line.file_starts) r->line = 0;
        r->line++;
        if (!r->open) {
            r->file = sr_source_path(r->source);
            r->first = r->line;
            r->file_starts = line.file_starts;
        }
        if (!line.ends) return too_long(r);
        SR_TRY(add_line(r, &line));
    } while (r->open);
    finish(r, row);
    return SR_OK;
}

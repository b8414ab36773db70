/* index_write.c - the writing half of index.h. */
#include <inttypes.h>
#include <string.h>

#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/data/index_format.h"

enum { BUFFER = 1 << 16 };

/* A draft written through a buffer. */
typedef struct out {
    sr_draft draft;
    unsigned char *buffer; /* (BUFFER) */
    size_t used;
} out;

struct sr_index_writer {
    out idx, bin;
    sr_index_type type;
    int32_t *size; /* (rows) */
    uint64_t rows, room;
    int64_t values; /* of the row so far */
};

/* ---- drafts ---- */

static sr_status open_out(out *o, const char *name, const char *ending) {
    char *path;
    SR_TRY(sr_index_path(&path, name, ending));
    sr_status st = sr_draft_open(&o->draft, path);
    sr_free(path);
    return st == SR_OK ? sr_new(&o->buffer, BUFFER) : st;
}

static sr_status flush(out *o) {
    sr_status st = sr_file_write(o->draft.fd, o->buffer, o->used, o->draft.path);
    o->used = 0;
    return st;
}

static sr_status put(out *o, const void *bytes, size_t size) {
    if (o->used + size > BUFFER) SR_TRY(flush(o));
    memcpy(o->buffer + o->used, bytes, size);
    o->used += size;
    return SR_OK;
}

/* ---- rows ---- */

static sr_status begin(sr_index_writer *w, const char *name) {
    SR_TRY(open_out(&w->bin, name, ".bin"));
    return open_out(&w->idx, name, ".idx");
}

sr_status sr_index_create(sr_index_writer **out, const char *name, sr_index_type type) {
    *out = NULL;
    if (type < 1 || type >= SR_INDEX_TYPES)
        return sr_fail(SR_EINVAL, "index: unknown type %d", (int)type);
    sr_index_writer *w;
    SR_TRY(sr_new(&w, 1));
    w->type = type;
    sr_status st = begin(w, name);
    if (st != SR_OK) {
        sr_index_abort(w);
        return st;
    }
    *out = w;
    return SR_OK;
}

static bool fits(int64_t value, sr_index_type type) {
    sr_index_type least = sr_index_narrowest(value, value);
    size_t width = sr_index_width(type);
    switch (type) {
    case SR_INDEX_I8:
        return value >= INT8_MIN && value <= INT8_MAX;
    case SR_INDEX_I16:
        return value >= INT16_MIN && value <= INT16_MAX;
    case SR_INDEX_I32:
        return value >= INT32_MIN && value <= INT32_MAX;
    case SR_INDEX_I64:
        return true;
    default:
        return value >= 0 && sr_index_width(least) <= width;
    }
}

sr_status sr_index_put(sr_index_writer *w, const int64_t *values, int64_t count) {
    if (count > INT32_MAX - w->values)
        return sr_fail(SR_EINVAL, "index: row %" PRIu64 " has more than 2^31 - 1 values", w->rows);
    for (int64_t i = 0; i < count; i++) {
        if (!fits(values[i], w->type))
            return sr_fail(SR_EINVAL,
                           "index: row %" PRIu64 ": the value %" PRId64 " does not fit in %s",
                           w->rows, values[i], sr_index_type_name(w->type));
        SR_TRY(put(&w->bin, &values[i], sr_index_width(w->type))); /* little-endian */
    }
    w->values += count;
    return SR_OK;
}

sr_status sr_index_end_row(sr_index_writer *w) {
    if (w->rows == w->room) {
        uint64_t room = w->room * 2 + 1024;
        SR_TRY(sr_grow(&w->size, room));
        w->room = room;
    }
    w->size[w->rows++] = (int32_t)w->values;
    w->values = 0;
    return SR_OK;
}

/* All rows are one document. */
static sr_status write_idx(sr_index_writer *w) {
    uint64_t version = 1, documents = 2, at = 0;
    uint8_t type = (uint8_t)w->type;
    out *o = &w->idx;
    SR_TRY(put(o, sr_index_magic, sizeof sr_index_magic));
    SR_TRY(put(o, &version, 8));
    SR_TRY(put(o, &type, 1));
    SR_TRY(put(o, &w->rows, 8));
    SR_TRY(put(o, &documents, 8));
    for (uint64_t i = 0; i < w->rows; i++) SR_TRY(put(o, &w->size[i], 4));
    for (uint64_t i = 0; i < w->rows; i++) {
        SR_TRY(put(o, &at, 8));
        at += (uint64_t)w->size[i] * sr_index_width(w->type);
    }
    uint64_t first = 0;
    SR_TRY(put(o, &first, 8));
    return put(o, &w->rows, 8);
}

sr_status sr_index_commit(sr_index_writer *w) {
    sr_status st = w->values > 0 ? sr_index_end_row(w) : SR_OK;
    if (st == SR_OK) st = write_idx(w);
    if (st == SR_OK) st = flush(&w->bin);
    if (st == SR_OK) st = flush(&w->idx);
    if (st == SR_OK) st = sr_draft_commit(&w->bin.draft);
    if (st == SR_OK) st = sr_draft_commit(&w->idx.draft);
    sr_index_abort(w);
    return st;
}

void sr_index_abort(sr_index_writer *w) {
    if (w == NULL) return;
    sr_draft_drop(&w->bin.draft);
    sr_draft_drop(&w->idx.draft);
    sr_free(w->bin.buffer);
    sr_free(w->idx.buffer);
    sr_free(w->size);
    sr_free(w);
}

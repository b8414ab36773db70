#include "core/data/progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

typedef struct header {
    char magic[8];
    uint64_t identity; /* its hash */
} header;

/* Followed by its values. */
typedef struct record {
    uint64_t first, next; /* values before it; the caller's number */
    uint64_t count, hash;
} record;

static uint64_t hash_of(const record *r, const double *values) {
    uint64_t seed = XXH3_64bits(r, offsetof(record, hash));
    return XXH3_64bits_withSeed(values, (size_t)r->count * sizeof *values, seed);
}

/* ---- values ---- */

static sr_status check_values(const sr_progress *p, const double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return sr_fail(SR_EDATA, "the value of sequence %" PRId64 " is %s; it must be finite",
                           p->count + i, isnan(values[i]) ? "NaN" : "infinite");
    return SR_OK;
}

static void note(sr_progress *p, const record *r, const double *values) {
    for (uint64_t i = 0; i < r->count; i++) {
        double v = values[i];
        if (p->count == 0 && i == 0) p->least = p->most = v;
        p->least = v < p->least ? v : p->least;
        p->most = v > p->most ? v : p->most;
        p->whole = p->whole && v == floor(v);
    }
    p->count += (int64_t)r->count;
    p->next = (int64_t)r->next;
    p->size += sizeof *r + r->count * sizeof *values;
}

/* ---- records ---- */

/* The values of a record; the buffer grows and is used again. */
typedef struct buffer {
    double *value;
    uint64_t room;
} buffer;

/* Reads the record at `at`; *whole is false where the file ends or is damaged. */
static sr_status read_record(bool *whole, const sr_progress *p, record *r, buffer *b, uint64_t at,
                             uint64_t size, int64_t before) {
    *whole = false;
    if (size - at < sizeof *r) return SR_OK;
    SR_TRY(sr_file_pread(p->fd, r, sizeof *r, at, p->path));
    at += sizeof *r;
    if (r->count < 1 || r->first != (uint64_t)before || r->count > (size - at) / sizeof *b->value)
        return SR_OK;
    if (r->count > b->room) {
        SR_TRY(sr_grow(&b->value, r->count));
        b->room = r->count;
    }
    SR_TRY(sr_file_pread(p->fd, b->value, r->count * sizeof *b->value, at, p->path));
    *whole = hash_of(r, b->value) == r->hash;
    return SR_OK;
}

/* Finds the whole records, and cuts off what follows them. */
static sr_status recover(sr_progress *p, uint64_t size) {
    buffer b = {0};
    bool whole = true;
    sr_status st = SR_OK;
    while (st == SR_OK && whole) {
        record r;
        st = read_record(&whole, p, &r, &b, p->size, size, p->count);
        if (st == SR_OK && whole) note(p, &r, b.value);
    }
    sr_free(b.value);
    if (st == SR_OK && p->size < size) st = sr_file_truncate(p->fd, p->size, p->path);
    return st;
}

static sr_status begin(sr_progress *p, const char *identity) {
    header want = {"SRPART1\n", XXH3_64bits(identity, strlen(identity))}, have;
    off_t end = lseek(p->fd, 0, SEEK_END);
    uint64_t size = end < 0 ? 0 : (uint64_t)end;
    p->size = sizeof want;
    if (size >= sizeof have) {
        SR_TRY(sr_file_pread(p->fd, &have, sizeof have, 0, p->path));
        if (memcmp(&have, &want, sizeof have) == 0) return recover(p, size);
    }
    SR_TRY(sr_file_truncate(p->fd, 0, p->path));
    return sr_file_write(p->fd, &want, sizeof want, p->path);
}

static sr_status open_file(sr_progress *p, const char *path, const char *identity) {
    SR_TRY(sr_strdup(&p->path, path));
    p->fd = sr_io_open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
    if (p->fd < 0) return sr_io_failed_to_create("create", path);
    SR_TRY(sr_file_lock(p->fd, path));
    return begin(p, identity);
}

sr_status sr_progress_open(sr_progress **out, const char *path, const char *identity) {
    *out = NULL;
    sr_progress *p;
    SR_TRY(sr_new(&p, 1));
    p->fd = -1;
    p->whole = true;
    sr_status st = open_file(p, path, identity);
    if (st != SR_OK) {
        sr_progress_close(p);
        return st;
    }
    *out = p;
    return SR_OK;
}

void sr_progress_close(sr_progress *p) {
    if (p == NULL) return;
    if (p->fd >= 0) sr_io_now.close(p->fd);
    sr_free(p->path);
    sr_free(p);
}

void sr_progress_remove(sr_progress *p) {
    if (p == NULL) return;
    sr_io_now.unlink(p->path);
    sr_progress_close(p);
}

sr_status sr_progress_append(sr_progress *p, const double *values, int64_t count, int64_t next) {
    if (count == 0) return SR_OK;
    SR_TRY(check_values(p, values, count));
    record r = {(uint64_t)p->count, (uint64_t)next, (uint64_t)count, 0};
    r.hash = hash_of(&r, values);
    sr_status st = sr_file_write(p->fd, &r, sizeof r, p->path);
    if (st == SR_OK) st = sr_file_write(p->fd, values, (size_t)count * sizeof *values, p->path);
    if (st == SR_OK)
        note(p, &r, values);
    else if (sr_io_now.ftruncate(p->fd, (off_t)p->size) != 0)
        return st; /* cut off when the file is opened again */
    return st;
}

sr_status sr_progress_replay(sr_progress *p, sr_progress_take take, void *context) {
    buffer b = {0};
    sr_status st = SR_OK;
    uint64_t at = sizeof(header);
    for (int64_t done = 0; st == SR_OK && done < p->count;) {
        bool whole;
        record r;
        st = read_record(&whole, p, &r, &b, at, p->size, done);
        if (st == SR_OK && !whole)
            st = sr_fail(SR_EDATA, "%s: changed while it was in use; remove it and analyze again",
                         p->path);
        if (st == SR_OK) st = take(context, b.value, (int64_t)r.count);
        done += (int64_t)r.count;
        at += sizeof r + r.count * sizeof *b.value;
    }
    sr_free(b.value);
    return st;
}

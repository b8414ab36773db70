#include "core/data/ranking.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

enum { DIGITS = 8, RADIX = 256, BUFFER = 4096 };

/* Keys of unsigned integers are ordered as the numbers are. */
typedef struct item {
    uint64_t key;
    uint32_t index;
} item;

/* A sorted run in the file, read through a buffer. */
typedef struct source {
    item *item; /* (BUFFER) */
    int64_t at, have;
    uint64_t next, left; /* first item that was not read yet, and how many are left */
} source;

struct sr_ranking {
    char *scratch;
    int fd;
    item *item, *spare; /* (run) */
    int64_t run, count; /* items of a run; items in memory */
    uint64_t added;
    bool reading;
    int64_t at; /* in memory: the next item to return */
    uint64_t *run_end;
    int64_t runs;
    source *source; /* (runs) */
    int64_t *heap;  /* (heaped) sources, the one with the least item first */
    int64_t heaped;
};

static uint64_t key_of(double value) {
    uint64_t bits;
    double plain = value + 0.0; /* -0.0 becomes 0.0 */
    memcpy(&bits, &plain, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static double value_of(uint64_t key) {
    double value;
    uint64_t bits = key >> 63 ? key ^ (uint64_t)1 << 63 : ~key;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- sorting in memory ---- */

static void count_digits(uint64_t count[DIGITS][RADIX], const item *list, int64_t n) {
    memset(count, 0, sizeof(uint64_t[DIGITS][RADIX]));
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++) count[d][list[i].key >> 8 * d & (RADIX - 1)]++;
}

/* A stable radix sort, a byte at a time; bytes that all keys share cost nothing. */
static void sort_items(sr_ranking *r) {
    uint64_t count[DIGITS][RADIX];
    count_digits(count, r->item, r->count);
    for (int d = 0; d < DIGITS; d++) {
        uint64_t at = 0;
        if (r->count == 0 || count[d][r->item[0].key >> 8 * d & (RADIX - 1)] == (uint64_t)r->count)
            continue;
        for (int k = 0; k < RADIX; k++) {
            uint64_t n = count[d][k];
            count[d][k] = at;
            at += n;
        }
        for (int64_t i = 0; i < r->count; i++)
            r->spare[count[d][r->item[i].key >> 8 * d & (RADIX - 1)]++] = r->item[i];
        item *sorted = r->spare;
        r->spare = r->item;
        r->item = sorted;
    }
}

/* ---- runs on storage ---- */

static sr_status open_scratch(sr_ranking *r) {
    if (r->fd >= 0) return SR_OK;
    sr_io_now.unlink(r->scratch);
    r->fd = sr_io_open(r->scratch, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (r->fd < 0) return sr_io_failed_to_create("create", r->scratch);
    sr_io_now.unlink(r->scratch);
    return SR_OK;
}

/* Writes the items in memory as a sorted run. */
static sr_status spill(sr_ranking *r) {
    SR_TRY(open_scratch(r));
    SR_TRY(sr_grow(&r->run_end, r->runs + 1));
    sort_items(r);
    SR_TRY(sr_file_write(r->fd, r->item, (size_t)r->count * sizeof *r->item, r->scratch));
    r->run_end[r->runs++] = r->added;
    r->count = 0;
    return SR_OK;
}

static sr_status refill(const sr_ranking *r, source *s) {
    s->at = 0;
    s->have = (int64_t)(s->left < BUFFER ? s->left : BUFFER);
    uint64_t first = s->next;
    s->next += (uint64_t)s->have;
    s->left -= (uint64_t)s->have;
    return sr_file_pread(r->fd, s->item, (size_t)s->have * sizeof *s->item, first * sizeof *s->item,
                         r->scratch);
}

static bool before(const sr_ranking *r, int64_t a, int64_t b) {
    const source *x = &r->source[a], *y = &r->source[b];
    uint64_t xk = x->item[x->at].key, yk = y->item[y->at].key;
    return xk != yk ? xk < yk : a < b; /* earlier runs have lower indices */
}

/* Moves the source at heap position i down to its place. */
static void sink(sr_ranking *r, int64_t i) {
    for (;;) {
        int64_t child = 2 * i + 1, moved = r->heap[i];
        if (child >= r->heaped) return;
        if (child + 1 < r->heaped && before(r, r->heap[child + 1], r->heap[child])) child++;
        if (!before(r, r->heap[child], moved)) return;
        r->heap[i] = r->heap[child];
        r->heap[child] = moved;
        i = child;
    }
}

static sr_status open_runs(sr_ranking *r) {
    SR_TRY(sr_new(&r->source, r->runs));
    SR_TRY(sr_new(&r->heap, r->runs));
    for (int64_t i = 0; i < r->runs; i++) {
        source *s = &r->source[i];
        s->next = i == 0 ? 0 : r->run_end[i - 1];
        s->left = r->run_end[i] - s->next;
        SR_TRY(sr_new(&s->item, BUFFER));
        SR_TRY(refill(r, s));
        r->heap[r->heaped++] = i;
    }
    for (int64_t i = r->heaped / 2; i-- > 0;) sink(r, i);
    return SR_OK;
}

static sr_status next_of_runs(item *out, sr_ranking *r) {
    source *s = &r->source[r->heap[0]];
    *out = s->item[s->at++];
    if (s->at == s->have) {
        if (s->left > 0)
            SR_TRY(refill(r, s));
        else
            r->heap[0] = r->heap[--r->heaped];
    }
    sink(r, 0);
    return SR_OK;
}

/* ---- using ---- */

sr_status sr_ranking_new(sr_ranking **out, const char *scratch, int64_t run) {
    *out = NULL;
    sr_ranking *r;
    SR_TRY(sr_new(&r, 1));
    r->fd = -1;
    r->run = run > 0 ? run : SR_RANKING_RUN;
    sr_status st = sr_strdup(&r->scratch, scratch);
    if (st == SR_OK) st = sr_new(&r->item, r->run);
    if (st == SR_OK) st = sr_new(&r->spare, r->run);
    if (st != SR_OK) {
        sr_ranking_free(r);
        return st;
    }
    *out = r;
    return SR_OK;
}

void sr_ranking_free(sr_ranking *r) {
    if (r == NULL) return;
    if (r->fd >= 0) sr_io_now.close(r->fd);
    for (int64_t i = 0; i < r->runs && r->source != NULL; i++) sr_free(r->source[i].item);
    sr_free(r->source);
    sr_free(r->heap);
    sr_free(r->run_end);
    sr_free(r->item);
    sr_free(r->spare);
    sr_free(r->scratch);
    sr_free(r);
}

sr_status sr_ranking_add(sr_ranking *r, const double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (isnan(values[i]))
            return sr_fail(SR_EINVAL, "ranking: item %llu is NaN; NaN cannot be ordered",
                           (unsigned long long)r->added);
        if (r->added == UINT32_MAX) return sr_fail(SR_EINVAL, "ranking: more than 2^32 - 1 items");
        if (r->count == r->run) SR_TRY(spill(r));
        r->item[r->count++] = (item){key_of(values[i]), (uint32_t)r->added++};
    }
    return SR_OK;
}

static sr_status start_reading(sr_ranking *r) {
    if (r->reading) return SR_OK;
    r->reading = true;
    if (r->runs == 0) {
        sort_items(r);
        return SR_OK;
    }
    if (r->count > 0) SR_TRY(spill(r));
    return open_runs(r);
}

sr_status sr_ranking_next(int64_t *got, sr_ranking *r, sr_ranked *out, int64_t room) {
    *got = 0;
    SR_TRY(start_reading(r));
    while (*got < room) {
        item next;
        if (r->runs == 0) {
            if (r->at == r->count) break;
            next = r->item[r->at++];
        } else {
            if (r->heaped == 0) break;
            SR_TRY(next_of_runs(&next, r));
        }
        out[(*got)++] = (sr_ranked){value_of(next.key), next.index};
    }
    return SR_OK;
}

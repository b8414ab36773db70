#include "core/batch/layout.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

/* Checks and sums the lengths; fills start, len, tokens, squares, longest, gapless. */
static sr_status place(sr_layout *l, const int32_t *start, const int32_t *len, int64_t *end) {
    *end = 0;
    l->gapless = true;
    for (int32_t s = 0; s < l->sequences; s++) {
        if (len[s] < 1)
            return sr_fail(SR_EINVAL, "layout: sequence %d has length %d; lengths must be >= 1",
                           s + 1, len[s]);
        int64_t first = start != NULL ? start[s] : *end;
        if (first < *end)
            return sr_fail(SR_EINVAL,
                           "layout: sequence %d starts at row %lld, but the previous one "
                           "ends at row %lld; starts must ascend without overlap",
                           s + 1, (long long)first, (long long)*end);
        if (first + len[s] > INT32_MAX)
            return sr_fail(SR_EINVAL, "layout: sequence %d ends beyond row %d", s + 1, INT32_MAX);
        if (first > *end) l->gapless = false;
        l->start[s] = (int32_t)first;
        l->len[s] = len[s];
        *end = first + len[s];
        l->tokens += len[s];
        l->squares += (int64_t)len[s] * len[s];
        if (len[s] > l->longest) l->longest = len[s];
    }
    return SR_OK;
}

static void set_keys(sr_layout *l, const uint32_t *uid, const uint32_t *epoch) {
    for (int32_t s = 0; s < l->sequences; s++) {
        l->uid[s] = uid != NULL ? uid[s] : (uint32_t)s;
        l->epoch[s] = epoch != NULL ? epoch[s] : 0;
    }
}

/* owner and position of every row. */
static void set_rows(sr_layout *l) {
    for (int64_t t = 0; t < l->rows; t++) l->owner[t] = -1;
    for (int32_t s = 0; s < l->sequences; s++) {
        for (int32_t i = 0; i < l->len[s]; i++) {
            l->owner[l->start[s] + i] = s;
            l->position[l->start[s] + i] = i;
        }
    }
}

/* Counting sort by descending length, stable. */
static sr_status sort_by_length(sr_layout *l) {
    int32_t *count = NULL;
    SR_TRY(sr_new(&count, (int64_t)l->longest + 2));
    for (int32_t s = 0; s < l->sequences; s++) count[l->len[s]]++;
    int32_t before = 0;
    for (int32_t n = l->longest; n >= 0; n--) {
        int32_t here = count[n];
        count[n] = before;
        before += here;
    }
    for (int32_t s = 0; s < l->sequences; s++) l->longest_first[count[l->len[s]]++] = s;
    sr_free(count);
    return SR_OK;
}

static sr_status fill(sr_layout *l, const int32_t *start, const int32_t *len, const uint32_t *uid,
                      const uint32_t *epoch, int64_t rows) {
    int64_t n = l->sequences, end;
    SR_TRY(sr_new(&l->start, n));
    SR_TRY(sr_new(&l->len, n));
    SR_TRY(sr_new(&l->uid, n));
    SR_TRY(sr_new(&l->epoch, n));
    SR_TRY(sr_new(&l->longest_first, n));
    SR_TRY(place(l, start, len, &end));
    if (rows != 0 && rows < end)
        return sr_fail(SR_EINVAL, "layout: the sequences end at row %lld, but there are %lld rows",
                       (long long)end, (long long)rows);
    if (rows > INT32_MAX)
        return sr_fail(SR_EINVAL, "layout: %lld rows; the maximum is %d", (long long)rows,
                       INT32_MAX);
    l->rows = rows != 0 ? rows : end;
    SR_TRY(sr_new(&l->owner, l->rows));
    SR_TRY(sr_new(&l->position, l->rows));
    set_keys(l, uid, epoch);
    set_rows(l);
    return sort_by_length(l);
}

sr_status sr_layout_new(sr_layout **out, int32_t sequences, const int32_t *start,
                        const int32_t *len, const uint32_t *uid, const uint32_t *epoch,
                        int64_t rows, uint64_t seed) {
    *out = NULL;
    if (sequences < 0 || rows < 0)
        return sr_fail(SR_EINVAL, "layout: %d sequences in %lld rows; both must be >= 0", sequences,
                       (long long)rows);
    sr_layout *l = NULL;
    SR_TRY(sr_new(&l, 1));
    l->refs = 1;
    l->sequences = sequences;
    l->seed = seed;
    sr_status st = fill(l, start, len, uid, epoch, rows);
    return SR_GIVE(out, l, st, sr_layout_release);
}

/* len, uid, epoch of the sequences that keep rows, in one block; *kept counts them. */
static sr_status count_kept(int32_t **block, int32_t *kept, const sr_layout *whole,
                            const uint8_t *keep) {
    int32_t n = whole->sequences;
    SR_TRY(sr_new(block, 3 * (int64_t)n + 1));
    int32_t *len = *block;
    uint32_t *uid = (uint32_t *)len + n, *epoch = uid + n;
    *kept = 0;
    for (int32_t s = 0; s < n; s++) {
        int32_t rows = 0;
        for (int32_t i = 0; i < whole->len[s]; i++) rows += keep[whole->start[s] + i] != 0;
        if (rows == 0) continue;
        len[*kept] = rows;
        uid[*kept] = whole->uid[s];
        epoch[(*kept)++] = whole->epoch[s];
    }
    return SR_OK;
}

sr_status sr_layout_shorten(sr_layout **out, int32_t **rows, const sr_layout *whole,
                            const uint8_t *keep) {
    int32_t *len, kept, n = whole->sequences;
    *out = NULL;
    *rows = NULL;
    SR_TRY(count_kept(&len, &kept, whole, keep));
    const uint32_t *uid = (uint32_t *)len + n, *epoch = uid + n;
    sr_status st = sr_layout_new(out, kept, NULL, len, uid, epoch, 0, whole->seed);
    if (st == SR_OK) st = sr_new(rows, (*out)->rows + 1);
    sr_free(len);
    if (st != SR_OK) {
        sr_layout_release(*out);
        *out = NULL;
        return st;
    }
    int64_t at = 0;
    for (int64_t t = 0; t < whole->rows; t++)
        if (keep[t] != 0 && whole->owner[t] >= 0) (*rows)[at++] = (int32_t)t;
    return SR_OK;
}

sr_status sr_layout_check_rows(const char *op, const sr_layout *l, const int32_t *rows,
                               int64_t count) {
    for (int64_t m = 0; m < count; m++) {
        int32_t row = rows[m];
        if (row < 0 || row >= l->rows || l->owner[row] < 0)
            return sr_fail(SR_EINVAL,
                           "%s: rows[%lld] is %d, which is in no sequence of the layout (rows are "
                           "counted from 0)",
                           op, (long long)m, row);
        if (m > 0 && row <= rows[m - 1])
            return sr_fail(SR_EINVAL, "%s: rows[%lld] is %d after %d; rows must ascend", op,
                           (long long)m, row, rows[m - 1]);
    }
    return SR_OK;
}

int64_t sr_layout_scores(const sr_layout *l, int64_t window, bool causal) {
    int64_t sum = 0;
    for (int32_t s = 0; s < l->sequences; s++) {
        int64_t n = l->len[s], far = window >= 0 && window < n ? window : n - 1;
        int64_t before = n * far - far * (far + 1) / 2; /* with j < i */
        sum += n + (causal ? before : 2 * before);
    }
    return sum;
}

void sr_layout_add_mirror(const sr_layout *layout, sr_mirror *mirror) {
    sr_layout *l = (sr_layout *)(uintptr_t)layout;
    mirror->next = l->mirrors;
    l->mirrors = mirror;
}

/* Prefetch threads hand layouts to the main thread, so the count is atomic. */
sr_layout *sr_layout_retain(sr_layout *layout) {
    __atomic_add_fetch(&layout->refs, 1, __ATOMIC_RELAXED);
    return layout;
}

void sr_layout_release(sr_layout *layout) {
    if (layout == NULL || __atomic_sub_fetch(&layout->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    while (layout->mirrors != NULL) {
        sr_mirror *mirror = layout->mirrors;
        layout->mirrors = mirror->next;
        mirror->drop(mirror);
    }
    sr_free(layout->start);
    sr_free(layout->len);
    sr_free(layout->uid);
    sr_free(layout->epoch);
    sr_free(layout->owner);
    sr_free(layout->position);
    sr_free(layout->longest_first);
    sr_free(layout);
}

/* index_metric.c - metrics in the files of index.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/data/index_format.h"

enum { PERCENTILES = 100 };

/* ---- writing ---- */

static sr_status create(sr_index_writer **out, const char *name, const char *ending,
                        sr_index_type type) {
    char *path;
    SR_TRY(sr_index_path(&path, name, ending));
    sr_status st = sr_index_create(out, path, type);
    sr_free(path);
    return st;
}

/* Commits all that were begun, if st is SR_OK. */
static sr_status end(sr_status st, sr_index_writer *const *list, int count) {
    for (int i = 0; i < count; i++) {
        if (list[i] == NULL) continue;
        if (st == SR_OK)
            st = sr_index_commit(list[i]);
        else
            sr_index_abort(list[i]);
    }
    return st;
}

static sr_status put_samples(sr_index_writer *w, const sr_metric *m) {
    for (int64_t at = 0; at < m->count; at += SR_INDEX_SPAN) {
        double value[SR_INDEX_SPAN];
        int64_t n = m->count - at < SR_INDEX_SPAN ? m->count - at : SR_INDEX_SPAN;
        SR_TRY(sr_metric_values(value, m, at, n));
        for (int64_t i = 0; i < n; i++) {
            int64_t whole = (int64_t)value[i];
            SR_TRY(sr_index_put(w, &whole, 1));
            SR_TRY(sr_index_end_row(w));
        }
    }
    return SR_OK;
}

/* Calls row(context, value, begin, end) for each distinct value and its span of the order. */
typedef sr_status (*take_row)(void *context, int64_t value, int64_t begin, int64_t end);
static sr_status each_row(const sr_metric *m, take_row row, void *context) {
    for (int64_t at = 0; at < m->count;) {
        double value;
        int64_t last;
        SR_TRY(sr_metric_at(&value, m, at));
        SR_TRY(sr_metric_upto(&last, m, value));
        if (last <= at)
            return sr_fail(SR_EDATA, "metric %s: its order does not fit its values; analyze again",
                           sr_metric_name(m));
        SR_TRY(row(context, (int64_t)value, at, last));
        at = last;
    }
    return SR_OK;
}

typedef struct rows {
    const sr_metric *m;
    sr_index_writer *metric, *sample, *merged;
    int64_t count, step; /* rows so far; rows that are merged */
} rows;

static sr_status count_row(void *context, int64_t value, int64_t begin, int64_t last) {
    (void)value, (void)begin, (void)last;
    ((rows *)context)->count++;
    return SR_OK;
}

static sr_status put_row(void *context, int64_t value, int64_t begin, int64_t last) {
    rows *r = context;
    SR_TRY(sr_index_put(r->metric, &value, 1));
    SR_TRY(sr_index_end_row(r->metric));
    for (int64_t at = begin; at < last; at += SR_INDEX_SPAN) {
        uint32_t uid[SR_INDEX_SPAN];
        int64_t wide[SR_INDEX_SPAN], n = last - at < SR_INDEX_SPAN ? last - at : SR_INDEX_SPAN;
        SR_TRY(sr_metric_order(uid, r->m, at, n));
        for (int64_t i = 0; i < n; i++) wide[i] = uid[i];
        SR_TRY(sr_index_put(r->sample, wide, n));
        SR_TRY(sr_index_put(r->merged, wide, n));
    }
    SR_TRY(sr_index_end_row(r->sample));
    r->count++;
    return r->count % r->step == 0 ? sr_index_end_row(r->merged) : SR_OK;
}

static sr_status put_rows(rows *r) {
    r->count = 0;
    SR_TRY(each_row(r->m, count_row, r));
    r->step = r->count / PERCENTILES > 0 ? r->count / PERCENTILES : 1;
    r->count = 0;
    return each_row(r->m, put_row, r);
}

sr_status sr_index_of_metric(const sr_metric *m, const char *name) {
    double least, most;
    if (!m->whole || m->accumulated)
        return sr_fail(SR_EINVAL,
                       "metric %s: an index of DeepSpeed has integers, one for each "
                       "sequence; round the values first",
                       sr_metric_name(m));
    SR_TRY(sr_metric_at(&least, m, 0));
    SR_TRY(sr_metric_at(&most, m, m->count - 1));
    sr_index_type type = sr_index_narrowest((int64_t)least, (int64_t)most);
    sr_index_type ids = sr_index_narrowest(0, m->count - 1);
    rows r = {.m = m};
    sr_index_writer *samples = NULL;
    sr_status st = create(&samples, name, "_sample_to_metric", type);
    if (st == SR_OK) st = create(&r.metric, name, "_index_to_metric", type);
    if (st == SR_OK) st = create(&r.sample, name, "_index_to_sample", ids);
    if (st == SR_OK) st = create(&r.merged, name, "_index_to_sample_percentile_merged", ids);
    if (st == SR_OK) st = put_samples(samples, m);
    if (st == SR_OK) st = put_rows(&r);
    sr_index_writer *const all[] = {samples, r.metric, r.sample, r.merged};
    return end(st, all, 4);
}

/* ---- reading ---- */

static sr_status open_index(sr_index **out, const char *name, const char *ending) {
    char *path;
    *out = NULL;
    SR_TRY(sr_index_path(&path, name, ending));
    sr_status st = sr_index_open(out, path);
    sr_free(path);
    return st;
}

/* The single value of a row. */
static sr_status read_one(int64_t *out, const sr_index *x, uint64_t row) {
    int64_t size;
    SR_TRY(sr_index_size(&size, x, row));
    if (size != 1)
        return sr_fail(SR_EDATA, "%s: row %" PRIu64 " has %" PRId64 " values; a metric has one",
                       x->idx_path, row, size);
    return sr_index_read(out, x, row, 0, 1);
}

static sr_status check_count(const sr_index *x, uint64_t count) {
    if (count > 0 && count < UINT32_MAX) return SR_OK;
    return sr_fail(SR_EDATA, "%s: it has %" PRIu64 " sequences; there must be 1 to 2^32 - 2",
                   x->idx_path, count);
}

static sr_status read_samples(double **values, int64_t *count, const sr_index *x) {
    SR_TRY(check_count(x, x->rows));
    SR_TRY(sr_new(values, x->rows));
    *count = (int64_t)x->rows;
    for (uint64_t i = 0; i < x->rows; i++) {
        int64_t value;
        SR_TRY(read_one(&value, x, i));
        (*values)[i] = (double)value;
    }
    return SR_OK;
}

/* Gives the sequences of a row their value. */
static sr_status spread(double *values, int64_t count, const sr_index *samples, uint64_t row,
                        int64_t value) {
    int64_t size, id[SR_INDEX_SPAN];
    SR_TRY(sr_index_size(&size, samples, row));
    for (int64_t at = 0; at < size; at += SR_INDEX_SPAN) {
        int64_t n = size - at < SR_INDEX_SPAN ? size - at : SR_INDEX_SPAN;
        SR_TRY(sr_index_read(id, samples, row, at, n));
        for (int64_t i = 0; i < n; i++) {
            if (id[i] < 0 || id[i] >= count || !isnan(values[id[i]]))
                return sr_fail(SR_EDATA, "%s: row %" PRIu64 " has sequence %" PRId64 ", which %s",
                               samples->bin_path, row, id[i],
                               id[i] < 0 || id[i] >= count ? "is out of range"
                                                           : "has a value already");
            values[id[i]] = (double)value;
        }
    }
    return SR_OK;
}

static sr_status read_rows(double **values, int64_t *count, const sr_index *samples,
                           const sr_index *metric) {
    int64_t all = 0, size, value;
    if (samples->rows != metric->rows)
        return sr_fail(SR_EDATA,
                       "%s has %" PRIu64 " rows, but %s %" PRIu64 " (a merged index has no values)",
                       samples->idx_path, samples->rows, metric->idx_path, metric->rows);
    for (uint64_t i = 0; i < samples->rows; i++) {
        SR_TRY(sr_index_size(&size, samples, i));
        if (__builtin_add_overflow(all, size, &all)) all = INT64_MAX;
    }
    SR_TRY(check_count(samples, (uint64_t)all));
    if ((uint64_t)all > samples->bytes)
        return sr_fail(SR_EDATA, "%s: its rows overlap", samples->idx_path);
    SR_TRY(sr_new(values, all));
    *count = all;
    for (int64_t i = 0; i < all; i++) (*values)[i] = NAN;
    for (uint64_t i = 0; i < samples->rows; i++) {
        SR_TRY(read_one(&value, metric, i));
        SR_TRY(spread(*values, all, samples, i, value));
    }
    return SR_OK; /* as many ids as sequences, none twice: all have a value */
}

static sr_status read_values(double **values, int64_t *count, const char *name, bool by_sample) {
    sr_index *first = NULL, *second = NULL;
    sr_status st = open_index(&first, name, by_sample ? "_sample_to_metric" : "_index_to_sample");
    if (st == SR_OK && by_sample) st = read_samples(values, count, first);
    if (st == SR_OK && !by_sample) st = open_index(&second, name, "_index_to_metric");
    if (st == SR_OK && !by_sample) st = read_rows(values, count, first, second);
    sr_index_close(first);
    sr_index_close(second);
    return st;
}

sr_status sr_index_values(double **values, int64_t *count, const char *name) {
    char *path;
    *values = NULL;
    *count = 0;
    bool by_sample;
    struct stat facts;
    SR_TRY(sr_index_path(&path, name, "_sample_to_metric.idx"));
    sr_status st = sr_file_stat(&by_sample, &facts, path);
    sr_free(path);
    if (st == SR_OK) st = read_values(values, count, name, by_sample);
    if (st == SR_OK) return SR_OK;
    sr_free(*values);
    *values = NULL;
    return st;
}

/* tfidf.c - the TF-IDF vector of a corpus, for measure.h. */
#include <math.h>

#include "core/base/mem.h"
#include "core/data/measure.h"

enum { SPAN = 16384 };

typedef struct counts {
    uint64_t *times, *units; /* (V) occurrences; units that have the token */
    int64_t *last;           /* (V) 1 + the last unit that had it */
    int32_t *ids;            /* (SPAN) */
} counts;

static sr_status add_unit(counts *t, const sr_dataset *d, uint32_t unit) {
    uint64_t end = d->unit_token[unit + 1];
    for (uint64_t at = d->unit_token[unit]; at < end; at += SPAN) {
        uint64_t n = end - at < SPAN ? end - at : SPAN;
        SR_TRY(sr_dataset_ids(d, t->ids, at, n));
        for (uint64_t i = 0; i < n; i++) {
            int32_t id = t->ids[i];
            t->times[id]++;
            t->units[id] += t->last[id] != (int64_t)unit + 1;
            t->last[id] = (int64_t)unit + 1;
        }
    }
    return SR_OK;
}

static sr_status count_portion(counts *t, const sr_dataset *d, const sr_portion *p) {
    int64_t size = sr_tokenizer_size(d->tokenizer);
    SR_TRY(sr_new(&t->times, size));
    SR_TRY(sr_new(&t->units, size));
    SR_TRY(sr_new(&t->last, size));
    SR_TRY(sr_new(&t->ids, SPAN));
    for (int64_t i = 0; i < p->count; i++) {
        if (sr_stop_requested()) return sr_fail(SR_ESTOP, "stopped while reading a corpus");
        SR_TRY(add_unit(t, d, p->unit[i]));
    }
    return SR_OK;
}

static sr_status vectors(sr_measure *m, const counts *t, const sr_dataset *d, int64_t units) {
    int32_t size = sr_tokenizer_size(d->tokenizer);
    double square = 0;
    SR_TRY(sr_new(&m->weight, size));
    SR_TRY(sr_new(&m->center, size));
    for (int32_t id = 0; id < size; id++) {
        m->weight[id] = log((1 + (double)units) / (1 + (double)t->units[id])) + 1;
        m->center[id] = (double)t->times[id] * m->weight[id];
        square += m->center[id] * m->center[id];
    }
    if (!(square > 0))
        return sr_fail(SR_EDATA, "%s: it has no tokens to compare with", sr_shard_path(d->shard));
    for (int32_t id = 0; id < size; id++) m->center[id] /= sqrt(square);
    return SR_OK;
}

sr_status sr_measure_tfidf(sr_measure *out, const sr_dataset *d, const sr_dataset *other,
                           sr_data_part part) {
    const sr_portion *p = &other->part[part];
    SR_TRY(sr_measure_plain(out, SR_MEASURE_TFIDF, d));
    if (sr_dataset_fingerprint(d) != sr_dataset_fingerprint(other))
        return sr_fail(SR_EDATA,
                       "%s: it has another vocabulary than the data set; prepare it with the "
                       "same one",
                       sr_shard_path(other->shard));
    counts t = {0};
    sr_status st = count_portion(&t, other, p);
    if (st == SR_OK) st = vectors(out, &t, other, p->count);
    sr_free(t.times);
    sr_free(t.units);
    sr_free(t.last);
    sr_free(t.ids);
    return st;
}

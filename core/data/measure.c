#include "core/data/measure.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/compress.h"

enum { PARTS = 64 }; /* of a step */

const char *const sr_measure_names[SR_MEASURES + 1] = {
    "length", "rarity", "rarity_integer", "length_rarity", "tfidf", "compressibility", NULL};

/* ---- making ---- */

sr_status sr_measure_plain(sr_measure *out, sr_measure_kind kind, const sr_dataset *d) {
    *out = (sr_measure){.kind = kind, .data = d};
    return SR_OK;
}

void sr_rarity_weights(double *weight, double *denominator, double *largest, const uint64_t *count,
                       int64_t size, int64_t slots) {
    uint64_t sum = (uint64_t)(slots - size); /* unseen ones */
    uint64_t least = slots > size ? 1 : UINT64_MAX;
    for (int64_t i = 0; i < size; i++) {
        uint64_t n = count[i] > 0 ? count[i] : 1;
        sum += n;
        least = n < least ? n : least;
    }
    *denominator = (double)sum;
    for (int64_t i = 0; i < slots; i++) {
        uint64_t n = i < size && count[i] > 0 ? count[i] : 1;
        weight[i] = -log((double)n / (double)sum);
    }
    *largest = -log((double)least / (double)sum);
}

double sr_rarity_coefficient(double largest, int64_t most) {
    return pow(10, ceil(log10((double)most * largest)) + 1);
}

sr_status sr_measure_rarity(sr_measure *out, sr_measure_kind kind, const sr_dataset *d,
                            const uint64_t *count, int64_t slots, int64_t most) {
    int64_t size = sr_tokenizer_size(d->tokenizer);
    SR_TRY(sr_measure_plain(out, kind, d));
    if (slots < size)
        return sr_fail(SR_EINVAL, "rarity: %lld slots are fewer than the %lld tokens",
                       (long long)slots, (long long)size);
    SR_TRY(sr_new(&out->weight, slots));
    double largest;
    sr_rarity_weights(out->weight, &out->denominator, &largest, count, size, slots);
    out->coefficient = sr_rarity_coefficient(largest, most);
    return SR_OK;
}

void sr_measure_free(sr_measure *m) {
    sr_free(m->weight);
    sr_free(m->center);
    *m = (sr_measure){0};
}

void sr_measuring_close(sr_measuring *s) {
    sr_free(s->times);
    sr_free(s->text);
    sr_compress_close(s->deflate);
    *s = (sr_measuring){0};
}

/* ---- the value of a sequence ---- */

static const sr_frame *frame_of(const sr_measure *m, const sr_segments *t) {
    return sr_dataset_frame(m->data, t->b_count);
}

static int32_t length_of(const sr_measure *m, const sr_segments *t) {
    return t->a_count + t->b_count + sr_frame_size(frame_of(m, t));
}

/* Four partial sums, so that additions overlap; their order is fixed. */
static double sum_weights(const double *weight, const int32_t *ids, int32_t n) {
    double sum[4] = {0, 0, 0, 0};
    int32_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) sum[k] += weight[ids[i + k]];
    for (; i < n; i++) sum[0] += weight[ids[i]];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static double rarity_of(const sr_measure *m, const sr_segments *t) {
    const sr_frame *f = frame_of(m, t);
    double lead = sum_weights(m->weight, f->lead.ids, f->lead.count);
    double others = sum_weights(m->weight, f->middle.ids, f->middle.count) +
                    sum_weights(m->weight, f->tail.ids, f->tail.count);
    return sum_weights(m->weight, t->a, t->a_count) + sum_weights(m->weight, t->b, t->b_count) +
           lead + others;
}

/* Adds the products of a segment; every token is visited at its first occurrence. */
static void add_products(double *dot, double *square, const sr_measure *m, uint32_t *times,
                         const int32_t *ids, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        int32_t id = ids[i];
        if (times[id] == 0) continue;
        double x = times[id] * m->weight[id];
        *dot += x * m->center[id];
        *square += x * x;
        times[id] = 0;
    }
}

static sr_status distance_of(double *out, const sr_measure *m, sr_measuring *s,
                             const sr_segments *t) {
    double dot = 0, square = 0;
    if (s->times == NULL) SR_TRY(sr_new(&s->times, sr_tokenizer_size(m->data->tokenizer)));
    for (int32_t i = 0; i < t->a_count; i++) s->times[t->a[i]]++;
    for (int32_t i = 0; i < t->b_count; i++) s->times[t->b[i]]++;
    add_products(&dot, &square, m, s->times, t->a, t->a_count);
    add_products(&dot, &square, m, s->times, t->b, t->b_count);
    double cosine = square > 0 ? dot / sqrt(square) : 0;
    *out = cosine < 1 ? 1 - cosine : 0;
    return SR_OK;
}

sr_status sr_measure_of(double *out, const sr_measure *m, sr_measuring *s, const sr_segments *t) {
    switch (m->kind) {
    case SR_MEASURE_LENGTH:
        *out = length_of(m, t);
        return SR_OK;
    case SR_MEASURE_RARITY:
        *out = rarity_of(m, t);
        return SR_OK;
    case SR_MEASURE_RARITY_INTEGER:
        *out = trunc(rarity_of(m, t));
        return SR_OK;
    case SR_MEASURE_LENGTH_RARITY:
        *out = length_of(m, t) * m->coefficient + trunc(rarity_of(m, t));
        return SR_OK;
    case SR_MEASURE_TFIDF:
        return distance_of(out, m, s, t);
    case SR_MEASURE_COMPRESSIBILITY:
        return sr_compress_ratio(out, s, m->data->tokenizer, t);
    default:
        return sr_fail(SR_EINVAL, "measure: unknown kind %d", (int)m->kind);
    }
}

/* ---- a step ---- */

typedef struct worker {
    sr_stream_part window;
    sr_measuring scratch;
} worker;

typedef struct values {
    double *value;
    int64_t count;
} values;

typedef struct step {
    const sr_measure *m;
    const sr_stream *s;
    int64_t first; /* part */
    worker *worker;
    values of[PARTS];
} step;

/* Lengths need no tokens. */
static sr_status measure_lengths(double *out, const sr_stream_part *w) {
    for (size_t i = 0; i < w->drawn.count; i++) out[i] = sr_example_length(&w->drawn.example[i]);
    return SR_OK;
}

static sr_status measure_part(void *context, int64_t i, int number) {
    step *s = context;
    worker *w = &s->worker[number];
    values *v = &s->of[i];
    if (sr_stop_requested()) return sr_fail(SR_ESTOP, "stopped; run the command again to continue");
    SR_TRY(sr_stream_read(&w->window, s->s, s->first + i));
    v->count = (int64_t)w->window.drawn.count;
    SR_TRY(sr_new(&v->value, v->count));
    if (s->m->kind == SR_MEASURE_LENGTH) return measure_lengths(v->value, &w->window);
    for (int64_t k = 0; k < v->count; k++) {
        sr_segments t;
        SR_TRY(sr_stream_tokens(&t, &w->window, s->s, (size_t)k));
        SR_TRY(sr_measure_of(&v->value[k], s->m, &w->scratch, &t));
    }
    return SR_OK;
}

/* Appends the values of the parts as one record. */
static sr_status append_all(sr_progress *p, const step *s, int64_t parts) {
    int64_t count = 0;
    double *all;
    for (int64_t i = 0; i < parts; i++) count += s->of[i].count;
    SR_TRY(sr_new(&all, count));
    count = 0;
    for (int64_t i = 0; i < parts; i++) {
        memcpy(all + count, s->of[i].value, (size_t)s->of[i].count * sizeof *all);
        count += s->of[i].count;
    }
    sr_status st = sr_progress_append(p, all, count, s->first + parts);
    sr_free(all);
    return st;
}

sr_status sr_measure_step(bool *done, const sr_measure *m, const sr_stream *s, sr_progress *p,
                          sr_threads *threads) {
    int64_t left = s->parts - p->next, parts = left < PARTS ? left : PARTS;
    *done = parts <= 0;
    if (*done) return SR_OK;
    int workers = threads != NULL ? sr_threads_count(threads) : 1;
    step now = {.m = m, .s = s, .first = p->next};
    SR_TRY(sr_new(&now.worker, workers));
    sr_status st = sr_threads_run(threads, measure_part, &now, parts);
    if (st == SR_OK) st = append_all(p, &now, parts);
    for (int64_t i = 0; i < parts; i++) sr_free(now.of[i].value);
    for (int i = 0; i < workers; i++) {
        sr_stream_part_close(&now.worker[i].window);
        sr_measuring_close(&now.worker[i].scratch);
    }
    sr_free(now.worker);
    *done = left <= PARTS;
    return st;
}

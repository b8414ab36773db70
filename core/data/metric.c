#include "core/data/metric.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/measure.h"
#include "core/data/pairs.h"
#include "core/data/ranking.h"
#include "core/data/shard_format.h"

enum { SPAN = 1024 };

/* ---- opening ---- */

static sr_status find_columns(sr_metric *m) {
    const sr_shard *s = m->shard;
    const char *kind = sr_shard_meta(s, "kind");
    if (kind == NULL || strcmp(kind, "metric") != 0)
        return sr_fail(SR_EDATA,
                       "%s: not a metric, but a file of kind '%s'; make one with `seqrun "
                       "analyze`",
                       sr_shard_path(s), kind != NULL ? kind : "unknown");
    m->accumulated = sr_shard_column(s, "total") != NULL;
    m->column = sr_shard_column(s, m->accumulated ? "total" : "value");
    int type = m->column != NULL ? m->column->type : 0;
    if ((type != SR_COLUMN_I32 && type != SR_COLUMN_I64 && type != SR_COLUMN_F64) ||
        m->column->count == 0 || m->column->count >= UINT32_MAX)
        return sr_fail(SR_EDATA, "%s: the metric has no values; analyze the data set again",
                       sr_shard_path(s));
    m->whole = type != SR_COLUMN_F64;
    m->count = (int64_t)m->column->count;
    if (m->accumulated) return SR_OK;
    SR_TRY(sr_shard_want(&m->sorted, s, "order", SR_COLUMN_U32));
    if (m->sorted->count != m->column->count)
        return sr_fail(SR_EDATA,
                       "%s: %" PRIu64 " values, but %" PRIu64
                       " in order; analyze the data set again",
                       sr_shard_path(s), m->column->count, m->sorted->count);
    return SR_OK;
}

sr_status sr_metric_open(sr_metric **out, const char *path) {
    *out = NULL;
    sr_metric *m;
    SR_TRY(sr_new(&m, 1));
    sr_status st = sr_shard_open(&m->shard, path, 0);
    if (st == SR_ENOENT)
        sr_fail(st, "%s: no such metric; make it with `seqrun analyze DATA --metric NAME`", path);
    if (st == SR_OK) st = find_columns(m);
    if (st != SR_OK) {
        sr_metric_close(m);
        return st;
    }
    *out = m;
    return SR_OK;
}

static sr_status fill(sr_metric *m, const double *values) {
    sr_ranking *r;
    SR_TRY(sr_new(&m->value, m->count));
    SR_TRY(sr_new(&m->uid, m->count));
    SR_TRY(sr_ranking_new(&r, "", m->count));
    sr_status st = sr_ranking_add(r, values, m->count);
    int64_t got = 1;
    for (int64_t at = 0; st == SR_OK && at < m->count; at += got) {
        sr_ranked part[256];
        st = sr_ranking_next(&got, r, part, 256);
        for (int64_t i = 0; st == SR_OK && i < got; i++) m->uid[at + i] = part[i].index;
    }
    sr_ranking_free(r);
    m->whole = true;
    for (int64_t i = 0; i < m->count; i++) {
        m->value[i] = values[i];
        m->whole = m->whole && values[i] == floor(values[i]);
    }
    return st;
}

sr_status sr_metric_of(sr_metric **out, const double *values, int64_t count) {
    *out = NULL;
    if (count < 1 || count >= UINT32_MAX)
        return sr_fail(SR_EINVAL, "metric: %" PRId64 " values; there must be 1 to 2^32 - 2", count);
    sr_metric *m;
    SR_TRY(sr_new(&m, 1));
    m->count = count;
    sr_status st = fill(m, values);
    if (st != SR_OK) {
        sr_metric_close(m);
        return st;
    }
    *out = m;
    return SR_OK;
}

void sr_metric_close(sr_metric *m) {
    if (m == NULL) return;
    sr_shard_close(m->shard);
    sr_free(m->value);
    sr_free(m->uid);
    sr_free(m);
}

const char *sr_metric_name(const sr_metric *m) {
    const char *name = m->shard != NULL ? sr_shard_meta(m->shard, "metric") : NULL;
    return name != NULL ? name : "metric";
}

/* ---- values and order ---- */

static sr_status check_span(const sr_metric *m, int64_t first, int64_t count) {
    if (first >= 0 && count >= 0 && first <= m->count && count <= m->count - first) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "metric %s: sequences %" PRId64 " + %" PRId64 " are outside its %" PRId64,
                   sr_metric_name(m), first, count, m->count);
}

/* Widens numbers of a type to double. */
static void widen(double *out, const void *raw, int type, int64_t count) {
    const int32_t *narrow = raw;
    const int64_t *wide = raw;
    if (type == SR_COLUMN_F64) memcpy(out, raw, (size_t)count * sizeof *out);
    for (int64_t i = 0; i < count && type == SR_COLUMN_I32; i++) out[i] = narrow[i];
    for (int64_t i = 0; i < count && type == SR_COLUMN_I64; i++) out[i] = (double)wide[i];
}

sr_status sr_metric_values(double *out, const sr_metric *m, int64_t first, int64_t count) {
    SR_TRY(check_span(m, first, count));
    if (m->shard == NULL) {
        memcpy(out, m->value + first, (size_t)count * sizeof *out);
        return SR_OK;
    }
    int64_t raw[512];
    for (int64_t at = 0; at < count; at += 512) {
        int64_t n = count - at < 512 ? count - at : 512;
        SR_TRY(sr_shard_read(m->shard, m->column, raw, (uint64_t)(first + at), (uint64_t)n));
        widen(out + at, raw, m->column->type, n);
    }
    return SR_OK;
}

sr_status sr_metric_order(uint32_t *out, const sr_metric *m, int64_t first, int64_t count) {
    SR_TRY(check_span(m, first, count));
    if (m->accumulated)
        return sr_fail(SR_EINVAL,
                       "metric %s is accumulated over all sequences: it does not order "
                       "them",
                       sr_metric_name(m));
    if (m->shard == NULL) {
        memcpy(out, m->uid + first, (size_t)count * sizeof *out);
        return SR_OK;
    }
    SR_TRY(sr_shard_read(m->shard, m->sorted, out, (uint64_t)first, (uint64_t)count));
    for (int64_t i = 0; i < count; i++)
        if (out[i] >= m->count)
            return sr_fail(SR_EDATA,
                           "%s: the order has uid %u of %" PRId64
                           " sequences; analyze the data set again",
                           sr_shard_path(m->shard), out[i], m->count);
    return SR_OK;
}

sr_status sr_metric_at(double *out, const sr_metric *m, int64_t i) {
    uint32_t uid;
    SR_TRY(sr_metric_order(&uid, m, i, 1));
    return sr_metric_values(out, m, uid, 1);
}

sr_status sr_metric_upto(int64_t *out, const sr_metric *m, double value) {
    int64_t low = 0, high = m->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        double there;
        SR_TRY(sr_metric_at(&there, m, middle));
        if (there <= value)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return SR_OK;
}

/* ---- what was measured ---- */

static bool redraws(const sr_dataset *d, const sr_examples_opts *opts) {
    const sr_portion *p = &d->part[opts->part];
    bool any = false;
    for (int64_t i = 0; i < p->count; i++) any = any || sr_pairs_redraw(d, opts, p->unit[i]);
    return any;
}

void sr_metric_subject(char out[SR_METRIC_SUBJECT], const sr_dataset *d,
                       const sr_examples_opts *opts) {
    const sr_portion *p = &d->part[opts->part];
    uint64_t split =
        sr_shard_hash(p->unit, (size_t)p->count * sizeof *p->unit, d->cut ? d->unit_token[1] : 0);
    int n = snprintf(out, SR_METRIC_SUBJECT, "%s, %" PRId64 " %s (%016" PRIx64 ")",
                     sr_data_part_name(opts->part), p->count,
                     d->kind == SR_DATA_TEXT ? "documents" : "examples", split);
    char *rest = out + n;
    size_t room = (size_t)(SR_METRIC_SUBJECT - n);
    if (d->kind == SR_DATA_TEXT)
        snprintf(rest, room,
                 ", %s of max_len %d, short_seq_prob %.15g%s, seed %" PRIu64 ", epoch %u",
                 opts->nsp ? "pairs" : "sentences", opts->max_len, opts->short_seq_prob,
                 redraws(d, opts) ? " a sequence" : "", opts->seed, opts->epoch);
    else if (opts->too_long == SR_TOO_LONG_SPLIT)
        snprintf(rest, room, ", pieces of max_len %d", opts->max_len);
}

void sr_metric_arguments(char out[SR_METRIC_SUBJECT], const sr_dataset *d,
                         const sr_examples_opts *o) {
    bool text = d->kind == SR_DATA_TEXT;
    char held[48] = "", examples[160] = "";
    if (d->held != (text ? 0.05 : 0)) snprintf(held, sizeof held, " --held %.15g", d->held);
    if (text)
        snprintf(examples, sizeof examples,
                 " --max-len %d --short-seq-prob %.15g%s --seed %" PRIu64 "%s", o->max_len,
                 o->short_seq_prob, o->by_document ? " --short-seq-by document" : "", o->seed,
                 o->nsp ? "" : " --single");
    else if (o->too_long == SR_TOO_LONG_SPLIT)
        snprintf(examples, sizeof examples, " --split --max-len %d", o->max_len);
    snprintf(out, SR_METRIC_SUBJECT, "%s%s%s", o->part == SR_PART_HELD ? " --part held" : "", held,
             examples);
}

/* `analyze` takes a metric of a person's own by its file. */
static const char *ending_of(const char *name) {
    bool known = strcmp(name, "loss") == 0 || strcmp(name, "token_counts") == 0;
    for (int i = 0; i < SR_MEASURES; i++) known = known || strcmp(name, sr_measure_names[i]) == 0;
    return known ? "" : ".lua";
}

/* Rejects the metric unless the metadata entry `key` is `want`. */
static sr_status check_entry(const sr_metric *m, const sr_dataset *d, const sr_examples_opts *opts,
                             const char *key, const char *what, const char *want) {
    const char *have = sr_shard_meta(m->shard, key);
    char options[SR_METRIC_SUBJECT] = "";
    if (have != NULL && strcmp(have, want) == 0) return SR_OK;
    if (opts != NULL) sr_metric_arguments(options, d, opts);
    return sr_fail(SR_EDATA,
                   "%s: the metric is of another %s (%s) than %s (%s); make it again with `seqrun "
                   "analyze %s --metric %s%s%s`",
                   sr_shard_path(m->shard), what, have != NULL ? have : "unknown",
                   sr_shard_path(d->shard), want, sr_shard_path(d->shard), sr_metric_name(m),
                   ending_of(sr_metric_name(m)), options);
}

static void hex(char out[17], uint64_t number) {
    snprintf(out, 17, "%016" PRIx64, number);
}

sr_status sr_metric_check(const sr_metric *m, const sr_dataset *d, const sr_examples_opts *opts,
                          int64_t examples) {
    if (m->shard != NULL) {
        char digest[17], vocab[17], subject[SR_METRIC_SUBJECT];
        hex(digest, sr_dataset_digest(d));
        hex(vocab, sr_dataset_fingerprint(d));
        SR_TRY(check_entry(m, d, opts, "vocab", "vocabulary", vocab));
        SR_TRY(check_entry(m, d, opts, "data", "data set", digest));
        if (opts != NULL) {
            sr_metric_subject(subject, d, opts);
            SR_TRY(check_entry(m, d, opts, "examples", "choice of examples", subject));
        }
    }
    if (examples < 0 || m->accumulated || m->count == examples) return SR_OK;
    return sr_fail(SR_EDATA,
                   "metric %s: %" PRId64 " values for %" PRId64 " sequences; give one for each",
                   sr_metric_name(m), m->count, examples);
}

/* ---- writing ---- */

struct sr_metric_writer {
    sr_shard_writer *shard;
    sr_ranking *ranking; /* NULL: accumulated */
    sr_column_type type;
    int column, order;
};

static sr_status describe(sr_shard_writer *w, const sr_metric_about *a) {
    char digest[17], vocab[17], subject[SR_METRIC_SUBJECT];
    hex(digest, sr_dataset_digest(a->d));
    hex(vocab, sr_dataset_fingerprint(a->d));
    sr_metric_subject(subject, a->d, a->examples);
    SR_TRY(sr_shard_set_meta(w, "kind", "metric"));
    SR_TRY(sr_shard_set_meta(w, "metric", a->name));
    SR_TRY(sr_shard_set_meta(w, "data", digest));
    SR_TRY(sr_shard_set_meta(w, "vocab", vocab));
    SR_TRY(sr_shard_set_meta(w, "examples", subject));
    return sr_shard_set_meta(w, "options", a->options);
}

static sr_status begin(sr_metric_writer *w, const char *path, const sr_metric_about *a) {
    SR_TRY(sr_shard_create(&w->shard, path));
    const char *name = a->accumulated ? "total" : "value";
    SR_TRY(sr_shard_add_column(w->shard, &w->column, name, a->type));
    SR_TRY(describe(w->shard, a));
    if (a->accumulated) return SR_OK;
    SR_TRY(sr_shard_add_column(w->shard, &w->order, "order", SR_COLUMN_U32));
    char *scratch;
    size_t size = strlen(path) + sizeof ".sort";
    SR_TRY(sr_new(&scratch, size));
    snprintf(scratch, size, "%s.sort", path);
    sr_status st = sr_ranking_new(&w->ranking, scratch, 0);
    sr_free(scratch);
    return st;
}

sr_status sr_metric_create(sr_metric_writer **out, const char *path, const sr_metric_about *about) {
    *out = NULL;
    sr_metric_writer *w;
    SR_TRY(sr_new(&w, 1));
    w->type = about->type;
    sr_status st = begin(w, path, about);
    if (st != SR_OK) {
        sr_metric_abort(w);
        return st;
    }
    *out = w;
    return SR_OK;
}

static sr_status append_as(sr_metric_writer *w, const double *values, int64_t count) {
    if (w->type == SR_COLUMN_F64)
        return sr_shard_append(w->shard, w->column, values, (size_t)count);
    int32_t narrow[SPAN];
    int64_t wide[SPAN];
    for (int64_t i = 0; i < count; i++) narrow[i] = (int32_t)(wide[i] = (int64_t)values[i]);
    const void *raw = w->type == SR_COLUMN_I32 ? (const void *)narrow : (const void *)wide;
    return sr_shard_append(w->shard, w->column, raw, (size_t)count);
}

sr_status sr_metric_append(sr_metric_writer *w, const double *values, int64_t count) {
    if (w->ranking != NULL) SR_TRY(sr_ranking_add(w->ranking, values, count));
    for (int64_t at = 0; at < count; at += SPAN) {
        int64_t n = count - at < SPAN ? count - at : SPAN;
        SR_TRY(append_as(w, values + at, n));
    }
    return SR_OK;
}

static sr_status write_order(sr_metric_writer *w) {
    int64_t got = 1, distinct = 0;
    double last = NAN;
    while (got > 0) {
        sr_ranked part[512];
        uint32_t uid[512];
        SR_TRY(sr_ranking_next(&got, w->ranking, part, 512));
        for (int64_t i = 0; i < got; i++) {
            uid[i] = part[i].index;
            distinct += part[i].value != last;
            last = part[i].value;
        }
        SR_TRY(sr_shard_append(w->shard, w->order, uid, (size_t)got));
    }
    char number[32];
    snprintf(number, sizeof number, "%" PRId64, distinct);
    return sr_shard_set_meta(w->shard, "distinct", number);
}

sr_status sr_metric_commit(sr_metric_writer *w) {
    sr_status st = w->ranking != NULL ? write_order(w) : SR_OK;
    if (st == SR_OK) {
        st = sr_shard_commit(w->shard);
        w->shard = NULL;
    }
    sr_metric_abort(w);
    return st;
}

void sr_metric_abort(sr_metric_writer *w) {
    if (w == NULL) return;
    sr_shard_abort(w->shard);
    sr_ranking_free(w->ranking);
    sr_free(w);
}

/* metric.h - a metric: one number for each sequence of a data set, and their order by it.
 *
 * A metric file is a .sqr file with `kind = metric`:
 *
 *     value   i32, i64 or f64   by uid
 *     order   u32               uids by ascending value, ties by uid
 * or, for a metric that is accumulated over all sequences (such as the occurrences of each token),
 *     total   i64 or f64        by index
 *
 * Its metadata identify what was measured: the digests of the data set and of the vocabulary, and
 * the choice of examples (sr_metric_subject).  Others are rejected.  docs/reference/formats.md has
 * the details.
 *
 * Uids are those of the examples of one epoch (examples.h).  Memory of an opened metric: its cache
 * of blocks.
 */
#pragma once

#include <stdbool.h>

#include "core/data/examples.h"
#include "core/data/shard.h"

SR_BEGIN_C

enum { SR_METRIC_SUBJECT = 256 };

typedef struct sr_metric {
    sr_shard *shard;                  /* NULL: in memory */
    const sr_column *column, *sorted; /* of values or totals; of the order, NULL: accumulated */
    double *value;                    /* (count) in memory */
    uint32_t *uid;                    /* (count) in memory, in order */
    int64_t count;                    /* sequences, or totals */
    bool whole;                       /* all values are integers */
    bool accumulated;
} sr_metric;

/* ---- reading ---- */

/* Opens a metric file.  Errors: those of sr_shard_open(); SR_EDATA: not a metric. */
sr_status sr_metric_open(sr_metric **out, const char *path);

/* A metric in memory, copied from `values`.  SR_EINVAL for NaN, or for no values. */
sr_status sr_metric_of(sr_metric **out, const double *values, int64_t count);
void sr_metric_close(sr_metric *m); /* may be NULL */

const char *sr_metric_name(const sr_metric *m); /* "metric" in memory */

/* Rejects a metric of another data set, another vocabulary or other examples: SR_EDATA names the
 * difference, and the command that makes the right one.  Metrics in memory are checked for their
 * number only.
 *
 *   opts      of the loader; NULL: of any
 *   examples  their number, or -1: any */
sr_status sr_metric_check(const sr_metric *m, const sr_dataset *d, const sr_examples_opts *opts,
                          int64_t examples);

/* Values (totals) first .. first + count - 1; thread-safe.  Integers beyond 2^53 are rounded. */
sr_status sr_metric_values(double *out, const sr_metric *m, int64_t first, int64_t count);

/* Uids first .. first + count - 1 of the order; thread-safe.
 * SR_EINVAL for an accumulated metric; SR_EDATA for a uid out of range. */
sr_status sr_metric_order(uint32_t *out, const sr_metric *m, int64_t first, int64_t count);

/* The value of the sequence at position `i` of the order. */
sr_status sr_metric_at(double *out, const sr_metric *m, int64_t i);

/* How many sequences have a value of at most `value`; they are the first ones of the order.
 * Cost: log2(count) reads of a block. */
sr_status sr_metric_upto(int64_t *out, const sr_metric *m, double value);

/* ---- what was measured ---- */

/* Describes the examples that a loader with these options draws, in one line: equal for options
 * whose examples have the same uids. */
void sr_metric_subject(char out[SR_METRIC_SUBJECT], const sr_dataset *d,
                       const sr_examples_opts *opts);

/* The arguments that make `seqrun analyze DATA --metric NAME` measure these examples. */
void sr_metric_arguments(char out[SR_METRIC_SUBJECT], const sr_dataset *d,
                         const sr_examples_opts *opts);

/* ---- writing ---- */

typedef struct sr_metric_about {
    const char *name; /* letters, digits, _ - . */
    const sr_dataset *d;
    const sr_examples_opts *examples;
    const char *options; /* of the metric itself, in one line; "" for none */
    sr_column_type type; /* SR_COLUMN_I32, _I64 or _F64, as narrow as the values allow */
    bool accumulated;
} sr_metric_about;

typedef struct sr_metric_writer sr_metric_writer;

/* Begins a file that appears at `path` when it is committed, durably.  Values are appended by uid
 * and must be exact in the type. */
sr_status sr_metric_create(sr_metric_writer **out, const char *path, const sr_metric_about *about);
sr_status sr_metric_append(sr_metric_writer *w, const double *values, int64_t count);

/* Orders the sequences and moves the file to its path.  Frees the writer, also on failure. */
sr_status sr_metric_commit(sr_metric_writer *w);
void sr_metric_abort(sr_metric_writer *w); /* removes the file; may be NULL */

SR_END_C

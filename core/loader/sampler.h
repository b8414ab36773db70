/* sampler.h - which examples metrics have unlocked, and the draws of an update from them.
 *
 * A metric orders all examples; a prefix of that order is unlocked.  With several metrics, an
 * example is unlocked once every metric has it in its prefix.  The unlocked examples, by ascending
 * uid, are a function of the prefixes alone: a sampler reaches any update without replay.
 *
 * Update t takes n of the K unlocked examples: with u = K / n, positions (t % u) n and following of
 * a keyed permutation of K, one for every u updates (t / u).  Every unlocked example has the same
 * chance, and none comes twice in u updates while K stays the same.
 */
#pragma once

#include "core/loader/epoch.h"
#include "core/data/metric.h"

SR_BEGIN_C

enum { SR_SAMPLER_METRICS = 16 };

typedef struct sr_sampler_metric {
    const sr_metric *metric; /* borrowed; NULL: a keyed random order */
    bool reverse;            /* unlocks the highest values first */
} sr_sampler_metric;

typedef struct sr_sampler sr_sampler;

/* A sampler that has nothing unlocked, or all if there are no metrics.
 *
 * Errors: SR_EINVAL  a metric has another number of sequences, or too many metrics; SR_ENOMEM
 * Memory: 1.2 bytes an example. */
sr_status sr_sampler_new(sr_sampler **out, sr_epoch *e, const sr_sampler_metric *metric,
                         int metrics);
void sr_sampler_free(sr_sampler *s); /* may be NULL */

/* Unlocks the first prefix[m] examples of each metric, more or fewer than before.  On failure
 * nothing is unlocked.
 *
 * Errors: SR_EINVAL  a prefix out of range; those of sr_metric_order()
 * Cost:   about 20 ns for every example by which a prefix changes. */
sr_status sr_sampler_unlock(sr_sampler *s, const int64_t *prefix);

int64_t sr_sampler_examples(const sr_sampler *s);
int64_t sr_sampler_unlocked(const sr_sampler *s); /* K */

/* Tokens of all unlocked examples when they are cut to `limit` (0: not at all), or into pieces of
 * at most `limit` tokens. */
int64_t sr_sampler_tokens(const sr_sampler *s, int32_t limit, bool pieces);

/* How many updates from `update` on draw n each without repeating an example: at least 1 if
 * n <= K, else 0. */
int64_t sr_sampler_run(const sr_sampler *s, int64_t update, int64_t n);

/* The draws of update .. update + updates - 1, n each, updates <= sr_sampler_run().
 *
 *   uid  (updates n)
 *
 * Cost: 0.3 us a draw. */
void sr_sampler_draw(uint32_t *uid, const sr_sampler *s, int64_t update, int64_t n,
                     int64_t updates);

SR_END_C

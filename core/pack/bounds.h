/* bounds.h - lower bounds on the number of packs, from one pass over the histogram.
 *
 * For the bound of the linear program, see the solver `optimal` and certificate.h.
 */
#pragma once

#include "core/pack/plan.h"

SR_BEGIN_C

/* ceil(tokens / capacity). */
int64_t sr_bound_tokens(const sr_histogram *h);

/* A sequence of length l shares its pack with at most (capacity - l) / s others, where s is the
 * shortest length; so it needs 1 / min(max_seqs, that + 1) of a pack.  The sum of these shares,
 * rounded up: at least sequences / max_seqs.  0 if max_seqs is 0. */
int64_t sr_bound_count(const sr_histogram *h, int32_t max_seqs);

int32_t sr_bound_shortest(const sr_histogram *h); /* the capacity if there are no sequences */

/* The most sequences of a pack with one of this length, itself included; max_seqs > 0. */
static inline int32_t sr_bound_mates(int32_t length, int32_t capacity, int32_t shortest,
                                     int32_t max_seqs) {
    int32_t most = 1 + (capacity - length) / shortest;
    return most < max_seqs ? most : max_seqs;
}

/* Martello and Toth 1990, L2: the largest over a <= L / 2 of
 *     #(l > L - a)  +  #(L / 2 < l <= L - a)  +  max(0, ceil((small - room) / L))
 * where L is the capacity, `small` the tokens in a <= l <= L / 2, `room` the free space of the
 * second class.  O(L). */
int64_t sr_bound_l2(const sr_histogram *h);

/* L2 as prices: no feasible pattern weighs more than L, and `cut` is the a whose weights have
 * the largest total over counts[1..L].  O(L). */
int32_t sr_bound_cut(const int64_t *counts, int32_t capacity);
static inline int32_t sr_bound_weight(int32_t length, int32_t capacity, int32_t cut) {
    return length > capacity - cut ? capacity : length < cut ? 0 : length;
}

/* The strongest of the three; on ties, the simplest kind. */
sr_bound sr_bound_cheap(const sr_histogram *h, int32_t max_seqs);

SR_END_C

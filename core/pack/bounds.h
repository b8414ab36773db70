/* bounds.h - packs that any packing must use, found in one pass over the histogram.
 *
 * The bound of the linear program belongs to the solver `optimal`: see certificate.h.
 */
#ifndef SR_PACK_BOUNDS_H
#define SR_PACK_BOUNDS_H

#include "core/pack/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ceil(tokens / capacity); ceil(sequences / max_seqs), 0 when max_seqs is 0. */
int64_t sr_bound_tokens(const sr_histogram *h);
int64_t sr_bound_count(const sr_histogram *h, int32_t max_seqs);

/* Martello and Toth 1990, L2: the largest over a <= capacity / 2 of
 *     #(l > capacity - a)  +  #(capacity / 2 < l <= capacity - a)
 *     +  max(0, ceil((tokens in a <= l <= capacity / 2  -  room beside the second class) /
 * capacity)) O(capacity). */
int64_t sr_bound_l2(const sr_histogram *h);

/* The strongest of the three; the simplest kind among equals. */
sr_bound sr_bound_cheap(const sr_histogram *h, int32_t max_seqs);

#ifdef __cplusplus
}
#endif
#endif

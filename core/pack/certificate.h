/* certificate.h - a proof of a lower bound on packs, checked in integer arithmetic.
 *
 * Give every length an integer weight >= 0.  If no pattern that fits a pack weighs more than V,
 * then packing S = sum(count * weight) takes at least ceil(S / V) packs.  The check is one exact
 * knapsack and one sum, and relies neither on the solver nor on floating point.
 *
 * The file: a line of tab-separated names and numbers
 *     # capacity L max_seqs_per_pack K max_weight_of_any_pack V total_weight S lower_bound B
 * (K is `max` if there is no limit), then `length<TAB>weight` for each length in use.
 */
#pragma once

#include "core/pack/plan.h"

SR_BEGIN_C

typedef struct sr_certificate {
    int32_t capacity, max_seqs; /* 0: no limit */
    int64_t *weight;            /* by length 0..capacity; owned */
    int64_t heaviest;           /* V */
    int64_t total;              /* S */
    int64_t bound;              /* ceil(S / V), 0 for an empty histogram */
} sr_certificate;

/* Rounds prices (by length, the best pattern about 1) to weights, and computes V, S and the bound.
 */
sr_status sr_certificate_make(sr_certificate *out, const double *value, const sr_histogram *h,
                              int32_t max_seqs);
/* The same from weights by length, whose total over the histogram is below 2^63. */
sr_status sr_certificate_of(sr_certificate *out, const int64_t *weight, const sr_histogram *h,
                            int32_t max_seqs);
void sr_certificate_free(sr_certificate *c);

/* Verifies the proof for these lengths; SR_EDATA names which of V, S, bound is wrong.  V is
 * computed by a simple exact knapsack over (items, space) that shares no code with the solver:
 * O(max_seqs * lengths * capacity). */
sr_status sr_certificate_check(const sr_certificate *c, const sr_histogram *h);

sr_status sr_certificate_save(const sr_certificate *c, const sr_histogram *h, const char *path);
sr_status sr_certificate_parse(sr_certificate *out, const void *bytes, size_t size,
                               const char *name); /* SR_EDATA names the line */
sr_status sr_certificate_load(sr_certificate *out, const char *path);

SR_END_C

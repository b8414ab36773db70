/* instances.h - which sequence takes which slot: any pack of any epoch, at once.
 *
 * A plan says only how many packs hold which lengths.  An sr_packing deals the sequences of an
 * example table out to them.  Pack i of epoch e is a pure function of (seed, e, i): the order of
 * packs is a keyed permutation of the epoch, and so is, for each length, the order in which its
 * sequences fill the plan's slots.  So partners change every epoch without a new plan, every
 * sequence comes exactly once an epoch, nothing is replayed after a resume, and machine, threads
 * and ranks do not matter.
 *
 * Permutations: core/base/permute.h, with purpose pack order, or partners and the length.
 */
#ifndef SR_PACK_INSTANCES_H
#define SR_PACK_INSTANCES_H

#include "core/pack/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_packing sr_packing;

/* Binds a plan to the example table whose lengths it was made from.
 *
 *   out      owned by the caller, freed by sr_packing_free(); NULL on failure
 *   plan     copied as far as needed: may be freed at once
 *   lengths  read here only: may be freed at once.  Lengths above the plan's capacity are taken as
 *            the capacity when the plan truncated (plan->histogram.lost > 0); a plan over pieces
 *            (SR_LONG_SPLIT) wants the lengths of the pieces, see sr_lengths_split()
 *
 * Errors: SR_EDATA   the lengths are not those of the plan's histogram, or there are 2^32 - 1
 *                    sequences or more
 * Memory: 4 bytes a sequence, and the plan.
 */
sr_status sr_packing_new(sr_packing **out, const sr_plan *plan, const sr_lengths *lengths,
                         uint64_t seed);
void sr_packing_free(sr_packing *packing); /* NULL is allowed */

int64_t sr_packing_packs(const sr_packing *packing);   /* packs in every epoch */
int32_t sr_packing_deepest(const sr_packing *packing); /* room that `uids` below must have */

/* uids[0..*n) = the sequences of pack i of an epoch, lengths falling.  Slots that a rounded plan
 * leaves empty are skipped, so *n may be less than the pattern has, even 0.
 *
 *   i  0 <= i < sr_packing_packs(), or SR_EINVAL
 *
 * Touches nothing but its outputs: any number of threads may call it on one packing.
 * Cost: O(log patterns + *n), about 60 ns a sequence; no allocation. */
sr_status sr_packing_at(const sr_packing *packing, uint32_t epoch, int64_t i, uint32_t *uids,
                        int32_t *n);

/* The same index as sr_packing_at would use for the pattern: which pattern of the plan pack i of
 * the epoch follows (0-based), for drawings and statistics. */
int64_t sr_packing_pattern(const sr_packing *packing, uint32_t epoch, int64_t i);

#ifdef __cplusplus
}
#endif
#endif

/* instances.h - assigns sequences to slots: random access to any pack of any epoch.
 *
 * A plan has only the number of packs with given lengths.  An sr_packing assigns sequences to
 * them.  Pack i of epoch e is a pure function of (seed, e, i): the order of packs is a keyed
 * permutation of the epoch, and so is, for each length, the order in which its sequences fill the
 * slots of the plan.  So sequences are regrouped every epoch without a new plan, every sequence
 * occurs exactly once per epoch, a resume replays nothing, and machine, threads and ranks do not
 * matter.
 *
 * Permutations: core/base/permute.h; the purpose is pack order, or partners with the length.
 */
#pragma once

#include "core/pack/plan.h"

SR_BEGIN_C

typedef struct sr_packing sr_packing;

/* Binds a plan to sequences with the lengths of the plan.
 *
 *   out      owned by the caller, freed by sr_packing_free(); NULL on failure
 *   plan     copied as needed: may be freed at once
 *   lengths  used only here: may be freed at once.  Lengths above the plan's capacity count as the
 *            capacity if the plan truncates (plan->histogram.lost > 0); a plan over pieces
 *            (SR_LONG_SPLIT) requires the lengths of the pieces, see sr_lengths_split()
 *
 * Errors: SR_EDATA   the lengths are not those of the plan's histogram, or there are 2^32 - 1
 *                    sequences or more
 * Memory: 4 bytes per sequence, and the plan.
 */
sr_status sr_packing_new(sr_packing **out, const sr_plan *plan, const sr_lengths *lengths,
                         uint64_t seed);
void sr_packing_free(sr_packing *packing); /* may be NULL */

int64_t sr_packing_packs(const sr_packing *packing);   /* packs per epoch */
int32_t sr_packing_deepest(const sr_packing *packing); /* required size of `uids` below */

/* uids[0..*n) = the sequences of pack i of an epoch, by descending length.  Slots that a rounded
 * plan leaves empty are skipped, so *n may be smaller than the pattern, even 0.
 *
 *   i  0 <= i < sr_packing_packs(), or SR_EINVAL
 *
 * Thread-safe: several threads may use one packing.
 * Cost: O(log patterns + *n), about 60 ns per sequence; no allocation. */
sr_status sr_packing_at(const sr_packing *packing, uint32_t epoch, int64_t i, uint32_t *uids,
                        int32_t *n);

/* The index of the plan's pattern (from 0) of pack i of an epoch, for drawings and statistics. */
int64_t sr_packing_pattern(const sr_packing *packing, uint32_t epoch, int64_t i);

SR_END_C

/* folds.h - examples in several folds of nearly one size, for cross-validation. */
#pragma once

#include "core/data/dataset.h"

SR_BEGIN_C

/* inside[i] = whether unit i belongs to fold `fold` of 0 .. folds - 1.
 *
 * Equal units, whose tokens are the same, share a fold; it does not depend on the order of the
 * file. Sizes differ by no more than the units of a group of equal ones.  Memory: 32 bytes per
 * unit. */
sr_status sr_folds_mark(bool *inside, const sr_dataset *d, int64_t folds, int64_t fold,
                        uint64_t seed);

SR_END_C

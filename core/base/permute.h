/* permute.h - keyed permutations of 0..n-1, any element at once.
 *
 * A 4-round Feistel network over two halves a x b >= n, a and b near sqrt(n), whose round function
 * is Philox; results >= n are permuted again (rare: a b exceeds n by less than a).  Counter: row =
 * round, uid = other half, layer|head = `variant`; see core/base/rng.h.
 */
#pragma once

#include "core/base/extern.h"
#include "core/base/rng.h"

SR_BEGIN_C

/* A permutation of 0..n-1 works on pairs (x < a, y < b), a * b >= n. */
typedef struct sr_domain {
    uint32_t n, a, b;
} sr_domain;

sr_domain sr_domain_of(uint32_t n);

/* Where i < n goes.  Every (seed, purpose, variant, epoch) is a permutation of its own. */
uint32_t sr_permute(const sr_domain *d, uint32_t i, uint64_t seed, sr_purpose purpose,
                    uint32_t variant, uint32_t epoch);

SR_END_C

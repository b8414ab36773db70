#include "core/base/permute.h"

#include <math.h>

sr_domain sr_domain_of(uint32_t n) {
    uint32_t a = (uint32_t)sqrt((double)n);
    while ((uint64_t)a * a < n) a++;
    if (a == 0) a = 1;
    return (sr_domain){n, a, n / a + (n % a != 0)};
}

/* Uniform in [0, n): the round function of the network. */
static uint32_t draw(uint64_t seed, uint32_t round, uint32_t half, sr_purpose purpose,
                     uint32_t variant, uint32_t epoch, uint32_t n) {
    sr_u32x4 c = sr_counter(round, 0, half, purpose, variant >> 12, variant, epoch);
    return sr_below(sr_philox(c, seed, SR_ROUNDS_DATA).w[0], n);
}

static uint32_t add_below(uint32_t a, uint32_t b, uint32_t n) {
    uint64_t sum = (uint64_t)a + b;
    return (uint32_t)(sum >= n ? sum - n : sum);
}

uint32_t sr_permute(const sr_domain *d, uint32_t i, uint64_t seed, sr_purpose purpose,
                    uint32_t variant, uint32_t epoch) {
    if (d->n < 2) return i;
    do { /* cycle walking: a permutation of a * b things, restricted to those below n */
        uint32_t x = i % d->a, y = i / d->a;
        for (uint32_t round = 0; round < 4; round += 2) {
            x = add_below(x, draw(seed, round, y, purpose, variant, epoch, d->a), d->a);
            y = add_below(y, draw(seed, round + 1, x, purpose, variant, epoch, d->b), d->b);
        }
        i = x + y * d->a;
    } while (i >= d->n);
    return i;
}

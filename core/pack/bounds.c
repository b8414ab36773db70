#include "core/pack/bounds.h"

static int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

int64_t sr_bound_tokens(const sr_histogram *h) {
    return ceil_div(h->tokens, h->capacity);
}

int32_t sr_bound_shortest(const sr_histogram *h) {
    int32_t l = 1;
    while (l < h->capacity && h->count[l] == 0) l++;
    return l;
}

/* The shares are summed by number of sequences, and rounded down at 2^-32 of a pack. */
int64_t sr_bound_count(const sr_histogram *h, int32_t max_seqs) {
    const int32_t L = h->capacity;
    __int128 packs = 0;
    if (max_seqs == 0) return 0;
    int32_t shortest = sr_bound_shortest(h), l = L;
    for (int32_t most = 1; most <= max_seqs && l > 0; most++) {
        __int128 n = 0;
        for (; l > 0 && (most == max_seqs || 1 + (L - l) / shortest <= most); l--) n += h->count[l];
        packs += (n << 32) / most;
    }
    return (int64_t)((packs + 0xFFFFFFFF) >> 32);
}

/* As a increases, lengths leave the small class at its lower end, and move from the class of those
 * that may share (half < l <= capacity - a) to the class that cannot. */
int64_t sr_bound_l2(const sr_histogram *h) {
    const int32_t L = h->capacity, half = L / 2;
    int64_t alone = 0, pairs = 0, pair_tokens = 0, small_tokens = 0, best = 0;
    for (int32_t l = 1; l <= L; l++) {
        if (l <= half)
            small_tokens += l * h->count[l];
        else
            pairs += h->count[l], pair_tokens += l * h->count[l];
    }
    for (int32_t a = 0; a <= half; a++) {
        if (a > 0) {
            if (L - a + 1 > half) {
                int64_t n = h->count[L - a + 1];
                alone += n, pairs -= n, pair_tokens -= n * (L - a + 1);
            }
            small_tokens -= (int64_t)(a - 1) * h->count[a - 1];
        }
        int64_t room = pairs * L - pair_tokens, rest = small_tokens - room;
        int64_t bound = alone + pairs + (rest > 0 ? ceil_div(rest, L) : 0);
        if (bound > best) best = bound;
    }
    return best;
}

int32_t sr_bound_cut(const int64_t *counts, int32_t capacity) {
    int64_t gain = 0, most = 0; /* over the plain tokens */
    int32_t best = 0;
    for (int32_t a = 1; a <= capacity / 2; a++) {
        gain += (a - 1) * (counts[capacity - a + 1] - counts[a - 1]);
        if (gain > most) most = gain, best = a;
    }
    return best;
}

sr_bound sr_bound_cheap(const sr_histogram *h, int32_t max_seqs) {
    sr_bound best = {sr_bound_tokens(h), SR_BOUND_TOKENS};
    int64_t count = sr_bound_count(h, max_seqs), l2 = sr_bound_l2(h);
    if (count > best.packs) best = (sr_bound){count, SR_BOUND_COUNT};
    if (l2 > best.packs) best = (sr_bound){l2, SR_BOUND_L2};
    return best;
}

/* stock.h - the sequences that are not yet packed, by length.
 *
 * Internal to core/pack.  A two-level bit set of the lengths in stock finds neighbours at once.
 */
#pragma once

#include "core/pack/plan.h"

SR_BEGIN_C

typedef struct sr_stock {
    int32_t capacity;
    int64_t *left; /* by length 0..capacity */
    int64_t sequences, tokens;
    uint64_t *bit, *summary; /* lengths in stock; words of `bit` that are not 0 */
} sr_stock;

sr_status sr_stock_new(sr_stock *s, const int64_t *counts, int32_t capacity);
void sr_stock_free(sr_stock *s);

/* Takes n sequences of one length, or puts -n back. */
void sr_stock_take(sr_stock *s, int32_t length, int64_t n);

/* The longest length in stock <= length, or the shortest one >= it; 0 if there is none. */
int32_t sr_stock_below(const sr_stock *s, int32_t length);
int32_t sr_stock_above(const sr_stock *s, int32_t length);

/* Takes up to `most` packs more like one that was taken, whose *n parts are merged by length.
 * Returns how many there are. */
int64_t sr_stock_repeat(sr_stock *s, sr_plan_part *parts, size_t *n, int64_t most);

SR_END_C

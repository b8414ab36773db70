#include "core/pack/stock.h"

#include <string.h>

#include "core/base/mem.h"

enum { SUMMARY_WORDS = (SR_MAX_LENGTH + 1) / 64 / 64 };

sr_status sr_stock_new(sr_stock *s, const int64_t *counts, int32_t capacity) {
    memset(s, 0, sizeof *s);
    s->capacity = capacity;
    size_t spaces = (size_t)capacity + 1;
    sr_status st;
    SR_GO(fail, st, sr_new(&s->left, spaces));
    SR_GO(fail, st, sr_new(&s->bit, spaces / 64 + 1));
    SR_GO(fail, st, sr_new(&s->summary, SUMMARY_WORDS + 1));
    for (int32_t l = 1; l <= capacity; l++)
        if (counts[l] > 0) sr_stock_take(s, l, -counts[l]);
    return SR_OK;
fail:
    sr_stock_free(s);
    return st;
}

void sr_stock_free(sr_stock *s) {
    sr_free(s->left);
    sr_free(s->bit);
    sr_free(s->summary);
    memset(s, 0, sizeof *s);
}

void sr_stock_take(sr_stock *s, int32_t length, int64_t n) {
    s->left[length] -= n;
    s->sequences -= n;
    s->tokens -= n * length;
    uint64_t mask = (uint64_t)1 << (length & 63), *word = &s->bit[length >> 6];
    uint64_t some = (uint64_t)1 << (length >> 6 & 63);
    *word = s->left[length] > 0 ? *word | mask : *word & ~mask;
    uint64_t *top = &s->summary[length >> 12];
    *top = *word != 0 ? *top | some : *top & ~some;
}

int32_t sr_stock_above(const sr_stock *s, int32_t length) {
    if (length > s->capacity) return 0;
    int32_t word = length >> 6;
    uint64_t here = s->bit[word] & ~(uint64_t)0 << (length & 63);
    if (here != 0) return (word << 6) + __builtin_ctzll(here);
    for (int32_t w = word + 1, t = w >> 6; t <= SUMMARY_WORDS; w = ++t << 6) {
        uint64_t some = s->summary[t] & ~(uint64_t)0 << (w & 63);
        if (some == 0) continue;
        word = (t << 6) + __builtin_ctzll(some);
        return (word << 6) + __builtin_ctzll(s->bit[word]);
    }
    return 0;
}

int32_t sr_stock_below(const sr_stock *s, int32_t length) {
    if (length < 1) return 0;
    int32_t word = length >> 6;
    uint64_t here = s->bit[word] & ~(uint64_t)0 >> (63 - (length & 63));
    if (here != 0) return (word << 6) + 63 - __builtin_clzll(here);
    for (int32_t w = word - 1, t = w >> 6; w >= 0; w = (t-- << 6) - 1) {
        uint64_t some = s->summary[t] & ~(uint64_t)0 >> (63 - (w & 63));
        if (some == 0) continue;
        word = (t << 6) + 63 - __builtin_clzll(some);
        return (word << 6) + 63 - __builtin_clzll(s->bit[word]);
    }
    return 0;
}

static size_t merge_parts(sr_plan_part *parts, size_t n) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < m && parts[at].length != parts[i].length) at++;
        if (at < m)
            parts[at].copies += parts[i].copies;
        else
            parts[m++] = parts[i];
    }
    return m;
}

int64_t sr_stock_repeat(sr_stock *s, sr_plan_part *parts, size_t *n, int64_t most) {
    *n = merge_parts(parts, *n);
    for (size_t k = 0; k < *n; k++) {
        int64_t there = s->left[parts[k].length] / parts[k].copies;
        if (there < most) most = there;
    }
    for (size_t k = 0; k < *n; k++) sr_stock_take(s, parts[k].length, most * parts[k].copies);
    return most;
}

#include "core/data/folds.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/mem.h"
#include "core/data/scan.h"

typedef struct item {
    uint64_t key; /* of the shuffled order */
    sr_unit_hash hash;
    int64_t unit;
} item;

static int compare(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int by_key(const void *a, const void *b) {
    const item *x = a, *y = b;
    int order = compare(x->key, y->key);
    if (order == 0) order = compare(x->hash.high, y->hash.high);
    if (order == 0) order = compare(x->hash.low, y->hash.low);
    return order != 0 ? order : compare((uint64_t)x->unit, (uint64_t)y->unit);
}

static bool equal(const item *a, const item *b) {
    return a->hash.high == b->hash.high && a->hash.low == b->hash.low;
}

/* The fold of a group of equal units is that of its first place in the shuffled order. */
static void mark(bool *inside, const item *list, int64_t n, int64_t folds, int64_t fold) {
    int64_t first = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && !equal(&list[i], &list[i - 1])) first = i;
        inside[list[i].unit] = first * folds / n == fold;
    }
}

sr_status sr_folds_mark(bool *inside, const sr_dataset *d, int64_t folds, int64_t fold,
                        uint64_t seed) {
    sr_unit_hash *hashes = NULL;
    item *list = NULL;
    sr_status st = sr_new(&hashes, d->units);
    if (st == SR_OK) st = sr_new(&list, d->units);
    if (st == SR_OK) st = sr_scan_hashes(hashes, d);
    if (st == SR_OK) {
        for (int64_t i = 0; i < d->units; i++)
            list[i] =
                (item){XXH3_64bits_withSeed(&hashes[i], sizeof hashes[i], seed), hashes[i], i};
        qsort(list, (size_t)d->units, sizeof *list, by_key);
        mark(inside, list, d->units, folds, fold);
    }
    sr_free(list);
    sr_free(hashes);
    return st;
}

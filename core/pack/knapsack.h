/* knapsack.h - the most valuable pattern that fits a pack: pricing for the linear program.
 *
 * For the inside of core/pack.  f_n[s] is the largest value of at most n items of total length at
 * most s.  Without a limit on depth one pass over the items finds it; items worth no more than
 * shorter ones together are skipped.  With a limit K, f_(K-1) is built by doubling, f_(a+b) being
 * the max-plus product of f_a and f_b, and the best pattern that contains item i is worth
 * value[i] + f_(K-1)[capacity - length[i]]: one table yields a pattern for every item.
 *
 * Values that are whole numbers below 2^53 give exact results.
 *
 * A limit that hardly ever binds can cost a thousand times the work of none.  A relaxed knapsack
 * then counts without it: values are upper bounds, and patterns are cut short.
 */
#ifndef SR_PACK_KNAPSACK_H
#define SR_PACK_KNAPSACK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_KNAPSACK_TABLES = 40 };

typedef struct sr_knapsack_table {
    int32_t items;       /* n of f_n; 0: any number */
    int32_t left, right; /* the tables it is the product of; -1 for the first */
    double *f;           /* f[0..capacity] */
} sr_knapsack_table;

typedef struct sr_knapsack {
    int32_t capacity, rows;
    const int32_t *length; /* falling; borrowed */
    const double *value;   /* by row, from the last fill; borrowed */
    int32_t max_items;     /* 0 when depth does not bind */
    int32_t keep;          /* items that a pattern of a relaxed one keeps; 0: it is exact */
    int32_t tables;
    sr_knapsack_table table[SR_KNAPSACK_TABLES];
    double work;   /* about how many additions a fill takes */
    int32_t *step; /* scratch: where a table rises */
    double *memory;
} sr_knapsack;

/* max_seqs 0: any number. */
sr_status sr_knapsack_new(sr_knapsack *k, int32_t capacity, int32_t max_seqs, const int32_t *length,
                          int32_t rows);
/* Relaxed where that saves much, for packs that hold `average` sequences or so. */
sr_status sr_knapsack_relaxed(sr_knapsack *k, int32_t capacity, int32_t max_seqs,
                              const int32_t *length, int32_t rows, double average);
void sr_knapsack_free(sr_knapsack *k);

/* Fills the tables for these values (>= 0).  Returns the value of the best pattern. */
double sr_knapsack_fill(sr_knapsack *k, const double *value);

/* The value of the best pattern that contains `row`, and its rows (room for max_items or
 * capacity); *n items. */
double sr_knapsack_with(const sr_knapsack *k, int32_t row);
void sr_knapsack_pattern(const sr_knapsack *k, int32_t row, int32_t *items, int32_t *n);

#ifdef __cplusplus
}
#endif
#endif

/* knapsack.h - the most valuable pattern that fits a pack, for pricing in the linear program.
 *
 * Internal to core/pack.  f_n[s] is the largest value of at most n items of total length at most s.
 * Without a limit of depth it takes one pass over the items; items worth no more than shorter ones
 * together are skipped.  With a limit K, f_(K-1) is built by doubling, f_(a+b) being the max-plus
 * product of f_a and f_b, and the best pattern that contains item i is worth
 * value[i] + f_(K-1)[capacity - length[i]]: one table yields a pattern for every item.
 *
 * Results are exact for integer values below 2^53.
 *
 * A limit that hardly ever binds can cost a thousand times the work of no limit.  A relaxed
 * knapsack then ignores it: values are upper bounds, and patterns are truncated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum { SR_KNAPSACK_TABLES = 40 };

typedef struct sr_knapsack_table {
    int32_t items;       /* n of f_n; 0: any number */
    int32_t left, right; /* the factors of this product; -1 for the first */
    double *f;           /* f[0..capacity] */
} sr_knapsack_table;

typedef struct sr_knapsack {
    int32_t capacity, rows;
    const int32_t *length; /* descending; borrowed */
    const double *value;   /* by row, from the last fill; borrowed */
    int32_t max_items;     /* 0 if depth does not bind */
    int32_t keep;          /* maximum items of a pattern of a relaxed one; 0: exact */
    int32_t tables;
    sr_knapsack_table table[SR_KNAPSACK_TABLES];
    double work;   /* approximate additions per fill */
    int32_t *step; /* scratch: where a table increases */
    double *memory;
} sr_knapsack;

/* max_seqs 0: no limit. */
sr_status sr_knapsack_new(sr_knapsack *k, int32_t capacity, int32_t max_seqs, const int32_t *length,
                          int32_t rows);
/* The same, relaxed if that saves much work, for packs of about `average` sequences. */
sr_status sr_knapsack_relaxed(sr_knapsack *k, int32_t capacity, int32_t max_seqs,
                              const int32_t *length, int32_t rows, double average);
void sr_knapsack_free(sr_knapsack *k);

/* Computes the tables for these values (>= 0); returns the value of the best pattern. */
double sr_knapsack_fill(sr_knapsack *k, const double *value);

/* The value of the best pattern that contains `row`, and the rows of its *n items (room for
 * max_items or capacity). */
double sr_knapsack_with(const sr_knapsack *k, int32_t row);
void sr_knapsack_pattern(const sr_knapsack *k, int32_t row, int32_t *items, int32_t *n);

/* The weight of the heaviest pattern of the lengths 0..capacity, of which those with a count[] of 0
 * take no part (NULL: all do). */
sr_status sr_knapsack_heaviest(int64_t *heaviest, int32_t capacity, int32_t max_items,
                               const int64_t *weight, const int64_t *count);

SR_END_C

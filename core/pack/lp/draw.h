/* draw.h - samples patterns that fill a pack exactly, in proportion to the demand.
 *
 * Internal to core/pack.  With many different lengths, nearly every demand can be packed without
 * padding, from a huge number of full patterns.  Their prices hardly differ, so column generation
 * converges slowly.  Here every length has a weight, and the probability of a full pattern is the
 * product of the weights of its items; the weights are scaled until sampled patterns contain all
 * lengths in the proportions of the demand (the maximum entropy distribution; Darroch and Ratcliff
 * 1972).  Such patterns surround the demand: with a few times as many of them as there are lengths,
 * some mixture matches it.
 */
#pragma once

#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_draw {
    int32_t capacity, rows;
    int32_t depth;         /* maximum number of items in a pattern */
    const int32_t *length; /* descending; borrowed */
    const double *demand;  /* by row; borrowed */
    double *weight;        /* by row */
    double *ways;          /* [n][s]: the weight of all lists of at most n lengths with sum s */
} sr_draw;

/* For packs of about `average` sequences, at most max_seqs (0: no limit). */
sr_status sr_draw_new(sr_draw *d, const int32_t *length, const double *demand, int32_t rows,
                      int32_t capacity, int32_t max_seqs, double average);
void sr_draw_free(sr_draw *d);

/* The approximate number of additions in sr_draw_new(). */
double sr_draw_work(int32_t rows, int32_t capacity, int32_t max_seqs, double average);

/* A full pattern that contains `row`, a different one for each turn; `items` has room for a full
 * pack.  *n is 0 if there is none. */
void sr_draw_pattern(const sr_draw *d, int32_t row, uint32_t turn, int32_t *items, int32_t *n);

SR_END_C

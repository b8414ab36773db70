/* draw.h - patterns that fill a pack to its last token, drawn as often as the demand asks.
 *
 * For the inside of core/pack.  With many different lengths nearly every demand can be packed
 * without padding, from countless full patterns.  Prices hardly tell them apart, so that column
 * generation wanders for long.  Here every length has a weight, and a full pattern the product of
 * its members' weights for its chance; the weights are scaled until patterns drawn so hold all
 * lengths in the proportions of the demand (the distribution of most entropy; Darroch and Ratcliff
 * 1972).  Such patterns lie around the demand on all sides: of a few times as many of them as there
 * are lengths, some mixture meets it.
 */
#ifndef SR_PACK_DRAW_H
#define SR_PACK_DRAW_H

#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_draw {
    int32_t capacity, rows;
    int32_t depth;         /* most members of a pattern */
    const int32_t *length; /* falling; borrowed */
    const double *demand;  /* by row; borrowed */
    double *weight;        /* by row */
    double *ways;          /* [n][s]: the weight of all lists of at most n lengths with sum s */
} sr_draw;

/* For packs of about `average` sequences, at most max_seqs (0: any number). */
sr_status sr_draw_new(sr_draw *d, const int32_t *length, const double *demand, int32_t rows,
                      int32_t capacity, int32_t max_seqs, double average);
void sr_draw_free(sr_draw *d);

/* About how many additions sr_draw_new() takes. */
double sr_draw_work(int32_t rows, int32_t capacity, int32_t max_seqs, double average);

/* A full pattern that contains `row`, another one each turn; room for as many items as a pack
 * holds.  *n is 0 when there is none. */
void sr_draw_pattern(const sr_draw *d, int32_t row, uint32_t turn, int32_t *items, int32_t *n);

#ifdef __cplusplus
}
#endif
#endif

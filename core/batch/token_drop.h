/* token_drop.h - which tokens of each sequence a layer processes (random layerwise token dropping).
 *
 * A sequence of n tokens keeps max(forced, round(fraction n)) of them, at least one: the forced
 * ones, and of the others those whose draw, keyed by (seed, uid, layer, epoch, position), is
 * lowest.  The choice does not depend on the pack or on its other sequences.
 *
 * Source: Yao et al. 2022, arXiv:2211.11586 (random-LTD).
 */
#pragma once

#include "core/batch/layout.h"

SR_BEGIN_C

typedef struct sr_token_drop_opts {
    double fraction;  /* of each sequence, in (0, 1] */
    uint32_t layer;   /* below 4096 */
    bool first, last; /* keep the first (last) token of every sequence */
} sr_token_drop_opts;

/* Marks the rows that are kept, for sr_layout_shorten().
 *
 *   keep  (T) in: rows that must be kept are not 0; out: 1 for kept rows, 0 for others and slack
 *
 * Errors: SR_EINVAL  fraction or layer out of range
 *         SR_ENOMEM
 * Cost:   one Philox call for 4 tokens, and a selection in linear time.
 */
sr_status sr_token_drop_mark(uint8_t *keep, const sr_layout *layout,
                             const sr_token_drop_opts *opts);

/* The rows that each of `layers` layers keeps, from opts->layer on.  Their number depends on
 * lengths and forced rows only, so all these layers share one layout.
 *
 *   out     as of sr_layout_shorten(), with T rounded up to a multiple of `unit` by slack
 *   rows    (layers, tokens of *out) ascending; freed by sr_free()
 *   forced  (T) rows that every layer keeps are not 0; or NULL
 */
sr_status sr_token_drop_layers(sr_layout **out, int32_t **rows, const sr_layout *layout,
                               const uint8_t *forced, const sr_token_drop_opts *opts,
                               uint32_t layers, int64_t unit);

SR_END_C

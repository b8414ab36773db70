/* pairs.h - the draws behind examples.h: examples of one document.  For the inside of core/data. */
#ifndef SR_DATA_PAIRS_H
#define SR_DATA_PAIRS_H

#include "core/data/examples.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Examples of some documents, in order; all zero is an empty one, freed by sr_free(example). */
typedef struct sr_drawn {
    sr_example *example;
    size_t count, room;
    int64_t tokens, random_next, cut, lost;
} sr_drawn;

/* Appends an example of spans at a and b; sums are kept. */
sr_status sr_drawn_add(sr_drawn *out, uint64_t a, int64_t a_tokens, uint64_t b, int64_t b_tokens,
                       int flags);

/* Appends the examples of the part's document number `index`. */
sr_status sr_pairs_draw(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                        int64_t index);
sr_status sr_singles_draw(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                          int64_t index);

#ifdef __cplusplus
}
#endif
#endif

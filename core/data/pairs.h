/* pairs.h - draws the examples of one document.  Internal to core/data. */
#pragma once

#include "core/data/examples.h"

SR_BEGIN_C

/* Examples of some documents, in order; zero-initialised: empty; freed by sr_free(example). */
typedef struct sr_drawn {
    sr_example *example;
    size_t count, room;
    int64_t tokens, random_next, cut, lost;
} sr_drawn;

/* Appends an example with spans a and b of a data set, and updates the sums. */
sr_status sr_drawn_add(sr_drawn *out, const sr_dataset *d, uint64_t a, int64_t a_tokens, uint64_t b,
                       int64_t b_tokens, int flags);

/* Checks that the options suit the data set and the part is not empty, as sr_examples_build()
 * does. */
sr_status sr_examples_check(const sr_dataset *d, const sr_examples_opts *opts);

/* Appends the examples of unit `index` of the part: of a document, or of a fixed example. */
sr_status sr_examples_draw(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                           int64_t index);

/* The same for documents: pairs, and single sequences. */
sr_status sr_pairs_draw(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                        int64_t index);
sr_status sr_singles_draw(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                          int64_t index);

/* Whether the document `unit` draws a target length for each of its examples. */
bool sr_pairs_redraw(const sr_dataset *d, const sr_examples_opts *opts, uint32_t unit);

SR_END_C

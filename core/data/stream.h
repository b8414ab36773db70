/* stream.h - the examples of an epoch in parts, for passes over a data set in bounded memory.
 *
 * A part is the examples of adjacent units (documents or fixed examples), with some 64 Ki tokens;
 * it depends on the data set and the options only.  Parts in order give the examples of
 * sr_examples_build() in the order of their uids.
 */
#pragma once

#include "core/data/examples.h"
#include "core/data/pairs.h"

SR_BEGIN_C

enum { SR_STREAM_TOKENS = 64 << 10 };

typedef struct sr_stream {
    const sr_dataset *d;
    sr_examples_opts opts;
    int64_t *end; /* (parts) index after the last unit of each part */
    int64_t parts;
} sr_stream;

/* Divides the examples.  `d` must outlive the stream.  Errors: those of sr_examples_build(). */
sr_status sr_stream_open(sr_stream *s, const sr_dataset *d, const sr_examples_opts *opts);
void sr_stream_close(sr_stream *s); /* all zero is allowed */

/* The tokens of a part; zero-initialised, it is used again for other parts. */
typedef struct sr_stream_part {
    sr_drawn drawn;             /* the examples */
    int32_t *ids;               /* (count) tokens of the file from `first` on */
    uint64_t first, count, end; /* end: of the part's units */
    int32_t *b;                 /* of a B from elsewhere */
    size_t room, b_room;
} sr_stream_part;

/* One sequence without its frame. */
typedef struct sr_segments {
    const int32_t *a, *b;
    int32_t a_count, b_count; /* no B: 0 */
} sr_segments;

/* Draws the examples of a part and reads their tokens; any thread. */
sr_status sr_stream_read(sr_stream_part *w, const sr_stream *s, int64_t part);

/* The tokens of example i of the window, valid until the next call. */
sr_status sr_stream_tokens(sr_segments *out, sr_stream_part *w, const sr_stream *s, size_t i);
void sr_stream_part_close(sr_stream_part *w);

/* count[id] += occurrences in all examples, special tokens included; *sequences and *tokens are
 * their numbers.  Integer sums: the same on any number of threads.
 * SR_ESTOP if a stop was requested. */
sr_status sr_stream_counts(uint64_t *count, int64_t *sequences, int64_t *tokens, const sr_stream *s,
                           sr_threads *threads);

SR_END_C

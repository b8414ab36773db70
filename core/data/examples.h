/* examples.h - the examples of an epoch: the tokens of each sequence, by uid.
 *
 * From text, an example is a pair in its frame, [CLS] A [SEP] B [SEP] with BERT's tokenizer, drawn
 * as published for BERT: sentences of a document are collected up to the target length (max_len
 * without the frame, or with short_seq_prob a random shorter one for the document); A is a random
 * number of them; B is the rest or, half of the time (always if there is only one sentence),
 * sentences of another random document of its source from a random position, in which case the rest
 * is used again for the next example.  The longer segment loses tokens from either end at random
 * until both fit.  Without `nsp` an example is [CLS] A [SEP], A being whole sentences of one
 * document; every token is used once.
 *
 * A document of more than SR_EXAMPLES_LONG max_len tokens draws its target again for each example:
 * of few long documents, a target for each would make all examples of an epoch short, or none.
 *
 * Every draw is keyed by (seed, epoch, document), so the result does not depend on the order of
 * documents or the number of threads.  Fixed examples (SR_DATA_EXAMPLES) are the same in every
 * epoch.
 *
 * Source: Devlin et al. 2018, arXiv:1810.04805, and the program published with it.
 */
#pragma once

#include "core/base/thread.h"
#include "core/data/dataset.h"

SR_BEGIN_C

/* max_len; frames of more than 3 special tokens need as many more, see sr_examples_least() */
enum { SR_EXAMPLES_LEAST = 5, SR_EXAMPLES_MOST = 65535, SR_EXAMPLES_LONG = 8 };

/* What to do with a fixed example longer than max_len; drawn ones never are. */
typedef enum sr_too_long {
    SR_TOO_LONG_ERROR,
    SR_TOO_LONG_TRUNCATE, /* truncate the longer segment at its end, as Hugging Face's longest_first
                           */
    SR_TOO_LONG_SPLIT     /* split into pieces, each an example; single segments only */
} sr_too_long;

typedef struct sr_examples_opts {
    sr_data_part part;
    int32_t max_len;       /* tokens of an example, including its frame */
    bool nsp;              /* pairs; text only */
    double short_seq_prob; /* text only */
    bool by_document;      /* long documents, too, draw one target, as older versions did */
    sr_too_long too_long;  /* fixed examples only */
    uint64_t seed;
    uint32_t epoch;
} sr_examples_opts;

enum { SR_EXAMPLE_RANDOM = 1, SR_EXAMPLE_CUT = 2 };

/* 16 bytes: spans of the column `ids`.  Offsets have 40 bits. */
typedef struct sr_example {
    uint32_t a_low, b_low;
    uint16_t a_tokens, b_tokens; /* b_tokens 0: one segment */
    uint8_t a_high, b_high;
    unsigned flags : 4; /* SR_EXAMPLE_RANDOM: B does not follow A; _CUT: truncated */
    unsigned lead : 4, middle : 4, tail : 4; /* special tokens before A, before B, at the end */
} sr_example;

typedef struct sr_examples {
    sr_example *example; /* (count) by uid */
    uint32_t *unit;      /* (count) index of the fixed example; NULL for drawn ones */
    int64_t count, tokens;
    int64_t random_next; /* examples whose B is random */
    int64_t cut, lost;   /* truncated examples, and the tokens they lost */
    int64_t split;       /* fixed examples that were split */
    bool nsp;
    int32_t least; /* sr_examples_least() */
    sr_examples_opts opts;
} sr_examples;

/* Draws the examples of an epoch; if `threads` is NULL, only the caller's thread is used.
 *
 * Errors: SR_EINVAL  max_len outside SR_EXAMPLES_LEAST..SR_EXAMPLES_MOST, nsp of fixed examples
 *         SR_EDATA   the part is empty; an example is too long under SR_TOO_LONG_ERROR, or is a
 *                    pair under SR_TOO_LONG_SPLIT; 2^32 - 1 examples or more; 2^40 tokens or more
 *         SR_ENOMEM
 * Cost:   about 100 ns per example on one core; 16 bytes per example, twice that while building. */
sr_status sr_examples_build(sr_examples **out, const sr_dataset *d, const sr_examples_opts *opts,
                            sr_threads *threads);
void sr_examples_free(sr_examples *t); /* may be NULL */

/* How many tokens of the data set stand in at least one example.  SR_ENOMEM; takes a bit for each
 * token of the data set while it counts. */
sr_status sr_examples_distinct(int64_t *out, const sr_examples *t, const sr_dataset *d);

static inline uint64_t sr_example_a(const sr_example *e) {
    return (uint64_t)e->a_high << 32 | e->a_low;
}
static inline uint64_t sr_example_b(const sr_example *e) {
    return (uint64_t)e->b_high << 32 | e->b_low;
}

static inline int32_t sr_example_specials(const sr_example *e) {
    return (int32_t)(e->lead + e->middle + e->tail);
}
static inline int32_t sr_example_length(const sr_example *e) {
    return e->a_tokens + e->b_tokens + sr_example_specials(e);
}
/* The position of the first token of A and of B. */
static inline int32_t sr_example_a_at(const sr_example *e) {
    return (int32_t)e->lead;
}
static inline int32_t sr_example_b_at(const sr_example *e) {
    return (int32_t)(e->lead + e->a_tokens + e->middle);
}

/* The smallest max_len for examples of a data set: its longest frame, and a token of A and B. */
int32_t sr_examples_least(const sr_dataset *d);

/* The first tokens of an example that fit into `limit` (0: all; else at least
 * sr_examples_least()), with its frame: the longer segment loses tokens from its end. */
sr_example sr_example_cut(const sr_example *e, int32_t limit);

/* The number of pieces of at most `limit` tokens, each with its frame, that a single segment is cut
 * into, and one of them, from 1. */
int32_t sr_example_pieces(const sr_example *e, int32_t limit);
sr_example sr_example_piece(const sr_example *e, int32_t limit, int32_t piece);

/* The position of token `token` of the column `ids` in an example, from 0; -1 if it is not in it:
 * cut off, or in another piece. */
int32_t sr_example_place(const sr_example *e, uint64_t token);

/* Writes the sr_example_length() ids and types of an example in its frame.  Errors are those of
 * sr_dataset_ids(). */
sr_status sr_example_sequence(const sr_example *e, const sr_dataset *d, int32_t *ids,
                              int32_t *types);

SR_END_C

/* examples.h - the examples of an epoch: which tokens make sequence number uid.
 *
 * From text, an example is [CLS] A [SEP] B [SEP], drawn as published for BERT: sentences of a
 * document are gathered up to the target length (max_len - 3, or with short_seq_prob a random
 * shorter one for the document); A is a random number of them; B is the rest, or half of the time
 * (always when there is one sentence only) sentences of another random document from a random one
 * on, and then the rest is used again for the next example.  The longer segment loses tokens from
 * either end at random until both fit.  Without `nsp` an example is [CLS] A [SEP], A whole
 * sentences of one document; every token is used once.
 *
 * Every draw is keyed by (seed, epoch, document), so documents may be done in any order, on any
 * number of threads, with one result.  Given examples (SR_DATA_EXAMPLES) need no draw: they are
 * the same in every epoch.
 *
 * Source: Devlin et al. 2018, arXiv:1810.04805, and the program published with it.
 */
#ifndef SR_DATA_EXAMPLES_H
#define SR_DATA_EXAMPLES_H

#include "core/base/thread.h"
#include "core/data/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_EXAMPLES_LEAST = 5, SR_EXAMPLES_MOST = 65535 }; /* max_len */

/* What to do with a given example that is longer than max_len; drawn ones never are. */
typedef enum sr_too_long {
    SR_TOO_LONG_ERROR,
    SR_TOO_LONG_TRUNCATE, /* the longer segment loses tokens from its end */
    SR_TOO_LONG_SPLIT     /* pieces, each an example of its own; single segments only */
} sr_too_long;

typedef struct sr_examples_opts {
    sr_data_part part;
    int32_t max_len;       /* tokens of an example, [CLS] and [SEP] included */
    bool nsp;              /* pairs; text only */
    double short_seq_prob; /* text only */
    sr_too_long too_long;  /* given examples only */
    uint64_t seed;
    uint32_t epoch;
} sr_examples_opts;

enum { SR_EXAMPLE_RANDOM = 1, SR_EXAMPLE_CUT = 2 };

/* 16 bytes: spans of the column `ids`.  Offsets have 40 bits. */
typedef struct sr_example {
    uint32_t a_low, b_low;
    uint16_t a_tokens, b_tokens; /* b_tokens 0: one segment */
    uint8_t a_high, b_high;
    uint8_t flags; /* SR_EXAMPLE_RANDOM: B is not what follows A; _CUT: tokens were cut off */
    uint8_t spare;
} sr_example;

typedef struct sr_examples {
    sr_example *example; /* (count) by uid */
    uint32_t *unit;      /* (count) which given example each is (a piece of); drawn ones: NULL */
    int64_t count, tokens;
    int64_t random_next; /* examples whose B is from elsewhere */
    int64_t cut, lost;   /* examples that lost tokens to max_len, and how many tokens */
    int64_t split;       /* given examples that became pieces */
    bool nsp;
    sr_examples_opts opts;
} sr_examples;

/* Draws the examples of an epoch; a NULL `threads` is the caller's thread alone.
 *
 * Errors: SR_EINVAL  max_len outside SR_EXAMPLES_LEAST..SR_EXAMPLES_MOST, nsp of given examples
 *         SR_EDATA   the part is empty; an example is too long under SR_TOO_LONG_ERROR, or is a
 *                    pair under SR_TOO_LONG_SPLIT; 2^32 - 1 examples or more; 2^40 tokens or more
 *         SR_ENOMEM
 * Cost:   about 100 ns an example on one core; 16 bytes an example, twice that while building. */
sr_status sr_examples_build(sr_examples **out, const sr_dataset *d, const sr_examples_opts *opts,
                            sr_threads *threads);
void sr_examples_free(sr_examples *t); /* NULL is allowed */

static inline uint64_t sr_example_a(const sr_example *e) {
    return (uint64_t)e->a_high << 32 | e->a_low;
}
static inline uint64_t sr_example_b(const sr_example *e) {
    return (uint64_t)e->b_high << 32 | e->b_low;
}
static inline int32_t sr_example_length(const sr_example *e) {
    return e->a_tokens + 2 + (e->b_tokens > 0 ? e->b_tokens + 1 : 0);
}

/* The first tokens of an example that fit into `limit` (0: all; else at least SR_EXAMPLES_LEAST),
 * [CLS] and [SEP] included: the longer segment loses tokens from its end. */
sr_example sr_example_cut(const sr_example *e, int32_t limit);

/* The lengths by uid, freed by sr_free(): what a histogram and a packing are made from. */
sr_status sr_examples_lengths(uint16_t **out, const sr_examples *t);

/* Where token `token` of the column `ids` stands in an example, counted from [CLS]; -1 when it is
 * not in it: cut off, or in another piece. */
int32_t sr_example_place(const sr_example *e, uint64_t token);

/* Writes the sr_example_length() ids and types of an example: [CLS] A [SEP] B [SEP].  Errors are
 * those of sr_dataset_ids(). */
sr_status sr_example_sequence(const sr_example *e, const sr_dataset *d, int32_t *ids,
                              int32_t *types);

#ifdef __cplusplus
}
#endif
#endif

/* measure.h - the metrics that are functions of the tokens of one sequence.
 *
 *   length         tokens, special ones included
 *   rarity         sum over all tokens of -ln p(token): p from the counts of all tokens of the
 *                  data set, in which 0 is replaced by 1 before they are normalised
 *   rarity_integer the same, truncated
 *   length_rarity  length C + rarity_integer, with C = 10^(ceil(log10(most ln)) + 1) for sequences
 *                  of at most `most` tokens and the largest -ln p: by length, ties by rarity
 *   tfidf          1 - cosine of the sequence's TF-IDF vector and that of another corpus
 *   compressibility  bytes of the text after deflate (level 6) over bytes before
 *
 * Source: rarity and length_rarity as in Li et al. 2022, arXiv:2212.03597, and the program
 * published with it.
 */
#pragma once

#include "core/data/progress.h"
#include "core/data/stream.h"

SR_BEGIN_C

typedef enum sr_measure_kind {
    SR_MEASURE_LENGTH,
    SR_MEASURE_RARITY,
    SR_MEASURE_RARITY_INTEGER,
    SR_MEASURE_LENGTH_RARITY,
    SR_MEASURE_TFIDF,
    SR_MEASURE_COMPRESSIBILITY,
    SR_MEASURES
} sr_measure_kind;

extern const char *const sr_measure_names[SR_MEASURES + 1]; /* NULL at the end */

typedef struct sr_measure {
    sr_measure_kind kind;
    const sr_dataset *data; /* borrowed */
    double *weight;         /* (V) of rarity: -ln p; of tfidf: idf */
    double *center;         /* (V) of tfidf: the other corpus, of length 1 */
    double coefficient;     /* C of length_rarity */
    double denominator;     /* of rarity: the sum of all counts */
} sr_measure;

/* Length and compressibility. */
sr_status sr_measure_plain(sr_measure *out, sr_measure_kind kind, const sr_dataset *d);

/* The kinds of rarity.
 *
 *   count  (V) occurrences of each token
 *   slots  entries that are normalised, at least V: others count as unseen tokens
 *   most   maximum length of a sequence, for length_rarity */
sr_status sr_measure_rarity(sr_measure *out, sr_measure_kind kind, const sr_dataset *d,
                            const uint64_t *count, int64_t slots, int64_t most);

/* -ln p of each of `slots` tokens: the core of rarity, for any counts. */
void sr_rarity_weights(double *weight, double *denominator, double *largest, const uint64_t *count,
                       int64_t size, int64_t slots);
double sr_rarity_coefficient(double largest, int64_t most);

/* TF-IDF against the units (documents or examples) of a part of another data set:
 * idf = ln((1 + D) / (1 + df)) + 1 for a token in df of its D units; the corpus is the sum of the
 * vectors of its units.  SR_EDATA if it has another vocabulary, or no tokens but special ones. */
sr_status sr_measure_tfidf(sr_measure *out, const sr_dataset *d, const sr_dataset *other,
                           sr_data_part part);
void sr_measure_free(sr_measure *m); /* all zero is allowed */

/* Scratch memory of a thread; zero-initialised. */
typedef struct sr_measuring {
    uint32_t *times; /* (V) of tfidf, all zero between sequences */
    char *text;      /* of compressibility */
    size_t room;
    void *deflate;
} sr_measuring;
void sr_measuring_close(sr_measuring *s);

/* The value of a sequence. */
sr_status sr_measure_of(double *out, const sr_measure *m, sr_measuring *scratch,
                        const sr_segments *t);

/* Computes the values of the next parts of a stream, some 4 Mi tokens, and appends them; *done
 * after the last.  The values do not depend on the number of threads or on stops.
 * SR_ESTOP if a stop was requested: progress is kept. */
sr_status sr_measure_step(bool *done, const sr_measure *m, const sr_stream *s, sr_progress *p,
                          sr_threads *threads);

SR_END_C

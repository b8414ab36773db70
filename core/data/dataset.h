/* dataset.h - an opened data set: tokens on storage, the index of sentences and documents in
 * memory.
 *
 * There are two kinds, by the metadata key `kind`:
 *
 *   text      documents of sentences; every epoch draws new examples (examples.h)
 *     ids                 u16 or u32   tokens of all sentences, concatenated
 *     word_starts         u8           optional: a bit a token, lowest first; 1 starts a word
 *     sentence_tokens     u16          tokens of each sentence, at least 1
 *     sentence_words      u16          optional: words of each sentence, as white space separates
 *                                      them
 *     document_sentences  u32          sentences of each document, at least 1
 *   examples  fixed examples
 *     ids                 u16 or u32   tokens of A, then of B, of each example, no [CLS], [SEP]
 *     word_starts         u8           as above
 *     a_tokens, b_tokens  u32          A has at least 1; B may have none
 *     any other           see field.h  labels, scores, tags, texts
 *     source, offset      i32 or i64   optional: the example is a window of that source,
 *                                      starting at that token
 *
 * Both carry their tokenizer (carried.h), so that a data set is self-contained.
 *
 * Several files, made alike, can be opened as one data set: its units are those of the first, then
 * those of the next.  Each is a *source*, and is split on its own.
 *
 * Memory: 4 bytes per sentence, 20 bytes per document; 16 bytes per example and 8 per list; never
 * the tokens.
 */
#pragma once

#include <stdbool.h>

#include "core/data/carried.h"
#include "core/data/field.h"
#include "core/data/shard.h"
#include "core/tokenizer/tokenizer.h"

SR_BEGIN_C

enum { SR_SENTENCE_MARK = 64 };

typedef enum sr_data_kind { SR_DATA_TEXT, SR_DATA_EXAMPLES } sr_data_kind;

/* The documents (examples) for training, and those held out for evaluation. */
typedef enum sr_data_part { SR_PART_TRAIN, SR_PART_HELD, SR_PARTS } sr_data_part;

/* The default: 5 % of a text; nothing of fixed examples, which are usually split already. */
#define SR_HELD_USUAL (-1.0)

typedef struct sr_dataset_opts {
    double held;         /* fraction of the tokens to hold out, 0 <= held < 1; or SR_HELD_USUAL */
    bool keyed;          /* hold out documents at random, keyed; false: the last ones */
    uint64_t seed;       /* key of the random choice */
    int64_t folds, fold; /* if not 0: hold out fold 0 .. folds - 1 of examples (folds.h) instead */
    const int64_t *hold; /* if set: hold out these examples, from 0, instead */
    int64_t hold_count;
    const sr_tokenizer *tokenizer; /* if set, reject another tokenizer */
    const sr_vocab *vocab;         /* if set, reject another vocabulary, whatever its casing */
    size_t cache;                  /* bytes of token blocks kept in memory, 0: SR_SHARD_CACHE */
    const char *const *more;       /* (files) further files of the data set */
    int files;
} sr_dataset_opts;

typedef struct sr_portion {
    uint32_t *unit;               /* documents (examples), ascending */
    int64_t *source;              /* (sources + 1) where the units of each source begin */
    int64_t count, tokens, words; /* words: 0 where they were not counted */
} sr_portion;

typedef struct sr_dataset {
    double held; /* the requested fraction */
    sr_shard *shard;
    const sr_column *ids;
    const sr_column *word_starts; /* NULL: the tokenizer knows by the id */
    sr_data_kind kind;
    sr_tokenizer *tokenizer;
    bool plain; /* it is BERT's WordPiece, which a vocabulary describes whole */
    bool cut;   /* the corpus is one document, whose last sentences are held out as a second one */
    int64_t tokens, sentences;
    int sources;          /* at least 1 */
    int64_t *source_unit; /* (sources + 1) the first unit of each */
    int64_t units;        /* documents, after `cut` */
    uint64_t *unit_token; /* (units + 1) first token of each document (example) */
    /* text */
    uint16_t *sentence_tokens; /* (sentences) */
    uint16_t *sentence_words;  /* (sentences); NULL: they were not counted */
    uint64_t *sentence_mark;   /* first token of every SR_SENTENCE_MARK-th sentence */
    uint64_t *unit_sentence;   /* (units + 1) first sentence of each document */
    /* examples */
    uint32_t *a_tokens; /* (units) */
    sr_fields fields;
    const sr_field *source, *offset; /* NULL: examples are not windows */
    sr_portion part[SR_PARTS];
} sr_dataset;

/* Opens a data set and splits it.
 *
 * The last documents are held out, as many as come nearest to the fraction of tokens, at least one
 * on each side.  A corpus of one document is split between two sentences instead, and `cut` is set.
 *
 * Errors: SR_ENOENT, SR_EIO, SR_ENOMEM; SR_EDATA: not a data set, damaged, empty, columns that
 * contradict each other, another tokenizer or vocabulary than that of opts, files that were not
 * made alike; SR_EINVAL: held, fold or hold is out of range. */
sr_status sr_dataset_open(sr_dataset **out, const char *path, const sr_dataset_opts *opts);
void sr_dataset_close(sr_dataset *d); /* may be NULL */

/* The special tokens around an example, by its number of tokens of B. */
static inline const sr_frame *sr_dataset_frame(const sr_dataset *d, int64_t b_tokens) {
    return sr_tokenizer_frame(d->tokenizer, b_tokens > 0);
}

/* Token ids first .. first + count - 1; any thread.  SR_EDATA also when an id is not below the
 * size of the vocabulary. */
sr_status sr_dataset_ids(const sr_dataset *d, int32_t *out, uint64_t first, uint64_t count);

/* Which of these tokens, of one unit, continue a word, as 1, by the column word_starts, which must
 * be there; any thread. */
sr_status sr_dataset_goes_on(const sr_dataset *d, uint8_t *out, uint64_t first, uint64_t count);

/* The first token of a sentence of a text. */
static inline uint64_t sr_dataset_sentence(const sr_dataset *d, uint64_t sentence) {
    uint64_t i = sentence - sentence % SR_SENTENCE_MARK;
    uint64_t token = d->sentence_mark[i / SR_SENTENCE_MARK];
    for (; i < sentence; i++) token += d->sentence_tokens[i];
    return token;
}

/* The source of a token, from 0. */
static inline int sr_dataset_source(const sr_dataset *d, uint64_t token) {
    int s = 0;
    while (s + 1 < d->sources && d->unit_token[d->source_unit[s + 1]] <= token) s++;
    return s;
}

/* The words of some tokens of a text: those of whole sentences, and of a sentence that is cut the
 * share of its tokens, so that the parts of a text add up to all its words.  0 where they were not
 * counted. */
int64_t sr_dataset_words(const sr_dataset *d, uint64_t first, uint64_t count);

/* The values of a field for a unit: those of the example, or of all its tokens. */
void sr_dataset_values(uint64_t *first, uint64_t *count, const sr_dataset *d, const sr_field *f,
                       int64_t unit);

/* Identifies the contents: the values of all columns, and the type and shape of fields. */
uint64_t sr_dataset_digest(const sr_dataset *d);

/* Identifies the tokenizer: the fingerprint of the vocabulary if that describes it whole. */
uint64_t sr_dataset_fingerprint(const sr_dataset *d);

const char *sr_data_part_name(sr_data_part part); /* "train", "held" */

SR_END_C

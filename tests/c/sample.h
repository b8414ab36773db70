/* sample.h - synthetic data sets for tests: token number i of the text has the id 5 + i, so that
 * the origin of every token of an example is known. */
#pragma once

#include "core/base/rng.h"
#include "core/data/dataset.h"
#include "core/data/shard.h"
#include "core/loader/loader.h"
#include "tests/support/scratch.h"

OWNER(sr_dataset, sr_dataset_close)
OWNER(sr_loader, sr_loader_close)
OWNER(sr_update, sr_update_free)
OWNER(sr_epoch, sr_epoch_release)
OWNER(sr_examples, sr_examples_free)

enum { SAMPLE_VOCAB = 60000 };

static sr_status sample_vocab(sr_shard_writer *w, int32_t size) {
    int column;
    char line[16];
    static const char specials[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    SR_TRY(sr_shard_add_column(w, &column, "vocab", SR_COLUMN_BYTES));
    SR_TRY(sr_shard_append(w, column, specials, strlen(specials)));
    for (int32_t i = 5; i < size; i++) {
        int n = snprintf(line, sizeof line, i % 4 == 3 ? "##t%d\n" : "t%d\n", i);
        SR_TRY(sr_shard_append(w, column, line, (size_t)n));
    }
    return SR_OK;
}

static sr_status sample_ids(sr_shard_writer *w, uint32_t tokens, int32_t size) {
    int column;
    SR_TRY(sr_shard_add_column(w, &column, "ids", SR_COLUMN_U16));
    for (uint32_t i = 0; i < tokens; i++) {
        uint16_t id = (uint16_t)(5 + i % (uint32_t)(size - 5));
        SR_TRY(sr_shard_append(w, column, &id, 1));
    }
    return SR_OK;
}

/* `documents` of 1 .. most_sentences sentences of 1 .. most_tokens tokens. */
static sr_status sample_columns(sr_shard_writer *w, uint32_t documents, uint32_t most_sentences,
                                uint32_t most_tokens, int32_t vocab) {
    int lengths, counts;
    uint32_t tokens = 0;
    SR_TRY(sr_shard_add_column(w, &lengths, "sentence_tokens", SR_COLUMN_U16));
    SR_TRY(sr_shard_add_column(w, &counts, "document_sentences", SR_COLUMN_U32));
    for (uint32_t d = 0; d < documents; d++) {
        sr_u32x4 r = sr_philox(sr_counter(0, 0, d, SR_PURPOSE_TENSOR, 0, 0, 0), 77, 10);
        uint32_t sentences = 1 + sr_below(r.w[0], most_sentences);
        SR_TRY(sr_shard_append(w, counts, &sentences, 1));
        for (uint32_t s = 0; s < sentences; s++) {
            r = sr_philox(sr_counter(s + 1, 0, d, SR_PURPOSE_TENSOR, 0, 0, 0), 77, 10);
            uint16_t n = (uint16_t)(1 + sr_below(r.w[0], most_tokens));
            SR_TRY(sr_shard_append(w, lengths, &n, 1));
            tokens += n;
        }
    }
    SR_TRY(sample_ids(w, tokens, vocab));
    SR_TRY(sr_shard_set_meta(w, "kind", "text"));
    return sample_vocab(w, vocab);
}

static inline sr_status sample_text(const char *path, uint32_t documents, uint32_t most_sentences,
                                    uint32_t most_tokens, int32_t vocab) {
    sr_shard_writer *w;
    SR_TRY(sr_shard_create(&w, path));
    sr_status st = sample_columns(w, documents, most_sentences, most_tokens, vocab);
    if (st == SR_OK) return sr_shard_commit(w);
    sr_shard_abort(w);
    return st;
}

/* Fixed examples of a[i] and b[i] tokens; label i. */
static inline sr_status sample_examples(const char *path, const uint32_t *a, const uint32_t *b,
                                        int count) {
    sr_shard_writer *w;
    int column;
    uint32_t tokens = 0;
    SR_TRY(sr_shard_create(&w, path));
    sr_status st = sr_shard_add_column(w, &column, "a_tokens", SR_COLUMN_U32);
    if (st == SR_OK) st = sr_shard_append(w, column, a, (size_t)count);
    if (st == SR_OK) st = sr_shard_add_column(w, &column, "b_tokens", SR_COLUMN_U32);
    if (st == SR_OK) st = sr_shard_append(w, column, b, (size_t)count);
    if (st == SR_OK) st = sr_shard_add_column(w, &column, "label", SR_COLUMN_I32);
    for (int32_t i = 0; st == SR_OK && i < count; i++) st = sr_shard_append(w, column, &i, 1);
    for (int i = 0; i < count; i++) tokens += a[i] + b[i];
    if (st == SR_OK) st = sample_ids(w, tokens, SAMPLE_VOCAB);
    if (st == SR_OK) st = sr_shard_set_meta(w, "kind", "examples");
    if (st == SR_OK) st = sample_vocab(w, SAMPLE_VOCAB);
    if (st == SR_OK) return sr_shard_commit(w);
    sr_shard_abort(w);
    return st;
}

static inline sr_dataset *sample_open(const char *path, double held) {
    sr_dataset *d = NULL;
    CHECK_OK(sr_dataset_open(&d, path, &(sr_dataset_opts){.held = held}));
    return d;
}

/* `count` fixed examples; those whose number is a multiple of 3, or all if not `pairs`, have no B. */
static inline sr_dataset *sample_open_fixed(const char *path, uint32_t count, bool pairs) {
    uint32_t a[2000], b[2000];
    for (uint32_t i = 0; i < count; i++) {
        a[i] = 1 + i * 7 % 40;
        b[i] = !pairs || i % 3 == 0 ? 0 : 1 + i % 15;
    }
    CHECK_OK(sample_examples(path, a, b, (int)count));
    return sample_open(path, 0);
}

/* parts.h - what a tokenizer consists of; internal to core/tokenizer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/added.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/model.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/pieces.h"
#include "core/tokenizer/postprocess.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/wordpiece.h"

SR_BEGIN_C

struct sr_tokenizer {
    int64_t holders; /* counted by atomic builtins */
    const sr_model_kind *kind;
    int32_t size;
    uint64_t serial;    /* unique in the process */
    sr_wordpiece *fast; /* BERT's WordPiece, which needs none of the following up to `literal` */
    sr_pieces pieces;   /* of the model, as the file spells them */
    sr_pieces added_pieces; /* of the added tokens, which come before */
    sr_added added;
    sr_normalizer normalizer;
    sr_pretokenizer pre;
    sr_model *model;
    sr_decoder decoder;
    bool literal; /* special tokens in a text are text */
    sr_postprocess post;
    int32_t roles[SR_TOKEN_SPECIALS];
    int32_t *specials; /* ascending */
    size_t special_count;
    uint64_t fingerprint;
    char *text;
    size_t text_size;
    bool json;
    char *config;
    size_t config_size;
};

/* For qsort() and bsearch(): ids, ascending. */
static inline int sr_id_order(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* A tokenizer with nothing in it but a serial number. */
sr_status sr_tokenizer_blank(sr_tokenizer **out);

/* Gives a blank tokenizer the fast path of BERT's WordPiece, its vocabulary and fingerprint. */
sr_status sr_tokenizer_use_fast(sr_tokenizer *t, sr_vocab *vocab, const sr_tokenizer_opts *opts);

SR_END_C

#include "core/tokenizer/tokenizer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tokenizer/parts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- making one ---- */

sr_status sr_tokenizer_blank(sr_tokenizer **out) {
    static _Atomic uint64_t serials = 1;
    SR_TRY(sr_new(out, 1));
    sr_tokenizer *t = *out;
    t->holders = 1;
    t->serial = atomic_fetch_add(&serials, 1);
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++) t->roles[i] = -1;
    t->post.frames[1].types[1] = 1; /* without a post-processor */
    return SR_OK;
}

sr_tokenizer *sr_tokenizer_retain(sr_tokenizer *t) {
    __atomic_fetch_add(&t->holders, 1, __ATOMIC_RELAXED);
    return t;
}

void sr_tokenizer_release(sr_tokenizer *t) {
    if (t == NULL || __atomic_fetch_sub(&t->holders, 1, __ATOMIC_ACQ_REL) != 1) return;
    if (t->fast != NULL) sr_vocab_release(t->fast->vocab);
    sr_free(t->fast);
    sr_model_free(t->model);
    sr_pieces_free(&t->pieces);
    sr_pieces_free(&t->added_pieces);
    sr_added_free(&t->added);
    sr_normalizer_free(&t->normalizer);
    sr_pretokenizer_free(&t->pre);
    sr_decoder_free(&t->decoder);
    sr_free(t->specials);
    sr_free(t->text);
    sr_free(t->config);
    sr_free(t);
}

/* Gives a blank tokenizer the fast path, its vocabulary and its fingerprint. */
sr_status sr_tokenizer_use_fast(sr_tokenizer *t, sr_vocab *vocab, const sr_tokenizer_opts *opts) {
    SR_TRY(sr_new(&t->fast, 1));
    t->kind = &sr_model_wordpiece;
    sr_wordpiece_init(t->fast, vocab, opts, t->serial);
    t->size = sr_vocab_size(vocab);
    uint64_t parts[] = {sr_vocab_fingerprint(vocab), t->fast->words.lowercase,
                        t->fast->words.strip_accents};
    t->fingerprint = XXH3_64bits(parts, sizeof parts);
    return SR_OK;
}

/* ---- what it consists of ---- */

const char *sr_tokenizer_kind_name(const sr_tokenizer *t) {
    return t->kind->name;
}

int32_t sr_tokenizer_size(const sr_tokenizer *t) {
    return t->size;
}

int32_t sr_tokenizer_id(const sr_tokenizer *t, const void *token, size_t size) {
    if (t->fast != NULL) return sr_vocab_id(t->fast->vocab, token, size);
    int32_t id = sr_pieces_find(&t->added_pieces, token, size);
    return id >= 0 ? id : sr_pieces_find(&t->pieces, token, size);
}

const char *sr_tokenizer_token(const sr_tokenizer *t, int32_t id, size_t *size) {
    if (id < 0 || id >= t->size) return NULL;
    if (t->fast != NULL) return sr_vocab_token(t->fast->vocab, id, size);
    const char *token = sr_pieces_text(&t->added_pieces, id, size);
    return token != NULL ? token : sr_pieces_text(&t->pieces, id, size);
}

int32_t sr_tokenizer_special(const sr_tokenizer *t, sr_special role) {
    return t->roles[role];
}

const int32_t *sr_tokenizer_specials(const sr_tokenizer *t, size_t *count) {
    *count = t->special_count;
    return t->specials;
}

bool sr_tokenizer_is_special(const sr_tokenizer *t, int32_t id) {
    return bsearch(&id, t->specials, t->special_count, sizeof id, sr_id_order) != NULL;
}

const sr_frame *sr_tokenizer_frame(const sr_tokenizer *t, bool pair) {
    return &t->post.frames[pair];
}

bool sr_tokenizer_lowercase(const sr_tokenizer *t) {
    return t->fast != NULL && t->fast->words.lowercase;
}

sr_vocab *sr_tokenizer_vocab(const sr_tokenizer *t) {
    return t->fast != NULL ? t->fast->vocab : NULL;
}

uint64_t sr_tokenizer_fingerprint(const sr_tokenizer *t) {
    return t->fingerprint;
}

const char *sr_tokenizer_text(const sr_tokenizer *t, size_t *size, bool *json) {
    *json = t->json;
    if (!t->json) return sr_vocab_text(t->fast->vocab, size);
    *size = t->text_size;
    return t->text;
}

const char *sr_tokenizer_config(const sr_tokenizer *t, size_t *size) {
    *size = t->config_size;
    return t->config;
}

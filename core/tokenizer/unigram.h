/* unigram.h - SentencePiece's Unigram: the pieces with the highest sum of scores.
 *
 * Sums are in double and added from left to right, as Hugging Face's library does, so that ties
 * fall the same way.
 */
#ifndef SR_TOKENIZER_UNIGRAM_H
#define SR_TOKENIZER_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/json_at.h"
#include "core/tokenizer/model_out.h"
#include "core/tokenizer/pieces.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_unigram sr_unigram;

/* Reads a model and fills `pieces`, which it refers to, with its vocabulary. */
sr_status sr_unigram_read(sr_unigram **out, sr_pieces *pieces, const sr_json *model);
void sr_unigram_free(sr_unigram *u); /* may be NULL */

/* Texts do not become this token any more: a special one that is plain text where it is written. */
void sr_unigram_hide(sr_unigram *u, const char *token, size_t size, int32_t id);

typedef struct sr_unigram_scratch {
    void *nodes;
    size_t room;
} sr_unigram_scratch;

/* The tokens of a piece of `size` > 0 bytes; its last part may stand for several bytes at once:
 * with byte fallback the parts of a string share its place. */
sr_status sr_unigram_encode(sr_parts *out, const sr_unigram *u, sr_unigram_scratch *s,
                            const uint8_t *bytes, size_t size);

int32_t sr_unigram_unknown(const sr_unigram *u); /* -1: none */
uint64_t sr_unigram_fingerprint(const sr_unigram *u);

#ifdef __cplusplus
}
#endif
#endif

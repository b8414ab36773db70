/* bpe.h - byte-pair encoding: the characters of a piece, merged by rank.
 *
 * With `bytes` the vocabulary is of GPT-2's byte level: its strings stand for bytes, and pieces are
 * given as bytes.
 */
#ifndef SR_TOKENIZER_BPE_H
#define SR_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/json_at.h"
#include "core/tokenizer/model_out.h"
#include "core/tokenizer/pieces.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_bpe sr_bpe;

/* Reads a model whose vocabulary is in `pieces`, which it refers to. */
sr_status sr_bpe_read(sr_bpe **out, const sr_pieces *pieces, const sr_json *model, bool bytes);
void sr_bpe_free(sr_bpe *b); /* may be NULL */

typedef struct sr_bpe_scratch {
    void *symbols, *heap;
    size_t symbol_room, heap_room;
} sr_bpe_scratch;
void sr_bpe_scratch_free(sr_bpe_scratch *s);

/* The tokens of a piece of `size` > 0 bytes. */
sr_status sr_bpe_encode(sr_parts *out, const sr_bpe *b, sr_bpe_scratch *s, const uint8_t *bytes,
                        size_t size);

/* Whether no token reaches over the start of a U+2581 that follows another character, so that a
 * piece may be cut there. */
bool sr_bpe_cuts_at_mark(const sr_bpe *b);

int32_t sr_bpe_unknown(const sr_bpe *b); /* -1: none */

/* A hash of the merges and options. */
uint64_t sr_bpe_fingerprint(const sr_bpe *b);

/* The byte of a character of the byte level, -1 if it is none; and the character of a byte. */
int sr_byte_of_char(int32_t cp);
int32_t sr_char_of_byte(uint8_t byte);

#ifdef __cplusplus
}
#endif
#endif

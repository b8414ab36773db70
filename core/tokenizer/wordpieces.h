/* wordpieces.h - the WordPiece model with any normalizer and pre-tokenizer; BERT's has a faster way
 * (wordpiece.h). */
#ifndef SR_TOKENIZER_WORDPIECES_H
#define SR_TOKENIZER_WORDPIECES_H

#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/json_at.h"
#include "core/tokenizer/model_out.h"
#include "core/tokenizer/pieces.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_wordpieces {
    const sr_pieces *pieces;
    int32_t unknown;
    int64_t most; /* characters of a word */
    char prefix[16];
    size_t prefix_size, longest;
} sr_wordpieces;

/* Reads a model whose vocabulary is in `pieces`. */
sr_status sr_wordpieces_read(sr_wordpieces *w, const sr_pieces *pieces, const sr_json *model);

/* The tokens of a piece of `size` > 0 bytes. */
sr_status sr_wordpieces_encode(sr_parts *out, const sr_wordpieces *w, const uint8_t *bytes,
                               size_t size);

#ifdef __cplusplus
}
#endif
#endif

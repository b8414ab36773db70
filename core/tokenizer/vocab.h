/* vocab.h - the vocabulary: tokens and their ids.
 *
 * The file has one token per line; the id is the line number, from 0.  A token that begins with ##
 * continues a word.  The five special tokens of BERT are required.
 *
 * Lines end in LF; the last LF is optional.  If the first line ends in CR LF, all must; the CR is
 * not part of the token.  A vocabulary is immutable and may be shared between threads.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum {
    SR_VOCAB_LIMIT = 1 << 20,      /* tokens */
    SR_VOCAB_TOKEN_LIMIT = 512,    /* bytes of a token */
    SR_VOCAB_FILE_LIMIT = 64 << 20 /* bytes of a file */
};

typedef enum sr_special {
    SR_TOKEN_PAD,
    SR_TOKEN_UNK,
    SR_TOKEN_CLS,
    SR_TOKEN_SEP,
    SR_TOKEN_MASK,
    SR_TOKEN_SPECIALS
} sr_special;

/* The text of each special token: [PAD] [UNK] [CLS] [SEP] [MASK]. */
extern const char *const sr_special_names[SR_TOKEN_SPECIALS];

typedef struct sr_vocab sr_vocab;

/* Reads a vocabulary file.
 *
 * Errors: SR_ENOENT  no such file
 *         SR_EDATA   a line is empty, too long, not UTF-8 or a duplicate (file:line), the line ends
 *                    are mixed (file:line), there are too many lines, a special token is missing
 *         SR_ENOMEM
 */
sr_status sr_vocab_load(sr_vocab **out, const char *path);

/* The same from memory; messages use `name` as the path. */
sr_status sr_vocab_parse(sr_vocab **out, const void *bytes, size_t size, const char *name);

sr_vocab *sr_vocab_retain(sr_vocab *v);
void sr_vocab_release(sr_vocab *v); /* may be NULL */

/* Writes the tokens, each followed by LF, with sr_file_replace(). */
sr_status sr_vocab_save(const sr_vocab *v, const char *path);

int32_t sr_vocab_size(const sr_vocab *v);

/* The id of a token, -1 if it is not in the vocabulary. */
int32_t sr_vocab_id(const sr_vocab *v, const void *token, size_t size);

/* A token and its length; followed by a line feed, not zero-terminated.  0 <= id < size. */
const char *sr_vocab_token(const sr_vocab *v, int32_t id, size_t *size);

/* All tokens, each followed by LF. */
const char *sr_vocab_text(const sr_vocab *v, size_t *size);

int32_t sr_vocab_special(const sr_vocab *v, sr_special which);

/* A fingerprint of the contents: XXH3-64 of the tokens, each followed by LF.  A data set stores it
 * to reject other vocabularies. */
uint64_t sr_vocab_fingerprint(const sr_vocab *v);

/* Lookup by hash, for the tokenizer: the hash of a prefix is extended byte by byte, so all prefixes
 * of a word cost one pass.  It starts at sr_vocab_hash(), which is random for every vocabulary, so
 * that vocabularies with colliding tokens cannot be constructed. */
uint64_t sr_vocab_hash(const sr_vocab *v, int prefix); /* of no # signs, or of 2 */
static inline uint64_t sr_vocab_mix(uint64_t hash, uint8_t byte) {
    return (hash ^ byte) * 0xD6E8FEB86659FD93u;
}

/* The id of the token `prefix` + `body` with this hash, -1 if it is not in the vocabulary. `prefix`
 * is the number of # signs before the body, 0 or 2. */
int32_t sr_vocab_find(const sr_vocab *v, uint64_t hash, int prefix, const void *body, size_t size);

/* The possible lengths of tokens with `prefix` # signs and a body that begins with these two bytes:
 * if one has n bytes, bit min(n, 63) is set.  Bit 1 is always set; for a body of one byte the
 * second byte is ignored. */
uint64_t sr_vocab_lengths(const sr_vocab *v, int prefix, uint8_t first, uint8_t second);

SR_END_C

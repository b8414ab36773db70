/* tokenizer.h - text to token ids, with the ids of Hugging Face's `tokenizers`.
 *
 * One type for all models: WordPiece (from a vocab.txt or a tokenizer.json), BPE and Unigram (from
 * a tokenizer.json).  A tokenizer.json is read as it is: added tokens, normalizer, pre-tokenizer,
 * model, post-processor, decoder; truncation and padding are ignored.  What is not supported is
 * refused by its name and its path inside the file; nothing is approximated.
 *
 * Invalid UTF-8 is read as U+FFFD, one for each maximal subpart, and counted.
 *
 * A tokenizer is immutable and may be shared between threads.  Results are in an sr_tokens, one per
 * thread: the ids, and a cache of known words, which makes it fast.
 *
 *     sr_tokens tokens = {0};
 *     sr_tokenize(&tokens, tokenizer, line, size);    appends to tokens.ids[0 .. tokens.count)
 *     tokens.count = 0;                               the next line overwrites
 *     sr_tokens_free(&tokens);
 *
 * Memory: to read a tokenizer.json takes at most SR_TOKENIZER_MULTIPLE bytes for each byte of it,
 * plus SR_TOKENIZER_BASE, and what is kept is less; a file that needs more is refused.  The machine
 * code of patterns, up to 0.3 MB each, is not counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tokenizer/frame.h"
#include "core/tokenizer/vocab.h"
#include "core/tokenizer/words.h"

SR_BEGIN_C

enum {
    SR_TOKENIZER_FILE_LIMIT = 256 << 20, /* bytes of a tokenizer.json */
    SR_TOKENIZER_MULTIPLE = 100,
    SR_TOKENIZER_BASE = 4 << 20
};

typedef struct sr_tokenizer sr_tokenizer;

typedef struct sr_tokenizer_opts {
    bool lowercase;    /* of a vocab.txt; a tokenizer.json says it itself */
    bool keep_accents; /* of a vocab.txt, with lower-casing (Hugging Face strips them) */
    bool specials; /* special tokens written in the text become their ids; false: they are text */
    const void *config; /* the text of a tokenizer_config.json, for the roles; NULL: none */
    size_t config_size;
} sr_tokenizer_opts;

/* Reads a tokenizer from a text: a tokenizer.json if the first character is '{', else a vocabulary;
 * messages use `name` as the path.
 *
 * Errors: SR_EDATA   the text is invalid, uses what is not supported (its name and path inside), or
 *                    needs more memory than stated above
 *         SR_ENOMEM */
sr_status sr_tokenizer_parse(sr_tokenizer **out, const void *bytes, size_t size, const char *name,
                             const sr_tokenizer_opts *opts);

/* WordPiece with a vocabulary, which it retains. */
sr_status sr_tokenizer_new(sr_tokenizer **out, sr_vocab *vocab, const sr_tokenizer_opts *opts);

sr_tokenizer *sr_tokenizer_retain(sr_tokenizer *t);
void sr_tokenizer_release(sr_tokenizer *t); /* may be NULL */

/* ---- what it consists of ---- */

const char *sr_tokenizer_kind_name(const sr_tokenizer *t); /* "WordPiece", "BPE", "Unigram" */

/* The largest id plus one, added tokens included. */
int32_t sr_tokenizer_size(const sr_tokenizer *t);

/* The id of a token as the file spells it, -1 if there is none; and back, NULL if no token has the
 * id.  Tokens are not zero-terminated. */
int32_t sr_tokenizer_id(const sr_tokenizer *t, const void *token, size_t size);
const char *sr_tokenizer_token(const sr_tokenizer *t, int32_t id, size_t *size);

/* The id with a role, -1 when absent.  SR_TOKEN_CLS is also the beginning of a sequence (<s>) and
 * SR_TOKEN_SEP its end (</s>).  Roles come from opts->config, else from the post-processor, else from known spellings such as [CLS], <s>, <|endoftext|>. */
int32_t sr_tokenizer_special(const sr_tokenizer *t, sr_special role);

/* All special ids, ascending: added tokens with `special`, and those with a role. */
const int32_t *sr_tokenizer_specials(const sr_tokenizer *t, size_t *count);
bool sr_tokenizer_is_special(const sr_tokenizer *t, int32_t id);

/* What the post-processor puts around a text, or around a pair. */
const sr_frame *sr_tokenizer_frame(const sr_tokenizer *t, bool pair);

/* True if ids can be lower-cased text only: BERT's uncased vocabularies. */
bool sr_tokenizer_lowercase(const sr_tokenizer *t);

/* The vocabulary of WordPiece as BERT has it; NULL for all others. */
sr_vocab *sr_tokenizer_vocab(const sr_tokenizer *t);

/* Whether a tokenizer is BERT's WordPiece, so that its vocabulary and *opts say everything. */
sr_status sr_tokenizer_plain(bool *plain, sr_tokenizer_opts *opts, const sr_tokenizer *t);

/* A fingerprint of all that changes ids: vocabulary, merges, scores, casing, added tokens,
 * normalizer, pre-tokenizer, post-processor, roles; not of spacing or of truncation and padding. A
 * vocab.txt and the tokenizer.json that says the same have the same one. */
uint64_t sr_tokenizer_fingerprint(const sr_tokenizer *t);

/* The text to store in data sets and checkpoints: the tokenizer.json as it was read, or the
 * vocabulary (then `*json` is false, and lowercase and accents have to be stored too).  With
 * sr_tokenizer_config() as the option `config`, sr_tokenizer_parse() makes the same tokenizer. */
const char *sr_tokenizer_text(const sr_tokenizer *t, size_t *size, bool *json);

/* The roles as JSON, {"cls_token":"<s>",..}, with the keys of a tokenizer_config.json. */
const char *sr_tokenizer_config(const sr_tokenizer *t, size_t *size);

/* ---- text to ids ---- */

typedef struct sr_word_cache sr_word_cache;
typedef struct sr_text_scratch sr_text_scratch;

/* Zero-initialised: empty. */
typedef struct sr_tokens {
    int32_t *ids;
    sr_text_span *spans; /* position of each token in the text; only with want_spans */
    uint8_t *starts;     /* 1 where a token begins a word; only with want_starts */
    size_t count, room;
    bool want_spans, want_starts; /* set by the caller before the first call */
    uint64_t invalid;             /* invalid UTF-8 sequences so far */
    uint64_t unknown;             /* unknown words so far, without [UNK] written in the text */
    sr_word_cache *cache;         /* private */
    sr_text_scratch *scratch;     /* private */
} sr_tokens;

/* Appends the ids of a text, without the frame.
 *
 * With spans, a token's position is where its characters come from in the text, as in `tokenizers`,
 * whatever the normalizer did.  A token begins a word where the pre-tokenizer does, or at U+2581
 * where spaces have become that; in WordPiece, where it has no ##.
 *
 * Errors: SR_ENOMEM  tokens->count is unchanged
 *         SR_EINVAL  a text of 2^31 bytes or more, with spans or with a model other than WordPiece
 * Cost:   a few nanoseconds per cached word.
 */
sr_status sr_tokenize(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes, size_t size);

/* The same for one word of a text that is given word by word, as `is_split_into_words` has it: the
 * word keeps the space before it (`add_prefix_space`), which has no position. */
sr_status sr_tokenize_word(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes,
                           size_t size);

/* True if texts may be split at ASCII white space without changing the ids. */
bool sr_tokenizer_splits(const sr_tokenizer *t);

void sr_tokens_free(sr_tokens *tokens);

/* ---- ids to text ---- */

/* The text of `count` ids by the decoder of the file, in *text (freed by sr_free()), without
 * special tokens unless `specials`.  Ids without a token are left out. */
sr_status sr_detokenize(char **text, size_t *size, const sr_tokenizer *t, const int32_t *ids,
                        size_t count, bool specials);

SR_END_C

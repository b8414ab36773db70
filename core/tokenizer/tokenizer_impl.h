/* tokenizer_impl.h - the parts of a tokenizer; internal to core/tokenizer. */
#ifndef SR_TOKENIZER_TOKENIZER_IMPL_H
#define SR_TOKENIZER_TOKENIZER_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/added.h"
#include "core/tokenizer/bpe.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/json_at.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/pieces.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/unigram.h"
#include "core/tokenizer/wordpiece.h"
#include "core/tokenizer/wordpieces.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SR_TOKENIZER_ID_LIMIT = 1 << 24, /* ids are below */
    SR_TOKENIZER_TOKEN_LIMIT = 1024, /* bytes of a token */
    SR_TOKENIZER_DEPTH = 4           /* of sequences in sequences */
};

struct sr_tokenizer {
    int64_t holders; /* counted by atomic builtins */
    sr_tokenizer_model kind;
    int32_t size;
    uint64_t serial;    /* unique in the process */
    sr_wordpiece *fast; /* BERT's WordPiece, which needs none of the following up to `literal` */
    sr_pieces pieces;   /* of the model, as the file spells them */
    sr_pieces added_pieces; /* of the added tokens, which come before */
    sr_added added;
    sr_normalizer normalizer;
    sr_pretokenizer pre;
    sr_bpe *bpe;
    sr_unigram *unigram;
    sr_wordpieces wordpieces;
    sr_decoder decoder;
    bool cuts;              /* pieces may be cut before U+2581 */
    bool literal;           /* special tokens in a text are text */
    sr_frame frames[2];     /* of a single text, of a pair */
    bool framed;            /* by the post-processor */
    bool trim, trim_prefix; /* offsets leave out spaces; but not one that was added */
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

/* A tokenizer with nothing in it but a serial number. */
sr_status sr_tokenizer_blank(sr_tokenizer **out);

/* The parts that follow from vocabulary and roles, once all others are there: specials, size,
 * fingerprint, config. */
sr_status sr_tokenizer_finish(sr_tokenizer *t);

/* Gives a blank tokenizer the fast path of BERT's WordPiece, its vocabulary and fingerprint. */
sr_status sr_tokenizer_use_fast(sr_tokenizer *t, sr_vocab *vocab, const sr_tokenizer_opts *opts);

/* postprocess.c: the post-processor of a tokenizer.json. */
sr_status sr_frame_read(sr_tokenizer *t, const sr_json *at, int depth);
/* Appends a special token to a part that has room. */
static inline void sr_frame_add(sr_frame_part *p, int32_t id, int type) {
    p->ids[p->count] = id;
    p->types[p->count++] = (uint8_t)type;
}

/* tokenizer_json.c: fills a blank tokenizer from the text of a tokenizer.json. */
sr_status sr_tokenizer_read_json(sr_tokenizer *t, const char *bytes, size_t size, const char *name,
                                 const sr_tokenizer_opts *opts);

/* tokenizer_run.c: sr_tokenize() with all parts; `spaced` as sr_tokenize_word(). */
sr_status sr_tokenizer_run(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes, size_t size,
                           bool spaced);
void sr_text_scratch_free(sr_text_scratch *s); /* may be NULL */

/* roles.c: the roles that a tokenizer_config.json gives, by name; SR_EDATA if it is not JSON or
 * names a token that does not exist. */
sr_status sr_roles_read(sr_tokenizer *t, const void *config, size_t size, const char *name);
/* Roles from the frame and by known spellings, where there is none yet. */
void sr_roles_guess(sr_tokenizer *t);
/* The roles as the text of a tokenizer_config.json. */
sr_status sr_roles_write(char **out, size_t *size, const sr_tokenizer *t);

#ifdef __cplusplus
}
#endif
#endif

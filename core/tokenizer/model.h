/* model.h - the models of a tokenizer.json: from a piece of a text to tokens.
 *
 * A model is a file with an sr_model_kind, and a name in SR_MODELS; its own struct begins with an
 * sr_model.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/mem.h"
#include "core/base/status.h"
#include "core/tokenizer/json_at.h"
#include "core/tokenizer/pieces.h"

SR_BEGIN_C

/* A token of a piece. */
typedef struct sr_part {
    int32_t id;
    uint32_t first, last; /* in bytes of the piece */
} sr_part;

/* Zero-initialised; a model overwrites it. */
typedef struct sr_parts {
    sr_part *list;
    size_t count, room;
    uint64_t unknown; /* parts that are the unknown token, of all pieces so far */
} sr_parts;

static inline sr_status sr_parts_reserve(sr_parts *p, size_t room) {
    if (room <= p->room) return SR_OK;
    SR_TRY(sr_grow(&p->list, 2 * room + 64));
    p->room = 2 * room + 64;
    return SR_OK;
}

/* Memory that a model keeps from piece to piece, of one thread.  Zero-initialised: empty. */
typedef struct sr_model_room {
    void *memory[2];
    size_t bytes[2];
} sr_model_room;

static inline sr_status sr_model_reserve(sr_model_room *r, int which, size_t count, size_t size) {
    if (count * size <= r->bytes[which]) return SR_OK;
    SR_TRY(sr_resize(&r->memory[which], 2 * count + 64, size));
    r->bytes[which] = (2 * count + 64) * size;
    return SR_OK;
}

typedef struct sr_model {
    const struct sr_model_kind *kind;
    const sr_pieces *pieces; /* the vocabulary */
    int32_t unknown;         /* -1: none */
    bool cuts; /* no token reaches over the start of a U+2581 that follows another character */
    uint64_t fingerprints[4]; /* of what the model has besides its vocabulary */
} sr_model;

typedef struct sr_model_kind {
    const char *name;        /* in a tokenizer.json */
    const char *const *keys; /* that it may have there, up to NULL */
    size_t size;             /* of its struct */
    bool bytes;              /* it also reads pieces of the byte level */
    bool spaces;             /* trimming offsets leaves spaces in its unknown token */

    /* Fills a model, all zero but for kind and pieces.  `bytes`: its vocabulary is of the byte
     * level: its strings stand for bytes, and pieces are given as bytes. */
    sr_status (*read)(sr_model *m, sr_pieces *pieces, const sr_json *at, bool bytes);
    void (*free)(sr_model *m); /* what read() made; NULL: nothing */

    /* The tokens of a piece of `size` > 0 bytes. */
    sr_status (*encode)(sr_parts *out, const sr_model *m, sr_model_room *room, const uint8_t *bytes,
                        size_t size);

    /* Texts do not become this token any more: a special one that is plain text where it is
     * written.  NULL: they never do. */
    void (*hide)(sr_model *m, const char *token, size_t size, int32_t id);
} sr_model_kind;

/* All models.  The number of a model in this list is part of fingerprints. */
#define SR_MODELS(X) X(wordpiece) X(bpe) X(unigram)
#define SR_MODEL_EXTERN(name) extern const sr_model_kind sr_model_##name;
SR_MODELS(SR_MODEL_EXTERN)

/* model.c: the model of a tokenizer.json and its vocabulary, and its number. */
sr_status sr_model_read(sr_model **out, uint64_t *number, sr_pieces *pieces, const sr_json *at,
                        bool bytes);
void sr_model_free(sr_model *m); /* may be NULL */

/* The ids of {"token": id, ..}, the vocabulary of a model; none twice. */
sr_status sr_model_vocab(sr_pieces *pieces, const sr_json *model);

SR_END_C

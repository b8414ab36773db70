/* pieces.h - strings and their ids: the vocabulary of a model, looked up by string or by id.
 *
 * Ids may have holes.  Strings are added once each, and found by a hash that is keyed at random, so
 * that files with colliding strings cannot be constructed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum {
    SR_TOKENIZER_ID_LIMIT = 1 << 24, /* ids are below */
    SR_TOKENIZER_TOKEN_LIMIT = 1024  /* bytes of a token */
};

typedef struct sr_pieces {
    char *text;       /* all strings */
    uint32_t *start;  /* of each id in text, by id; UINT32_MAX where an id has none */
    uint32_t *length; /* of each id */
    int32_t *slots;   /* ids plus one, open addressing; 0: empty */
    size_t text_size, text_room;
    int32_t size, room; /* largest id plus one; ids that there is room for */
    uint32_t mask;
    int32_t count;
    uint64_t seed;
} sr_pieces;

/* Room for ids below `size` and about `count` strings. */
sr_status sr_pieces_init(sr_pieces *p, int32_t size, size_t count);
void sr_pieces_free(sr_pieces *p);

/* Adds a string with an id below the size; *known is its id if it is there already, else -1. */
sr_status sr_pieces_add(sr_pieces *p, const void *bytes, size_t size, int32_t id, int32_t *known);

/* *id = the number of a string, which is added if it is new, with the next id: for pieces that are
 * empty at first, all zero. */
sr_status sr_pieces_append(uint32_t *id, sr_pieces *p, const void *bytes, size_t size);

/* The id of a string, -1 if it is not there. */
int32_t sr_pieces_find(const sr_pieces *p, const void *bytes, size_t size);

/* The id of the token of a byte, such as <0x0A>, -1 if there is none. */
int32_t sr_pieces_find_byte(const sr_pieces *p, uint8_t byte);

/* The string of an id, NULL if it has none. */
static inline const char *sr_pieces_text(const sr_pieces *p, int32_t id, size_t *size) {
    if (id < 0 || id >= p->size || p->start[id] == UINT32_MAX) return NULL;
    *size = p->length[id];
    return p->text + p->start[id];
}

SR_END_C

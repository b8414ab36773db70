/* added.h - added tokens: strings that are found in a text before anything else is done with it.
 *
 * Those with `normalized` are found in the normalized text, the others in the text as it is; at
 * each place the longest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/json_at.h"
#include "core/tokenizer/trie.h"

SR_BEGIN_C

typedef struct sr_added_token {
    char *content;
    size_t size;
    char *shown; /* what is looked for in texts, and what decoding gives */
    size_t shown_size;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} sr_added_token;

/* A part of a text: an added token, or text between two (id -1). */
typedef struct sr_added_part {
    size_t first, last;
    int32_t id;
} sr_added_part;

typedef struct sr_added {
    sr_added_token *tokens; /* in the order of the file */
    size_t count;
    int32_t *by_id;          /* the token of an id plus one, below the size of the tokenizer */
    sr_trie tries[2];        /* of texts as they are, of normalized texts: indices of tokens */
    bool first[2][256];      /* the bytes that begin one */
    int only[2];             /* the only such byte; -1: there are several */
    bool any_short[2];       /* one has up to 3 bytes */
    uint8_t starts[2][8192]; /* a bit for every two bytes that can begin one of up to 3 bytes */
    uint8_t fours[2][8192];  /* a bit for a hash of the first four bytes of longer ones */
    bool any[2];
} sr_added;

/* Reads added_tokens; the tries are built by sr_added_index(). */
sr_status sr_added_read(sr_added *a, const sr_json *at);
void sr_added_free(sr_added *a);

/* Builds a trie of the tokens that are found in texts as they are (0) or normalized (1). */
sr_status sr_added_index(sr_added *a, int normalized);

typedef struct sr_added_parts {
    sr_added_part *list;
    size_t count, room;
} sr_added_parts;

/* Splits a text; special tokens are text when `literal`. */
sr_status sr_added_split(sr_added_parts *out, const sr_added *a, int normalized, bool literal,
                         const uint8_t *bytes, size_t size);

SR_END_C

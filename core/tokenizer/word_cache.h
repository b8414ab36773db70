/* word_cache.h - a cache of known words: the ids of short byte strings.
 *
 * A word has two places, and the last two that came there stay.  A cache belongs to one sr_tokens
 * and to the tokenizer that used it last.  It starts small, for short texts, and grows between
 * calls while new words come.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/tokenizer/tokenizer.h"

SR_BEGIN_C

enum {
    SR_CACHE_KEY = 24, /* bytes of the longest word */
    SR_CACHE_IDS = 7,  /* most tokens of a word */
};

typedef struct sr_cached {
    uint64_t key[SR_CACHE_KEY / 8]; /* the bytes, padded with zeros */
    int32_t ids[SR_CACHE_IDS];
    uint8_t ends[SR_CACHE_IDS]; /* of each token, in bytes from the start; only with spans */
    uint8_t size;               /* of the key; 0: empty */
    uint8_t count, unknown;
} sr_cached;

struct sr_word_cache {
    uint64_t serial; /* of the tokenizer that these ids belong to */
    sr_cached *entries;
    int shift;     /* 64 minus the binary logarithm of their number */
    size_t filled; /* entries written since it has this size */
};

/* Makes tokens->cache belong to the tokenizer with this serial number, with room for the words of
 * a text of `size` bytes. */
sr_status sr_tokens_prepare_cache(sr_tokens *tokens, uint64_t serial, size_t size);
void sr_word_cache_free(sr_word_cache *cache); /* may be NULL */

/* Room for `more` tokens. */
sr_status sr_tokens_grow(sr_tokens *tokens, size_t more);
static inline sr_status sr_tokens_reserve(sr_tokens *tokens, size_t more) {
    return tokens->room - tokens->count >= more ? SR_OK : sr_tokens_grow(tokens, more);
}

/* As many bytes of ones as a key may have, and of zeros. */
extern const uint8_t sr_cache_ones[2 * SR_CACHE_KEY];

/* The key of `size` bytes, 1 to SR_CACHE_KEY; nothing at or after `end` is read. */
static inline void sr_cache_key(uint64_t key[SR_CACHE_KEY / 8], const uint8_t *bytes, size_t size,
                                const uint8_t *end) {
    if (end - bytes < SR_CACHE_KEY) {
        key[0] = key[1] = key[2] = 0;
        memcpy(key, bytes, size);
        return;
    }
    uint64_t keep[SR_CACHE_KEY / 8];
    memcpy(keep, sr_cache_ones + SR_CACHE_KEY - size, SR_CACHE_KEY);
    memcpy(key, bytes, SR_CACHE_KEY);
    for (int i = 0; i < SR_CACHE_KEY / 8; i++) key[i] &= keep[i];
}

/* The first of the two places of a key. */
static inline sr_cached *sr_cache_places(const sr_word_cache *cache,
                                         const uint64_t key[SR_CACHE_KEY / 8]) {
    uint64_t h =
        key[0] * 0x9E3779B97F4A7C15u ^ key[1] * 0xC2B2AE3D27D4EB4Fu ^ key[2] * 0x165667B19E3779F9u;
    return &cache->entries[((h ^ h >> 29) * 0xD6E8FEB86659FD93u >> cache->shift) & ~(uint64_t)1];
}

static inline bool sr_cache_holds(const sr_cached *e, const uint64_t key[SR_CACHE_KEY / 8],
                                  size_t size) {
    return e->key[0] == key[0] && e->key[1] == key[1] && e->key[2] == key[2] && e->size == size;
}

/* What is known of a word, NULL if nothing is.  A word found in its second place moves to the
 * first. */
static inline const sr_cached *sr_cache_find(const sr_word_cache *cache,
                                             const uint64_t key[SR_CACHE_KEY / 8], size_t size) {
    sr_cached *e = sr_cache_places(cache, key);
    if (__builtin_expect(sr_cache_holds(e, key, size), true)) return e;
    if (!sr_cache_holds(e + 1, key, size)) return NULL;
    sr_cached found = e[1];
    e[1] = e[0];
    e[0] = found;
    return e;
}

/* A place for a word that is not there, with its key; the caller fills in the rest. */
static inline sr_cached *sr_cache_add(sr_word_cache *cache, const uint64_t key[SR_CACHE_KEY / 8],
                                      size_t size) {
    sr_cached *e = sr_cache_places(cache, key);
    e[1] = e[0];
    memcpy(e->key, key, SR_CACHE_KEY);
    e->size = (uint8_t)size;
    cache->filled++;
    return e;
}

SR_END_C

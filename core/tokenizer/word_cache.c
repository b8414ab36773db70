#include "core/tokenizer/word_cache.h"

#include "core/base/mem.h"

enum { FIRST = 8, STEP = 2, WHOLE_TEXT = 13, LAST = 16 }; /* binary logarithms of sizes */

const uint8_t sr_cache_ones[2 * SR_CACHE_KEY] = {[0 ... SR_CACHE_KEY - 1] = 0xFF};

static size_t size_of(const sr_word_cache *c) {
    return (size_t)1 << (64 - c->shift);
}

/* Gives the cache 1 << bits entries, and moves those that it has. */
static sr_status resize(sr_word_cache *c, int bits) {
    sr_word_cache bigger = {.serial = c->serial, .shift = 64 - bits};
    size_t bytes = sizeof *c->entries << bits;
    SR_TRY(sr_alloc_aligned((void **)&bigger.entries, bytes));
    memset(bigger.entries, 0, bytes);
    for (size_t i = c->entries != NULL ? size_of(c) : 0; i-- > 0;) { /* the older of two first */
        const sr_cached *e = &c->entries[i];
        if (e->size > 0) *sr_cache_add(&bigger, e->key, e->size) = *e;
    }
    bigger.filled = 0;
    sr_free_aligned(c->entries);
    *c = bigger;
    return SR_OK;
}

/* The size for a text of `size` bytes, after what has been seen. */
static int bits_for(const sr_word_cache *c, size_t size) {
    int bits = c->entries != NULL ? 64 - c->shift : FIRST;
    if (c->entries != NULL && c->filled > size_of(c)) bits += STEP;
    if (bits > LAST) bits = LAST;
    while (bits < WHOLE_TEXT && size >> 5 >> bits != 0) bits++;
    return bits;
}

sr_status sr_tokens_prepare_cache(sr_tokens *tokens, uint64_t serial, size_t size) {
    if (tokens->cache == NULL) SR_TRY(sr_new(&tokens->cache, 1));
    sr_word_cache *c = tokens->cache;
    if (c->entries != NULL && c->serial != serial) {
        memset(c->entries, 0, size_of(c) * sizeof *c->entries);
        c->filled = 0;
    }
    c->serial = serial;
    int bits = bits_for(c, size);
    return c->entries == NULL || bits > 64 - c->shift ? resize(c, bits) : SR_OK;
}

void sr_word_cache_free(sr_word_cache *cache) {
    if (cache == NULL) return;
    sr_free_aligned(cache->entries);
    sr_free(cache);
}

sr_status sr_tokens_grow(sr_tokens *tokens, size_t more) {
    size_t room = tokens->room > 0 ? tokens->room : 256;
    while (room - tokens->count < more) SR_TRY(sr_mul_size(&room, room, 2));
    SR_TRY(sr_grow(&tokens->ids, room));
    if (tokens->want_spans) SR_TRY(sr_grow(&tokens->spans, room));
    if (tokens->want_starts) SR_TRY(sr_grow(&tokens->starts, room));
    tokens->room = room;
    return SR_OK;
}

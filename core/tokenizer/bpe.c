#include "core/tokenizer/bpe.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/tokenizer/bpe_model.h"
#include "core/tokenizer/tokenizer_impl.h"
#include "core/unicode/utf8.h"

enum { SHORT = 32 }; /* symbols that are merged by scanning for the lowest rank */

typedef struct symbol {
    int32_t id;
    uint32_t size;          /* in bytes; 0: merged into the one before it */
    int32_t rank;           /* of the merge with the next one, INT32_MAX: none */
    int32_t merged;         /* what they merge to */
    uint32_t before, after; /* neighbours, by index; UINT32_MAX: none */
} symbol;

/* A merge that is possible at a place, unless something there has changed. */
typedef struct chance {
    int32_t rank;
    uint32_t at;
    int32_t left, right;
} chance;

void sr_bpe_scratch_free(sr_bpe_scratch *s) {
    sr_free(s->symbols);
    sr_free(s->heap);
    *s = (sr_bpe_scratch){0};
}

/* ---- characters ---- */

/* The id of the character at bytes[first, last) of a piece, with the affixes of its place. */
static int32_t id_with_affixes(const sr_bpe *b, const uint8_t *bytes, size_t first, size_t last,
                               size_t size) {
    char text[64 + 64 + 8];
    size_t used = 0;
    if (first > 0 && b->prefix_size > 0) {
        memcpy(text, b->prefix, b->prefix_size);
        used = b->prefix_size;
    }
    if (b->bytes)
        used += (size_t)sr_utf8_encode((uint8_t *)text + used, sr_char_of_byte(bytes[first]));
    else
        for (size_t i = first; i < last; i++) text[used++] = (char)bytes[i];
    if (last == size && b->suffix_size > 0) {
        memcpy(text + used, b->suffix, b->suffix_size);
        used += b->suffix_size;
    }
    return sr_pieces_find(b->pieces, text, used);
}

static int32_t id_of(const sr_bpe *b, const uint8_t *bytes, size_t first, size_t last,
                     size_t size) {
    if (b->prefix_size + b->suffix_size > 0) return id_with_affixes(b, bytes, first, last, size);
    if (b->bytes || bytes[first] < 0x80) return b->first[bytes[first]];
    return sr_pieces_find(b->pieces, bytes + first, last - first);
}

typedef struct reading {
    symbol *symbols;
    size_t count;
    bool pending; /* an unknown token of `size` bytes */
    uint32_t size;
    uint64_t *unknown;
} reading;

static void push(reading *r, int32_t id, uint32_t size) {
    r->symbols[r->count++] = (symbol){.id = id, .size = size};
}

static void flush(const sr_bpe *b, reading *r) {
    if (!r->pending) return;
    push(r, b->unknown, r->size);
    r->pending = false;
    ++*r->unknown;
}

/* <0x..> for each byte of a character; false if one of them has no token. */
static bool push_bytes(const sr_bpe *b, reading *r, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (b->byte_ids[bytes[i]] < 0) return false;
    for (size_t i = 0; i < size; i++) push(r, b->byte_ids[bytes[i]], 1);
    return true;
}

/* The affixes of a character take part in its byte fallback, so both together are refused. */
static void read_char(const sr_bpe *b, reading *r, const uint8_t *bytes, size_t first, size_t last,
                      size_t size) {
    int32_t id = id_of(b, bytes, first, last, size);
    uint32_t length = (uint32_t)(last - first);
    if (id >= 0) {
        flush(b, r);
        push(r, id, length);
        return;
    }
    if (b->fallback && push_bytes(b, r, bytes + first, length)) return;
    if (b->unknown < 0) return;
    if (r->pending && !b->fuse) flush(b, r);
    r->size = r->pending ? r->size + length : length;
    r->pending = true;
}

static size_t read_symbols(symbol *symbols, const sr_bpe *b, const uint8_t *bytes, size_t size,
                           uint64_t *unknown) {
    reading r = {.symbols = symbols, .unknown = unknown};
    for (size_t at = 0, next; at < size; at = next) {
        next = at + 1;
        while (!b->bytes && next < size && (bytes[next] & 0xC0) == 0x80) next++;
        read_char(b, &r, bytes, at, next, size);
    }
    flush(b, &r);
    return r.count;
}

/* ---- merging ---- */

static inline void look_up(const sr_bpe *b, symbol *s, const symbol *next) {
    uint64_t pair = sr_bpe_pair(s->id, next->id);
    s->rank = INT32_MAX;
    if (!sr_bpe_may_merge(b, pair)) return;
    const sr_merge *m = sr_bpe_slot(b, pair);
    bool found = m->pair != UINT64_MAX;
    s->rank = found ? m->rank : INT32_MAX;
    s->merged = m->id;
}

/* Merges the pair of lowest rank, the first of equal ones, until there is none. */
static size_t merge_short(const sr_bpe *b, symbol *s, size_t count) {
    for (size_t i = 0; i + 1 < count; i++) look_up(b, &s[i], &s[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (s[i].rank < s[best].rank) best = i;
        if (s[best].rank == INT32_MAX) break;
        s[best].id = s[best].merged;
        s[best].size += s[best + 1].size;
        memmove(s + best + 1, s + best + 2, (count - best - 2) * sizeof *s);
        count--;
        if (best + 1 < count) look_up(b, &s[best], &s[best + 1]);
        if (best > 0) look_up(b, &s[best - 1], &s[best]);
    }
    return count;
}

static bool is_before(const chance *a, const chance *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

typedef struct heap {
    chance *list;
    size_t count;
} heap;

static void heap_push(heap *h, chance c) {
    size_t at = h->count++;
    for (; at > 0 && is_before(&c, &h->list[(at - 1) / 2]); at = (at - 1) / 2)
        h->list[at] = h->list[(at - 1) / 2];
    h->list[at] = c;
}

static chance heap_pop(heap *h) {
    chance top = h->list[0], last = h->list[--h->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && is_before(&h->list[child + 1], &h->list[child])) child++;
        if (!is_before(&h->list[child], &last)) break;
        h->list[at] = h->list[child];
    }
    h->list[at] = last;
    return top;
}

/* Adds the merge of the symbol at `at` with the next one, if there is one. */
static void consider(const sr_bpe *b, heap *h, symbol *s, uint32_t at) {
    uint32_t after = s[at].after;
    if (after == UINT32_MAX) return;
    look_up(b, &s[at], &s[after]);
    if (s[at].rank == INT32_MAX) return;
    heap_push(h, (chance){s[at].rank, at, s[at].id, s[after].id});
}

/* The same by a heap of chances, for long pieces.  Each merge adds two chances at most. */
static size_t merge_long(const sr_bpe *b, symbol *s, size_t count, chance *room) {
    heap h = {.list = room};
    for (uint32_t i = 0; i < count; i++) {
        s[i].before = i - 1;
        s[i].after = i + 1 < count ? i + 1 : UINT32_MAX;
    }
    for (uint32_t i = 0; i + 1 < count; i++) consider(b, &h, s, i);
    while (h.count > 0) {
        chance c = heap_pop(&h);
        symbol *left = &s[c.at];
        if (left->size == UINT32_MAX || left->id != c.left || left->after == UINT32_MAX) continue;
        symbol *right = &s[left->after];
        if (right->id != c.right) continue;
        left->id = left->merged;
        left->size += right->size;
        left->after = right->after;
        right->size = UINT32_MAX; /* gone */
        if (left->after != UINT32_MAX) s[left->after].before = c.at;
        consider(b, &h, s, c.at);
        if (left->before != UINT32_MAX) consider(b, &h, s, left->before);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (s[i].size != UINT32_MAX) s[kept++] = s[i];
    return kept;
}

/* ---- a piece ---- */

/* Room for symbols, at most one a byte, and for the chances of merging them. */
static sr_status make_room(sr_bpe_scratch *s, size_t size) {
    if (size > s->symbol_room) {
        SR_TRY(sr_resize(&s->symbols, 2 * size, sizeof(symbol)));
        s->symbol_room = 2 * size;
    }
    if (size > SHORT && 3 * size > s->heap_room) {
        SR_TRY(sr_resize(&s->heap, 6 * size, sizeof(chance)));
        s->heap_room = 6 * size;
    }
    return SR_OK;
}

static sr_status put_parts(sr_parts *out, const symbol *s, size_t count) {
    uint32_t at = 0;
    SR_TRY(sr_parts_reserve(out, count));
    for (size_t i = 0; i < count; i++) {
        out->list[i] = (sr_part){s[i].id, at, at + s[i].size};
        at += s[i].size;
    }
    out->count = count;
    return SR_OK;
}

sr_status sr_bpe_encode(sr_parts *out, const sr_bpe *b, sr_bpe_scratch *scratch,
                        const uint8_t *bytes, size_t size) {
    if (b->ignore_merges) {
        int32_t id = sr_pieces_find(b->bytes ? &b->raw : b->pieces, bytes, size);
        if (id >= 0) return put_parts(out, &(symbol){.id = id, .size = (uint32_t)size}, 1);
    }
    SR_TRY(make_room(scratch, size));
    symbol *s = scratch->symbols;
    size_t count = read_symbols(s, b, bytes, size, &out->unknown);
    if (count > 1)
        count = count <= SHORT ? merge_short(b, s, count) : merge_long(b, s, count, scratch->heap);
    return put_parts(out, s, count);
}

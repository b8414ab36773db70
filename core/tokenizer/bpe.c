/* bpe.c - byte-pair encoding: the characters of a piece, merged by rank. */
#include <string.h>
#include <sys/random.h>

#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/model.h"
#include "core/unicode/utf8.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* A pair of ids and what they merge to. */
typedef struct merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: empty */
    int32_t rank, id;
} merge;

typedef struct bpe {
    sr_model model;
    sr_pieces raw; /* with `bytes`: ids by bytes */
    bool bytes;
    merge *merges; /* open addressing */
    uint64_t mask, seed;
    uint64_t *filter; /* a bit for each merge: most pairs have none, and this is small */
    uint64_t filter_mask;
    bool fuse, fallback, ignore_merges;
    char *suffix, *prefix;
    size_t suffix_size, prefix_size;
    int32_t first[256];    /* ids of one-byte characters, alone or with `bytes` */
    int32_t byte_ids[256]; /* of <0x00> .. <0xFF>, -1 */
} bpe;

static inline uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static inline uint64_t hash_of(const bpe *b, uint64_t pair) {
    uint64_t h = (pair ^ b->seed) * 0xD6E8FEB86659FD93u;
    return (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
}

/* The merge of a pair, or the empty slot where it would be. */
static inline merge *slot_of(const bpe *b, uint64_t pair) {
    for (uint64_t i = hash_of(b, pair) >> 20 & b->mask;; i = (i + 1) & b->mask)
        if (b->merges[i].pair == pair || b->merges[i].pair == UINT64_MAX) return &b->merges[i];
}

/* Whether a pair may have a merge. */
static inline bool may_merge(const bpe *b, uint64_t pair) {
    uint64_t bit = hash_of(b, pair) >> 24 & b->filter_mask;
    return (b->filter[bit >> 6] >> (bit & 63) & 1) != 0;
}

/* ---- the byte level: tokens of bytes ---- */

/* The bytes that a token encodes; false if one of its characters encodes none. */
static bool to_bytes(uint8_t *out, size_t *count, const char *token, size_t size) {
    *count = 0;
    for (size_t i = 0; i < size;) {
        int32_t cp;
        i += (size_t)sr_utf8_decode(&cp, (const uint8_t *)token + i, size - i);
        int byte = cp < 0 ? -1 : sr_byte_of_char(cp);
        if (byte < 0) return false;
        out[(*count)++] = (uint8_t)byte;
    }
    return true;
}

/* ids by bytes, for ignore_merges and for affixes. */
static sr_status fill_raw(bpe *b) {
    uint8_t bytes[SR_TOKENIZER_TOKEN_LIMIT];
    SR_TRY(sr_pieces_init(&b->raw, b->model.pieces->size, (size_t)b->model.pieces->count));
    for (int32_t id = 0; id < b->model.pieces->size; id++) {
        size_t size, count;
        int32_t known;
        const char *token = sr_pieces_text(b->model.pieces, id, &size);
        if (token == NULL || !to_bytes(bytes, &count, token, size)) continue;
        SR_TRY(sr_pieces_add(&b->raw, bytes, count, id, &known));
    }
    return SR_OK;
}

/* ---- merges ---- */

/* The two tokens of a merge: "a b" or ["a", "b"]. */
static sr_status split_merge(const char *part[2], size_t size[2], const sr_json *at) {
    const char *text = json_string_value(at->value);
    if (text != NULL) {
        size_t length = json_string_length(at->value);
        const char *space = memchr(text, ' ', length);
        if (space == NULL || memchr(space + 1, ' ', length - (size_t)(space + 1 - text)) != NULL)
            return sr_json_refuse(at, "is not two tokens with a space between them");
        part[0] = text, size[0] = (size_t)(space - text);
        part[1] = space + 1, size[1] = length - size[0] - 1;
        return SR_OK;
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(at->value, i);
        if (!json_is_string(one) || json_array_size(at->value) != 2)
            return sr_json_refuse(at, "is not a list of two tokens");
        part[i] = json_string_value(one);
        size[i] = json_string_length(one);
    }
    return SR_OK;
}

static sr_status add_merge(bpe *b, const sr_json *at, int32_t rank) {
    const char *part[2];
    size_t size[2];
    int32_t ids[2];
    char whole[2 * SR_TOKENIZER_TOKEN_LIMIT];
    SR_TRY(split_merge(part, size, at));
    for (int i = 0; i < 2; i++) {
        ids[i] = sr_pieces_find(b->model.pieces, part[i], size[i]);
        if (ids[i] < 0)
            return sr_json_refuse(at, "has '%.*s', which is not in the vocabulary",
                                  (int)(size[i] < 64 ? size[i] : 64), part[i]);
    }
    size_t skip = size[1] >= b->prefix_size ? b->prefix_size : 0;
    memcpy(whole, part[0], size[0]);
    memcpy(whole + size[0], part[1] + skip, size[1] - skip);
    int32_t id = sr_pieces_find(b->model.pieces, whole, size[0] + size[1] - skip);
    if (id < 0) return sr_json_refuse(at, "makes a token that is not in the vocabulary");
    uint64_t pair = pair_of(ids[0], ids[1]);
    uint64_t bit = hash_of(b, pair) >> 24 & b->filter_mask;
    b->filter[bit >> 6] |= (uint64_t)1 << (bit & 63);
    *slot_of(b, pair) = (merge){pair, rank, id};
    return SR_OK;
}

/* *hash = a hash of all merges. */
static sr_status read_merges(uint64_t *hash, bpe *b, const sr_json *model) {
    sr_json list = sr_json_key(model, "merges");
    SR_TRY(sr_json_list(&list));
    size_t count = json_array_size(list.value), slots = 64;
    if (count > INT32_MAX / 4) return sr_json_refuse(&list, "is too long");
    while (slots < 2 * count) slots *= 2;
    SR_TRY(sr_new(&b->merges, slots));
    memset(b->merges, 0xFF, slots * sizeof *b->merges);
    b->mask = slots - 1;
    SR_TRY(sr_new(&b->filter, slots * 8 / 64));
    b->filter_mask = slots * 8 - 1;
    if (getrandom(&b->seed, sizeof b->seed, GRND_NONBLOCK) != sizeof b->seed) b->seed = 0x9E3779B9;
    *hash = count;
    for (size_t i = 0; i < count; i++) {
        sr_json one = sr_json_item(&list, i);
        const char *part[2];
        size_t size[2];
        SR_TRY(add_merge(b, &one, (int32_t)i));
        SR_TRY(split_merge(part, size, &one));
        *hash = XXH3_64bits_withSeed(part[0], size[0], *hash);
        *hash = XXH3_64bits_withSeed(part[1], size[1], *hash);
    }
    return SR_OK;
}

/* ---- cutting at U+2581 ---- */

static bool has_inner_mark(const char *token, size_t size) {
    for (size_t i = 1; i + 3 <= size; i++)
        if (memcmp(token + i, "\xE2\x96\x81", 3) == 0 &&
            (i < 3 || memcmp(token + i - 3, "\xE2\x96\x81", 3) != 0))
            return true;
    return false;
}

/* Merges never cross the cut if no merged token has a mark after another character, and unknown
 * characters never fuse over it, since the mark has a token. */
static bool may_cut(const bpe *b) {
    if (b->bytes || b->ignore_merges || b->prefix_size > 0 || b->suffix_size > 0) return false;
    if (sr_pieces_find(b->model.pieces, "\xE2\x96\x81", 3) < 0) return false;
    int fallbacks = 0;
    for (int i = 0; i < 256; i++) fallbacks += b->byte_ids[i] >= 0;
    if (b->fallback && fallbacks != 0 && fallbacks != 256) return false;
    for (uint64_t i = 0; i <= b->mask; i++) {
        size_t size;
        if (b->merges[i].pair == UINT64_MAX) continue;
        const char *token = sr_pieces_text(b->model.pieces, b->merges[i].id, &size);
        if (token != NULL && has_inner_mark(token, size)) return false;
    }
    return true;
}

/* ---- the model ---- */

static sr_status read_affix(char **out, size_t *size, const sr_json *model, const char *key) {
    const char *text;
    SR_TRY(sr_json_optional_text(&text, size, model, key));
    sr_json at = sr_json_key(model, key);
    if (*size > 64) return sr_json_refuse(&at, "has more than 64 bytes");
    if (*size == 0) return SR_OK;
    SR_TRY(sr_new(out, *size + 1));
    memcpy(*out, text, *size);
    return SR_OK;
}

static sr_status read_unknown(bpe *b, const sr_json *model) {
    const char *text;
    size_t size;
    SR_TRY(sr_json_optional_text(&text, &size, model, "unk_token"));
    sr_json at = sr_json_key(model, "unk_token");
    b->model.unknown = text != NULL ? sr_pieces_find(b->model.pieces, text, size) : -1;
    if (text != NULL && b->model.unknown < 0)
        return sr_json_refuse(&at, "is '%.64s', which is not in the vocabulary", text);
    return SR_OK;
}

static sr_status read_options(bpe *b, const sr_json *model) {
    sr_json dropout = sr_json_key(model, "dropout"), fallback = sr_json_key(model, "byte_fallback");
    if (!sr_json_absent(&dropout) && json_number_value(dropout.value) != 0)
        return sr_json_refuse(&dropout, "is not supported: it makes ids random");
    SR_TRY(read_unknown(b, model));
    SR_TRY(read_affix(&b->prefix, &b->prefix_size, model, "continuing_subword_prefix"));
    SR_TRY(read_affix(&b->suffix, &b->suffix_size, model, "end_of_word_suffix"));
    SR_TRY(sr_json_bool(&b->fuse, model, "fuse_unk", false));
    SR_TRY(sr_json_bool(&b->fallback, model, "byte_fallback", false));
    SR_TRY(sr_json_bool(&b->ignore_merges, model, "ignore_merges", false));
    if (b->fallback && b->bytes)
        return sr_json_refuse(&fallback, "is not supported together with ByteLevel");
    return SR_OK;
}

static void fill_characters(bpe *b) {
    for (int i = 0; i < 256; i++) {
        b->byte_ids[i] = b->fallback ? sr_pieces_find_byte(b->model.pieces, (uint8_t)i) : -1;
        uint8_t one = (uint8_t)i;
        b->first[i] = b->bytes   ? sr_pieces_find(&b->raw, &one, 1)
                      : i < 0x80 ? sr_pieces_find(b->model.pieces, &one, 1)
                                 : -1;
    }
}

static sr_status read(sr_model *m, sr_pieces *pieces, const sr_json *model, bool bytes) {
    bpe *b = (bpe *)m;
    uint64_t merges = 0;
    b->bytes = bytes;
    SR_TRY(sr_model_vocab(pieces, model));
    SR_TRY(read_options(b, model));
    if (b->bytes) SR_TRY(fill_raw(b));
    SR_TRY(read_merges(&merges, b, model));
    fill_characters(b);
    m->cuts = may_cut(b);
    uint64_t parts[] = {merges,
                        (uint64_t)b->model.unknown,
                        b->fuse,
                        b->fallback,
                        b->ignore_merges,
                        XXH3_64bits(b->prefix, b->prefix_size),
                        XXH3_64bits(b->suffix, b->suffix_size)};
    m->fingerprints[0] = XXH3_64bits(parts, sizeof parts);
    return SR_OK;
}

static void free_bpe(sr_model *m) {
    bpe *b = (bpe *)m;
    sr_pieces_free(&b->raw);
    sr_free(b->merges);
    sr_free(b->filter);
    sr_free(b->suffix);
    sr_free(b->prefix);
}

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

/* ---- characters ---- */

/* The id of the character at bytes[first, last) of a piece, with the affixes of its place. */
static int32_t id_with_affixes(const bpe *b, const uint8_t *bytes, size_t first, size_t last,
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
    return sr_pieces_find(b->model.pieces, text, used);
}

static int32_t id_of(const bpe *b, const uint8_t *bytes, size_t first, size_t last, size_t size) {
    if (b->prefix_size + b->suffix_size > 0) return id_with_affixes(b, bytes, first, last, size);
    if (b->bytes || bytes[first] < 0x80) return b->first[bytes[first]];
    return sr_pieces_find(b->model.pieces, bytes + first, last - first);
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

static void flush(const bpe *b, reading *r) {
    if (!r->pending) return;
    push(r, b->model.unknown, r->size);
    r->pending = false;
    ++*r->unknown;
}

/* <0x..> for each byte of a character; false if one of them has no token. */
static bool push_bytes(const bpe *b, reading *r, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (b->byte_ids[bytes[i]] < 0) return false;
    for (size_t i = 0; i < size; i++) push(r, b->byte_ids[bytes[i]], 1);
    return true;
}

/* The affixes of a character take part in its byte fallback, so both together are refused. */
static void read_char(const bpe *b, reading *r, const uint8_t *bytes, size_t first, size_t last,
                      size_t size) {
    int32_t id = id_of(b, bytes, first, last, size);
    uint32_t length = (uint32_t)(last - first);
    if (id >= 0) {
        flush(b, r);
        push(r, id, length);
        return;
    }
    if (b->fallback && push_bytes(b, r, bytes + first, length)) return;
    if (b->model.unknown < 0) return;
    if (r->pending && !b->fuse) flush(b, r);
    r->size = r->pending ? r->size + length : length;
    r->pending = true;
}

static size_t read_symbols(symbol *symbols, const bpe *b, const uint8_t *bytes, size_t size,
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

static inline void look_up(const bpe *b, symbol *s, const symbol *next) {
    uint64_t pair = pair_of(s->id, next->id);
    s->rank = INT32_MAX;
    if (!may_merge(b, pair)) return;
    const merge *m = slot_of(b, pair);
    bool found = m->pair != UINT64_MAX;
    s->rank = found ? m->rank : INT32_MAX;
    s->merged = m->id;
}

/* Merges the pair of lowest rank, the first of equal ones, until there is none. */
static size_t merge_short(const bpe *b, symbol *s, size_t count) {
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
static void consider(const bpe *b, heap *h, symbol *s, uint32_t at) {
    uint32_t after = s[at].after;
    if (after == UINT32_MAX) return;
    look_up(b, &s[at], &s[after]);
    if (s[at].rank == INT32_MAX) return;
    heap_push(h, (chance){s[at].rank, at, s[at].id, s[after].id});
}

/* The same by a heap of chances, for long pieces.  Each merge adds two chances at most. */
static size_t merge_long(const bpe *b, symbol *s, size_t count, chance *room) {
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

/* At most one symbol a byte, and three chances of merging for each. */
static sr_status encode(sr_parts *out, const sr_model *m, sr_model_room *room, const uint8_t *bytes,
                        size_t size) {
    const bpe *b = (const bpe *)m;
    if (b->ignore_merges) {
        int32_t id = sr_pieces_find(b->bytes ? &b->raw : m->pieces, bytes, size);
        if (id >= 0) return put_parts(out, &(symbol){.id = id, .size = (uint32_t)size}, 1);
    }
    SR_TRY(sr_model_reserve(room, 0, size, sizeof(symbol)));
    if (size > SHORT) SR_TRY(sr_model_reserve(room, 1, 3 * size, sizeof(chance)));
    symbol *s = room->memory[0];
    size_t count = read_symbols(s, b, bytes, size, &out->unknown);
    if (count > 1)
        count =
            count <= SHORT ? merge_short(b, s, count) : merge_long(b, s, count, room->memory[1]);
    return put_parts(out, s, count);
}

static const char *const keys[] = {
    "type",
    "vocab",
    "merges",
    "unk_token",
    "dropout",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
    NULL,
};

const sr_model_kind sr_model_bpe = {
    .name = "BPE",
    .keys = keys,
    .size = sizeof(bpe),
    .bytes = true,
    .spaces = true,
    .read = read,
    .free = free_bpe,
    .encode = encode,
};

#include "core/tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/classes.h"
#include "core/tokenizer/pieces.h"
#include "core/unicode/utf8.h"

static sr_status read_one(sr_added_token *t, const sr_json *at) {
    const char *content;
    int64_t id;
    SR_TRY(sr_json_object(at));
    SR_TRY(sr_json_integer(&id, at, "id", 0, SR_TOKENIZER_ID_LIMIT - 1));
    SR_TRY(sr_json_text(&content, &t->size, at, "content"));
    if (t->size == 0 || t->size > SR_TOKENIZER_TOKEN_LIMIT)
        return sr_json_refuse(at, "has %zu bytes; a token has 1 to %d", t->size,
                              SR_TOKENIZER_TOKEN_LIMIT);
    SR_TRY(sr_json_bool(&t->single_word, at, "single_word", false));
    SR_TRY(sr_json_bool(&t->lstrip, at, "lstrip", false));
    SR_TRY(sr_json_bool(&t->rstrip, at, "rstrip", false));
    SR_TRY(sr_json_bool(&t->normalized, at, "normalized", true));
    SR_TRY(sr_json_bool(&t->special, at, "special", false));
    t->id = (int32_t)id;
    SR_TRY(sr_new(&t->content, t->size + 1));
    memcpy(t->content, content, t->size);
    return SR_OK;
}

sr_status sr_added_read(sr_added *a, const sr_json *at) {
    if (sr_json_absent(at)) return SR_OK;
    SR_TRY(sr_json_list(at));
    size_t count = json_array_size(at->value);
    if (count >= SR_TOKENIZER_ID_LIMIT) return sr_json_refuse(at, "is too long");
    sr_classes_init();
    SR_TRY(sr_new(&a->tokens, count));
    for (; a->count < count; a->count++) {
        sr_json one = sr_json_item(at, a->count);
        SR_TRY(read_one(&a->tokens[a->count], &one));
    }
    return SR_OK;
}

void sr_added_free(sr_added *a) {
    for (size_t i = 0; i < a->count; i++) {
        sr_free(a->tokens[i].content);
        sr_free(a->tokens[i].shown);
    }
    sr_free(a->by_id);
    sr_free(a->tokens);
    sr_trie_free(&a->tries[0]);
    sr_trie_free(&a->tries[1]);
    *a = (sr_added){0};
}

static uint32_t hash_of_four(const void *bytes) {
    uint32_t four;
    memcpy(&four, bytes, 4);
    return four * 0x9E3779B1u >> 16;
}

static void set_bit(uint8_t *bits, unsigned at) {
    bits[at >> 3] |= (uint8_t)(1 << (at & 7));
}

static bool has_bit(const uint8_t *bits, unsigned at) {
    return (bits[at >> 3] >> (at & 7) & 1) != 0;
}

/* Notes how a string begins; after one byte there may be any. */
static void note_start(sr_added *a, int normalized, const char *text, size_t size) {
    if (!a->any[normalized])
        a->only[normalized] = (uint8_t)text[0];
    else if (a->only[normalized] != (uint8_t)text[0])
        a->only[normalized] = -1;
    a->any[normalized] = true;
    a->first[normalized][(uint8_t)text[0]] = true;
    if (size >= 4) {
        set_bit(a->fours[normalized], hash_of_four(text));
        return;
    }
    a->any_short[normalized] = true;
    unsigned first = (uint8_t)text[0], second = size > 1 ? (uint8_t)text[1] : 0;
    for (unsigned b = second; b < (size > 1 ? second + 1 : 256); b++)
        set_bit(a->starts[normalized], first << 8 | b);
}

/* Whether a token may begin at bytes[at, at + 4). */
static bool may_begin(const sr_added *a, int normalized, const uint8_t *bytes, size_t at) {
    return has_bit(a->fours[normalized], hash_of_four(bytes + at)) ||
           (a->any_short[normalized] &&
            has_bit(a->starts[normalized], (unsigned)bytes[at] << 8 | bytes[at + 1]));
}

/* Where a token may begin, from `at` on; `size` if nowhere. */
static size_t next_start(const sr_added *a, int normalized, const uint8_t *bytes, size_t at,
                         size_t size) {
    if (a->only[normalized] >= 0) {
        const uint8_t *found =
            at < size ? memchr(bytes + at, a->only[normalized], size - at) : NULL;
        return found != NULL ? (size_t)(found - bytes) : size;
    }
    while (size - at >= 4 && !may_begin(a, normalized, bytes, at)) at++;
    while (size - at < 4 && at < size && !a->first[normalized][bytes[at]]) at++;
    return at;
}

/* By string; of equal ones special tokens before others, then in the order of the file. */
static int by_content(const void *a, const void *b) {
    const sr_trie_key *x = a, *y = b;
    size_t least = x->size < y->size ? x->size : y->size;
    int order = memcmp(x->bytes, y->bytes, least);
    if (order != 0) return order;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

sr_status sr_added_index(sr_added *a, int normalized) {
    sr_trie_key *keys = NULL;
    size_t count = 0, kept = 0;
    SR_TRY(sr_new(&keys, a->count));
    for (size_t i = 0; i < a->count; i++) {
        const sr_added_token *t = &a->tokens[i];
        if (t->normalized != (normalized != 0) || t->shown_size == 0) continue;
        int32_t rank = (int32_t)i + (t->special ? 0 : SR_TOKENIZER_ID_LIMIT);
        keys[count++] = (sr_trie_key){t->shown, t->shown_size, rank};
        note_start(a, normalized, t->shown, t->shown_size);
    }
    if (count > 1) qsort(keys, count, sizeof *keys, by_content);
    for (size_t i = 0; i < count; i++) {
        keys[i].value &= SR_TOKENIZER_ID_LIMIT - 1;
        if (kept > 0 && keys[kept - 1].size == keys[i].size &&
            memcmp(keys[kept - 1].bytes, keys[i].bytes, keys[i].size) == 0)
            continue;
        keys[kept++] = keys[i];
    }
    sr_status st = sr_trie_build(&a->tries[normalized], keys, kept);
    sr_free(keys);
    return st;
}

/* ---- splitting ---- */

static sr_status add_part(sr_added_parts *out, size_t first, size_t last, int32_t id) {
    if (out->count == out->room) {
        size_t room = out->room > 0 ? 2 * out->room : 64;
        SR_TRY(sr_grow(&out->list, room));
        out->room = room;
    }
    out->list[out->count++] = (sr_added_part){first, last, id};
    return SR_OK;
}

/* The class of the character that ends at `at` > 0, and where it begins. */
static int class_before(const uint8_t *bytes, size_t at, size_t *first) {
    int32_t cp;
    size_t from = at - 1;
    while (from > 0 && at - from < 4 && (bytes[from] & 0xC0) == 0x80) from--;
    sr_utf8_decode(&cp, bytes + from, at - from);
    *first = from;
    return cp < 0 ? 0 : sr_class_of(cp);
}

static int class_after(const uint8_t *bytes, size_t at, size_t size, size_t *next) {
    int32_t cp;
    *next = at + (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
    return cp < 0 ? 0 : sr_class_of(cp);
}

/* The longest token at `at`: its index, -1 if there is none. */
static int32_t token_at(size_t *last, const sr_trie *t, const uint8_t *bytes, size_t at,
                        size_t size) {
    uint32_t node = 0;
    int32_t found = -1;
    for (size_t i = at; i < size && sr_trie_step(t, &node, bytes[i]); i++) {
        if (t->nodes[node].value < 0) continue;
        found = t->nodes[node].value;
        *last = i + 1;
    }
    return found;
}

static bool is_single(const uint8_t *bytes, size_t first, size_t last, size_t size) {
    size_t ignored;
    if (first > 0 && (class_before(bytes, first, &ignored) & SR_CLASS_WORD) != 0) return false;
    return last == size || (class_after(bytes, last, size, &ignored) & SR_CLASS_WORD) == 0;
}

/* Adds a token found at [first, last) and the text before it; *done is where the next text begins.
 */
static sr_status add_found(sr_added_parts *out, const sr_added_token *t, const uint8_t *bytes,
                           size_t size, size_t first, size_t last, size_t *done) {
    size_t place;
    if (t->single_word && !is_single(bytes, first, last, size)) return SR_OK;
    if (t->lstrip) {
        size_t from = first;
        while (from > 0 && (class_before(bytes, from, &place) & SR_CLASS_SPACE) != 0) from = place;
        first = from > *done ? from : *done;
    }
    while (t->rstrip && last < size &&
           (class_after(bytes, last, size, &place) & SR_CLASS_SPACE) != 0)
        last = place;
    if (first > last) return SR_OK; /* all of it is space that the token before has taken */
    if (*done < first) SR_TRY(add_part(out, *done, first, -1));
    SR_TRY(add_part(out, first, last, t->id));
    *done = last;
    return SR_OK;
}

sr_status sr_added_split(sr_added_parts *out, const sr_added *a, int normalized, bool literal,
                         const uint8_t *bytes, size_t size) {
    size_t done = 0;
    out->count = 0;
    for (size_t at = 0; a->any[normalized] && at < size;) {
        at = next_start(a, normalized, bytes, at, size);
        if (at == size) break;
        size_t last = 0;
        int32_t index = token_at(&last, &a->tries[normalized], bytes, at, size);
        if (index < 0) {
            at++;
            continue;
        }
        const sr_added_token *t = &a->tokens[index];
        if (!(literal && t->special)) SR_TRY(add_found(out, t, bytes, size, at, last, &done));
        at = last;
    }
    if (done != size || size == 0) SR_TRY(add_part(out, done, size, -1));
    return SR_OK;
}

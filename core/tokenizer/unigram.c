/* unigram.c - SentencePiece's Unigram: the pieces with the highest sum of scores.
 *
 * Sums are in double and added from left to right, as Hugging Face's library does, so that ties
 * fall the same way.  With byte fallback the parts of a string share its place.
 */

#include <math.h>
#include <string.h>

#include "core/tokenizer/model.h"
#include "core/tokenizer/score.h"
#include "core/tokenizer/trie.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct unigram {
    sr_model model;
    sr_trie trie;
    double *scores; /* by id; -infinity: hidden */
    double unknown_score;
    bool fallback;
    int32_t byte_ids[256];
} unigram;

/* The best way to a place: the token that ends there, and where it begins. */
typedef struct node {
    double score;
    int32_t id; /* -1: no way yet */
    uint32_t first;
} node;

/* ---- reading ---- */

static sr_status read_entry(unigram *u, sr_pieces *pieces, const sr_json *at, int32_t id,
                            sr_trie_key *key) {
    const json_t *token = json_array_get(at->value, 0), *score = json_array_get(at->value, 1);
    if (json_array_size(at->value) != 2 || !json_is_string(token) || !json_is_number(score))
        return sr_json_refuse(at, "is not a list of a token and its score");
    size_t size = json_string_length(token);
    int32_t known;
    if (size == 0 || size > SR_TOKENIZER_TOKEN_LIMIT)
        return sr_json_refuse(at, "has a token of %zu bytes; it must have 1 to %d", size,
                              SR_TOKENIZER_TOKEN_LIMIT);
    u->scores[id] = sr_score(json_number_value(score));
    if (!isfinite(u->scores[id])) return sr_json_refuse(at, "has a score that is not a number");
    SR_TRY(sr_pieces_add(pieces, json_string_value(token), size, id, &known));
    if (known >= 0) return sr_json_refuse(at, "repeats the token of id %d", known);
    *key = (sr_trie_key){json_string_value(token), size, id};
    return SR_OK;
}

static sr_status read_vocab(unigram *u, sr_pieces *pieces, const sr_json *list) {
    size_t count = json_array_size(list->value);
    sr_trie_key *keys = NULL;
    if (count == 0 || count >= SR_TOKENIZER_ID_LIMIT)
        return sr_json_refuse(list, "has %zu tokens", count);
    SR_TRY(sr_pieces_init(pieces, (int32_t)count, count));
    SR_TRY(sr_new(&u->scores, count));
    SR_TRY(sr_new(&keys, count));
    sr_status st = SR_OK;
    double least = INFINITY;
    for (size_t i = 0; st == SR_OK && i < count; i++) {
        sr_json one = sr_json_item(list, i);
        st = read_entry(u, pieces, &one, (int32_t)i, &keys[i]);
        if (st == SR_OK && u->scores[i] < least) least = u->scores[i];
    }
    u->unknown_score = least - 10.0;
    if (st == SR_OK) st = sr_trie_build(&u->trie, keys, count);
    sr_free(keys);
    return st;
}

static sr_status read(sr_model *m, sr_pieces *pieces, const sr_json *model, bool bytes) {
    (void)bytes;
    unigram *u = (unigram *)m;
    sr_json list = sr_json_key(model, "vocab"), unknown = sr_json_key(model, "unk_id");
    int64_t id;
    SR_TRY(sr_json_list(&list));
    SR_TRY(read_vocab(u, pieces, &list));
    if (!sr_json_absent(&unknown)) {
        SR_TRY(sr_json_integer(&id, model, "unk_id", 0, pieces->size - 1));
        m->unknown = (int32_t)id;
    }
    SR_TRY(sr_json_bool(&u->fallback, model, "byte_fallback", false));
    for (int i = 0; i < 256; i++)
        u->byte_ids[i] = u->fallback ? sr_pieces_find_byte(pieces, (uint8_t)i) : -1;
    uint64_t parts[] = {(uint64_t)m->unknown, u->fallback,
                        XXH3_64bits(u->scores, (size_t)pieces->size * sizeof *u->scores)};
    m->fingerprints[1] = XXH3_64bits(parts, sizeof parts);
    return SR_OK;
}

static void free_unigram(sr_model *m) {
    unigram *u = (unigram *)m;
    sr_trie_free(&u->trie);
    sr_free(u->scores);
}

static void hide(sr_model *m, const char *token, size_t size, int32_t id) {
    unigram *u = (unigram *)m;
    uint32_t node = 0;
    for (size_t i = 0; i < size; i++)
        if (!sr_trie_step(&u->trie, &node, (uint8_t)token[i])) return; /* added, not of the model */
    if (u->trie.nodes[node].value != id) return;
    u->trie.nodes[node].value = -1;
    u->scores[id] = -INFINITY;
}

/* ---- the best way ---- */

static size_t char_size(const uint8_t *bytes, size_t size) {
    size_t n = 1;
    while (n < size && (bytes[n] & 0xC0) == 0x80) n++;
    return n;
}

static inline void offer(node *to, double score, int32_t id, uint32_t first) {
    if (to->id >= 0 && !(score > to->score)) return;
    *to = (node){score, id, first};
}

/* Fills nodes[1 .. size]; false if there is a character without a token and no unknown token. */
static bool forward(node *nodes, const unigram *u, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i <= size; i++) nodes[i] = (node){0, -1, 0};
    for (size_t at = 0, step; at < size; at += step) {
        double here = nodes[at].score;
        uint32_t trie_node = 0;
        bool single = false;
        step = char_size(bytes + at, size - at);
        for (size_t i = at; i < size && sr_trie_step(&u->trie, &trie_node, bytes[i]); i++) {
            int32_t id = u->trie.nodes[trie_node].value;
            if (id < 0) continue;
            offer(&nodes[i + 1], u->scores[id] + here, id, (uint32_t)at);
            single |= i + 1 - at == step;
        }
        if (single) continue;
        if (u->model.unknown < 0) return false;
        offer(&nodes[at + step], u->unknown_score + here, u->model.unknown, (uint32_t)at);
    }
    return true;
}

/* ---- parts, from the last to the first ---- */

typedef struct writer {
    sr_parts *out;
    const unigram *u;
    const uint8_t *bytes;
} writer;

static sr_status put(writer *w, int32_t id, uint32_t first, uint32_t last) {
    SR_TRY(sr_parts_reserve(w->out, w->out->count + 1));
    w->out->list[w->out->count++] = (sr_part){id, first, last};
    return SR_OK;
}

/* A string of characters without tokens: a token after all, its bytes, or unknown. */
static sr_status put_unknown(writer *w, uint32_t first, uint32_t last) {
    const unigram *u = w->u;
    int32_t id = sr_pieces_find(u->model.pieces, w->bytes + first, last - first);
    if (id >= 0 && isinf(u->scores[id])) id = -1;
    bool all = u->fallback && id < 0;
    for (uint32_t i = first; all && i < last; i++) all = u->byte_ids[w->bytes[i]] >= 0;
    if (!all) {
        w->out->unknown += id < 0;
        return put(w, id >= 0 ? id : u->model.unknown, first, last);
    }
    for (uint32_t i = last; i > first; i--)
        SR_TRY(put(w, u->byte_ids[w->bytes[i - 1]], first, last));
    return SR_OK;
}

static sr_status backward(writer *w, const node *nodes, size_t size) {
    uint32_t run = 0; /* end of a run of unknown characters, 0: none */
    for (uint32_t at = (uint32_t)size; at > 0;) {
        const node *n = &nodes[at];
        if (n->id == w->u->model.unknown) {
            if (run == 0) run = at;
        } else {
            if (run != 0) SR_TRY(put_unknown(w, at, run));
            run = 0;
            SR_TRY(put(w, n->id, n->first, at));
        }
        at = n->first;
    }
    return run != 0 ? put_unknown(w, 0, run) : SR_OK;
}

static sr_status encode(sr_parts *out, const sr_model *m, sr_model_room *room, const uint8_t *bytes,
                        size_t size) {
    const unigram *u = (const unigram *)m;
    SR_TRY(sr_model_reserve(room, 0, size + 1, sizeof(node)));
    node *nodes = room->memory[0];
    out->count = 0;
    if (!forward(nodes, u, bytes, size))
        return sr_fail(
            SR_EDATA,
            "tokenize: the text has a character without a token, and the tokenizer has no "
            "unk_id");
    SR_TRY(backward(&(writer){out, u, bytes}, nodes, size));
    for (size_t i = 0, j = out->count; i + 1 < j; i++) {
        sr_part swap = out->list[i];
        out->list[i] = out->list[--j];
        out->list[j] = swap;
    }
    return SR_OK;
}

static const char *const keys[] = {"type", "vocab", "unk_id", "byte_fallback", NULL};

const sr_model_kind sr_model_unigram = {
    .name = "Unigram",
    .keys = keys,
    .size = sizeof(unigram),
    .read = read,
    .free = free_unigram,
    .encode = encode,
    .hide = hide,
};

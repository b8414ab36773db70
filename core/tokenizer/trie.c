#include "core/tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

typedef struct builder {
    sr_trie *t;
    const sr_trie_key *keys;
    size_t first_free; /* no free node before it */
} builder;

static int by_bytes(const void *a, const void *b) {
    const sr_trie_key *x = a, *y = b;
    size_t least = x->size < y->size ? x->size : y->size;
    int order = memcmp(x->bytes, y->bytes, least);
    return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

/* Room for nodes below `count`, in blocks of 256. */
static sr_status grow(sr_trie *t, size_t count) {
    if (count <= t->count) return SR_OK;
    size_t room = (count + count / 2 + 255) & ~(size_t)255;
    SR_TRY(sr_grow(&t->nodes, room));
    for (size_t i = t->count; i < room; i++) t->nodes[i] = (sr_trie_node){0, 0, -1};
    t->count = room;
    return SR_OK;
}

/* A base at which all these children are free. */
static sr_status place(builder *b, uint32_t *base, const uint8_t *labels, int count) {
    size_t tries = 0;
    for (size_t at = b->first_free;; at++) {
        SR_TRY(grow(b->t, (at | 255) + 1));
        if (b->t->nodes[at].check != 0) continue;
        uint32_t candidate = (uint32_t)at ^ labels[0];
        int i = 0;
        while (i < count && b->t->nodes[candidate ^ labels[i]].check == 0) i++;
        if (i == count) {
            *base = candidate;
            if (++tries > 64) b->first_free = at; /* what is before it is nearly full */
            return SR_OK;
        }
        tries++;
    }
}

/* The children of `node`, which has keys [first, last) that agree in `depth` bytes. */
static sr_status build(builder *b, uint32_t node, uint32_t first, uint32_t last, uint32_t depth) {
    uint8_t labels[256];
    uint32_t starts[257];
    int count = 0;
    if (first < last && b->keys[first].size == depth)
        b->t->nodes[node].value = b->keys[first++].value;
    for (uint32_t i = first; i < last; i++) {
        uint8_t label = (uint8_t)b->keys[i].bytes[depth];
        if (count > 0 && labels[count - 1] == label) continue;
        labels[count] = label;
        starts[count++] = i;
    }
    if (count == 0) return SR_OK;
    starts[count] = last;
    uint32_t base = 0;
    SR_TRY(place(b, &base, labels, count));
    b->t->nodes[node].base = base;
    for (int i = 0; i < count; i++) b->t->nodes[base ^ labels[i]].check = node + 1;
    while (b->first_free < b->t->count && b->t->nodes[b->first_free].check != 0) b->first_free++;
    for (int i = 0; i < count; i++)
        SR_TRY(build(b, base ^ labels[i], starts[i], starts[i + 1], depth + 1));
    return SR_OK;
}

sr_status sr_trie_build(sr_trie *t, sr_trie_key *keys, size_t count) {
    *t = (sr_trie){0};
    if (count > 1) qsort(keys, count, sizeof *keys, by_bytes);
    SR_TRY(grow(t, 512));
    t->nodes[0].check = UINT32_MAX; /* the root */
    builder b = {.t = t, .keys = keys, .first_free = 1};
    SR_TRY(build(&b, 0, 0, (uint32_t)count, 0));
    return grow(t, t->count + 256); /* every step stays inside */
}

void sr_trie_free(sr_trie *t) {
    sr_free(t->nodes);
    *t = (sr_trie){0};
}

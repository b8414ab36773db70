/* trie.h - byte strings in a double array: common prefixes of a text, by a step a byte. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_trie_node {
    uint32_t base;  /* the child by byte b is at base ^ b */
    uint32_t check; /* the parent plus one; 0: free */
    int32_t value;  /* of the string that ends here, -1: none */
} sr_trie_node;

typedef struct sr_trie {
    sr_trie_node *nodes;
    size_t count;
} sr_trie;

typedef struct sr_trie_key {
    const char *bytes;
    size_t size;
    int32_t value;
} sr_trie_key;

/* Builds a trie; sorts `keys`, which must differ and not be empty. */
sr_status sr_trie_build(sr_trie *t, sr_trie_key *keys, size_t count);
void sr_trie_free(sr_trie *t);

/* One step from *node (0: the root); false if there is no such child. */
static inline bool sr_trie_step(const sr_trie *t, uint32_t *node, uint8_t byte) {
    uint32_t next = t->nodes[*node].base ^ byte;
    if (t->nodes[next].check != *node + 1) return false;
    *node = next;
    return true;
}

SR_END_C

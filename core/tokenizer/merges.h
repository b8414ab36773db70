/* merges.h - the training of merges: the most frequent pair of adjacent symbols becomes a token,
 * again and again.  Internal to train.c (WordPiece) and bpe_train.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/count.h"
#include "core/tokenizer/pieces.h"

SR_BEGIN_C

typedef struct sr_pair sr_pair;
typedef struct sr_pair_node sr_pair_node;
typedef struct sr_pair_claim sr_pair_claim;

/* Two symbols that became one, in order. */
typedef struct sr_merged {
    uint32_t left, right;
} sr_merged;

/* The caller fills the first part; the rest starts as zero. */
typedef struct sr_merger {
    int64_t min_frequency;
    uint32_t size;  /* tokens at most */
    size_t prefix;  /* bytes that a symbol within a word begins with, as ## */
    size_t longest; /* bytes of a token; longer ones are not made */
    sr_word_counts words;
    sr_pieces tokens;  /* the vocabulary: index = id */
    uint32_t *symbols; /* the words as symbols, concatenated */
    size_t *first;     /* of each word, in symbols */
    uint32_t *length;  /* 0: the word has unknown characters */

    sr_pair *pairs;
    size_t pair_count, pair_room;
    uint32_t *slots; /* hash table of pairs: index plus one */
    size_t slot_count;
    sr_pair_node *nodes; /* nodes[0] is unused */
    size_t node_count, node_room;
    uint32_t free_nodes;
    sr_pair_claim *heap;
    size_t heap_count, heap_room;
    uint32_t *grown; /* pairs whose count has grown since they were last pushed */
    size_t grown_count, grown_room;
    sr_merged *merges;
    size_t merge_count, merge_room;
} sr_merger;

/* Merges until the vocabulary is full or no pair occurs often enough.  Ties go to the pair with
 * lower ids.  Errors: SR_ENOMEM, SR_ESTOP. */
sr_status sr_merger_run(sr_merger *m);
void sr_merger_free(sr_merger *m);

SR_END_C

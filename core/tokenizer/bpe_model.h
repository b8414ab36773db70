/* bpe_model.h - what a BPE model consists of; internal to bpe.c and bpe_read.c. */
#ifndef SR_TOKENIZER_BPE_MODEL_H
#define SR_TOKENIZER_BPE_MODEL_H

#include "core/tokenizer/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pair of ids and what they merge to. */
typedef struct sr_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: empty */
    int32_t rank, id;
} sr_merge;

struct sr_bpe {
    const sr_pieces *pieces;
    sr_pieces raw; /* with `bytes`: ids by bytes */
    bool bytes;
    sr_merge *merges; /* open addressing */
    uint64_t mask, seed;
    uint64_t *filter; /* a bit for each merge: most pairs have none, and this is small */
    uint64_t filter_mask;
    int32_t unknown; /* -1: characters without a token are dropped */
    bool fuse, fallback, ignore_merges;
    bool cuts; /* at U+2581 */
    char *suffix, *prefix;
    size_t suffix_size, prefix_size;
    int32_t first[256];    /* ids of one-byte characters, alone or with `bytes` */
    int32_t byte_ids[256]; /* of <0x00> .. <0xFF>, -1 */
    uint64_t fingerprint;
};

static inline uint64_t sr_bpe_pair(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static inline uint64_t sr_bpe_hash(const sr_bpe *b, uint64_t pair) {
    uint64_t h = (pair ^ b->seed) * 0xD6E8FEB86659FD93u;
    return (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
}

/* The merge of a pair, or the empty slot where it would be. */
static inline sr_merge *sr_bpe_slot(const sr_bpe *b, uint64_t pair) {
    for (uint64_t i = sr_bpe_hash(b, pair) >> 20 & b->mask;; i = (i + 1) & b->mask)
        if (b->merges[i].pair == pair || b->merges[i].pair == UINT64_MAX) return &b->merges[i];
}

/* Whether a pair may have a merge. */
static inline bool sr_bpe_may_merge(const sr_bpe *b, uint64_t pair) {
    uint64_t bit = sr_bpe_hash(b, pair) >> 24 & b->filter_mask;
    return (b->filter[bit >> 6] >> (bit & 63) & 1) != 0;
}

#ifdef __cplusplus
}
#endif
#endif

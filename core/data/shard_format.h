/* shard_format.h - definitions shared by the reader and the writer of .sqr files.  Internal to
 * core/data.
 */
#pragma once

#define XXH_INLINE_ALL
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "core/data/shard.h"

/* Unlike any text file, and damaged by transfers that change line endings. */
static const unsigned char sr_shard_magic[8] = {0x89, 'S', 'Q', 'R', '\r', '\n', 0x1A, '\n'};
static const unsigned char sr_shard_end[8] = {'S', 'Q', 'R', '-', 'E', 'N', 'D', '\n'};

/* Different seeds, so that one part cannot be mistaken for another. */
enum { SR_SEED_HEADER = 1, SR_SEED_DIRECTORY = 2, SR_SEED_TRAILER = 3 };

static inline uint64_t sr_shard_hash(const void *bytes, size_t size, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes, size, seed);
}

static inline uint64_t sr_block_hash(const void *bytes, size_t size, int column, uint64_t block) {
    return sr_shard_hash(bytes, size, (uint64_t)(column + 16) << 44 ^ block);
}

/* 1 to SR_SHARD_NAME letters, digits, _ - . : safe to print. */
static inline bool sr_shard_name_ok(const char *name, size_t size) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    if (size < 1 || size > SR_SHARD_NAME) return false;
    for (size_t i = 0; i < size; i++)
        if (memchr(good, name[i], sizeof good - 1) == NULL) return false;
    return true;
}

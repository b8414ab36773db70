/* mem.h - host memory that may run out, and sizes that may overflow.
 *
 * Every allocation of seqrun, Lua and jansson goes through here, so that a test can make one
 * fail (sr_mem_refuse_by) and count the blocks in use (sr_mem_live).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

/* *out = a * b (a + b); SR_ENOMEM with both numbers when it does not fit in size_t. */
sr_status sr_mul_size(size_t *out, size_t a, size_t b);
sr_status sr_add_size(size_t *out, size_t a, size_t b);

/* *out = count * size bytes, zeroed; *out is NULL on failure and when count * size is 0.
 * Freed by sr_free().  SR_ENOMEM names the number of bytes. */
sr_status sr_alloc(void **out, size_t count, size_t size);

/* Typed: sr_new(&p, n) gives p room for n zeroed elements. */
#define sr_new(out, count) sr_alloc((void **)(out), (size_t)(count), sizeof **(out))

/* Grows or shrinks *block to count * size bytes, keeping its contents; new bytes are not set.
 * On failure *block is unchanged. */
sr_status sr_resize(void **block, size_t count, size_t size);
#define sr_grow(block, count) sr_resize((void **)(block), (size_t)(count), sizeof **(block))

/* As sr_alloc for `bytes`, not zeroed, aligned to 64 bytes (a cache line, an AVX-512 register);
 * freed by sr_free_aligned(). */
sr_status sr_alloc_aligned(void **out, size_t bytes);
void sr_free_aligned(void *block);

/* The same for blocks that are read repeatedly: the first `sure` bytes, which will certainly be
 * used, are in huge pages where the system allows it, for fewer page faults and TLB misses.  Pages
 * beyond `sure` take no memory until they are touched. */
sr_status sr_alloc_pages(void **out, size_t bytes, size_t sure);

/* Returns the whole pages of a part of a block to the system; they read as zero and become memory
 * again when they are written. */
void sr_mem_discard(void *start, size_t bytes);

sr_status sr_strdup(char **out, const char *text);
void sr_free(void *block); /* may be NULL */

/* Entry points with the signatures of malloc() for libraries that accept them (Lua's allocator,
 * jansson by json.h). */
void *sr_mem_malloc(size_t bytes);
void *sr_mem_realloc(void *block, size_t bytes);

/* The same as zlib wants them: its zalloc and zfree. */
void *sr_zlib_alloc(void *opaque, unsigned count, unsigned size);
void sr_zlib_free(void *opaque, void *block);

/* For tests: `refuse` is asked before each allocation, by any thread, and true makes it fail; NULL,
 * as in the program: none fails. */
void sr_mem_refuse_by(bool (*refuse)(void));
int64_t sr_mem_live(void); /* blocks in use */

SR_END_C

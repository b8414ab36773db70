/* unpack.h - compressed data to bytes, as a stream: gzip and Zstandard, by their first bytes,
 * never by a name.  Internal to core/text.
 *
 * Several members (frames) after one another are one stream, as gzip and zstd write them.  Memory
 * is bounded: a Zstandard window of more than 2^SR_UNPACK_WINDOW bytes is refused.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum {
    SR_UNPACK_MAGIC = 4,  /* bytes that identify a compression */
    SR_UNPACK_WINDOW = 27 /* 128 MiB: what zstd writes and reads by default */
};

typedef struct sr_unpack sr_unpack;

/* *out is NULL if data that begins with these bytes is not compressed.  `path` is for messages, and
 * must outlive it.  SR_ENOMEM. */
sr_status sr_unpack_open(sr_unpack **out, const uint8_t *bytes, size_t size, const char *path);
void sr_unpack_close(sr_unpack *u); /* may be NULL */

typedef struct sr_unpacked {
    size_t used, got; /* bytes read of `from`, and written to `to` */
} sr_unpacked;

/* Unpacks some of `from` to `to`; size 0 gives what is left inside.  Progress may be in `used`
 * only.
 *
 * Errors: SR_EDATA  the data is damaged, something else follows it, or its window is too large
 *         SR_ENOMEM */
sr_status sr_unpack_some(sr_unpacked *out, sr_unpack *u, uint8_t *to, size_t room,
                         const uint8_t *from, size_t size);

/* To be called at the end of the data: SR_EDATA if it ends early. */
sr_status sr_unpack_end(const sr_unpack *u);

SR_END_C

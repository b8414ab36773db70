/* reader.h - a bounds-checked cursor over untrusted bytes.
 *
 * Everything that parses an untrusted length goes through a reader: no other code adds or
 * multiplies numbers from a file.  A reader never reads past its end; the first failure sticks, so
 * a parser may check once at the end of a group of reads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_reader {
    const unsigned char *bytes; /* borrowed */
    size_t size, at;
    const char *name; /* what the bytes are, for messages: a path */
    bool failed;
} sr_reader;

void sr_reader_init(sr_reader *r, const void *bytes, size_t size, const char *name);

/* Little-endian numbers.  SR_EDATA names the source and the offset when there are too few bytes. */
sr_status sr_read_u8(sr_reader *r, uint8_t *out);
sr_status sr_read_u16(sr_reader *r, uint16_t *out);
sr_status sr_read_u32(sr_reader *r, uint32_t *out);
sr_status sr_read_u64(sr_reader *r, uint64_t *out);

/* *out points at the next count * size bytes, inside the source; the product is checked. */
sr_status sr_read_claim(sr_reader *r, const void **out, uint64_t count, size_t size);

/* SR_EDATA when bytes remain. */
sr_status sr_read_end(sr_reader *r);

SR_END_C

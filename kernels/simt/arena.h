/* arena.h - device memory of the simt host, and which threads touched it in the running launch.
 *
 * One range of addresses for the process, with a range of notes beside it, so that an address finds
 * its note without a search.  Pages of both are backed when they are first touched.
 *
 * The core and the host code of ops get other addresses for the same memory, which fault when read
 * or written: a GPU's memory cannot be read by the host either.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

namespace simt {

/* Of 2 bytes.  `block` is a stamp of the launch's block that touched them last; a tag is as in
 * machine.h. */
struct note {
    uint32_t write_block, write_tag, read_block, read_tag;
};

enum : uint32_t { MANY_BLOCKS = ~0u };

sr_status arena_open(void);
/* The usable address for a device address, and back; NULL for NULL. */
void *arena_inside(const void *device);
void *arena_outside(const void *inside);

sr_status arena_take(void **data, size_t bytes);
void arena_give(void *data, size_t bytes);
/* The note of an inside address, or NULL when it is not device memory. */
note *arena_note(const void *p);
/* `blocks` stamps for a launch: the first of them. */
uint32_t arena_stamps(uint32_t blocks);

} // namespace simt

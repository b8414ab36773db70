/* limit.h - limits on the memory that this thread allocates. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

/* The sum of this thread's further sr_alloc() and sr_alloc_aligned() is at most `bytes`; a larger
 * one fails with SR_ENOMEM.  What is freed does not count again.  -1: no limit. */
void sr_mem_limit(int64_t bytes);

/* Counts the bytes that this thread holds of what it has allocated since sr_mem_watch(), of every
 * kind; an allocation that would take it beyond the limit fails. */
typedef struct sr_mem_count {
    int64_t held, peak, limit;   /* what was there before and is freed makes `held` less */
    bool exceeded;               /* an allocation has failed for the limit */
    struct sr_mem_count *around; /* private: the count that continues when this one ends */
} sr_mem_count;

void sr_mem_watch(sr_mem_count *count, int64_t limit);
void sr_mem_watch_end(sr_mem_count *count); /* the last one that has begun */

SR_END_C

/* limit.h - a limit on the memory that this thread may still allocate. */
#ifndef SR_BASE_LIMIT_H
#define SR_BASE_LIMIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The sum of this thread's further sr_alloc() and sr_alloc_aligned() is at most `bytes`; a larger
 * one fails with SR_ENOMEM.  What is freed does not count again.  -1: no limit. */
void sr_mem_limit(int64_t bytes);

#ifdef __cplusplus
}
#endif
#endif

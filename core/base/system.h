/* system.h - facts about the machine and the process: clocks, processor, memory.
 *
 * Nothing here decides anything: kernels choose their instructions themselves, and wall-clock time
 * goes into logs only, never into names, order or results.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

double sr_time_monotonic(void); /* seconds from an arbitrary start; never jumps */
double sr_time_wall(void);      /* seconds since 1970 UTC */

/* What processor and kernel support together (valgrind or an old kernel hides some). */
typedef struct sr_cpu {
    char model[64]; /* "unknown" when the kernel does not say */
    bool avx2, avx512, avx512_bf16, amx_bf16;
} sr_cpu;
void sr_cpu_facts(sr_cpu *out);

/* Resident bytes of this process, now and at the peak; 0 when the kernel does not say. */
typedef struct sr_memory {
    int64_t resident, peak;
} sr_memory;
void sr_memory_facts(sr_memory *out);

/* Bytes that the cgroup and the machine allow this process; 0 when unknown. */
int64_t sr_memory_total(void);

/* Bytes of these that are not in use, as reported by the kernel; 0 when unknown. */
int64_t sr_memory_available(void);

/* Free bytes for an unprivileged writer on the file system of `path`. */
sr_status sr_disk_free(int64_t *out, const char *path);

/* XXH3-64 of some bytes. */
uint64_t sr_hash_key(const void *bytes, uint64_t size, uint64_t seed);

/* XXH3-128 of some bytes, or of a file, as 32 hexadecimal digits (high word first). */
void sr_hash_bytes(char hex[33], const void *bytes, uint64_t size);
sr_status sr_hash_file(char hex[33], const char *path);

SR_END_C

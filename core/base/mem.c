#include "core/base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/limit.h"

static _Atomic int64_t live;
static bool (*_Atomic refuse_hook)(void);
static _Thread_local int64_t allowance = -1;
static _Thread_local sr_mem_count *watched;

void sr_mem_limit(int64_t bytes) {
    allowance = bytes;
}

void sr_mem_watch(sr_mem_count *count, int64_t limit) {
    *count = (sr_mem_count){.limit = limit, .around = watched};
    watched = count;
}

void sr_mem_watch_end(sr_mem_count *count) {
    sr_mem_count *around = count->around;
    watched = around;
    if (around == NULL) return;
    if (around->held + count->peak > around->peak) around->peak = around->held + count->peak;
    around->held += count->held;
}

void sr_mem_refuse_by(bool (*refuse)(void)) {
    atomic_store(&refuse_hook, refuse);
}

int64_t sr_mem_live(void) {
    return atomic_load(&live);
}

/* Whether an allocation of `bytes` is not to be made. */
static bool refused(size_t bytes) {
    if (watched != NULL && (bytes > INT64_MAX || (int64_t)bytes > watched->limit - watched->held)) {
        watched->exceeded = true;
        return true;
    }
    bool (*refuse)(void) = atomic_load_explicit(&refuse_hook, memory_order_relaxed);
    return refuse != NULL && refuse();
}

static void count_bytes(int64_t more) {
    watched->held += more;
    if (watched->held > watched->peak) watched->peak = watched->held;
}

sr_status sr_mul_size(size_t *out, size_t a, size_t b) {
    if (__builtin_mul_overflow(a, b, out))
        return sr_fail(SR_ENOMEM, "size %zu x %zu does not fit in memory", a, b);
    return SR_OK;
}

sr_status sr_add_size(size_t *out, size_t a, size_t b) {
    if (__builtin_add_overflow(a, b, out))
        return sr_fail(SR_ENOMEM, "size %zu + %zu does not fit in memory", a, b);
    return SR_OK;
}

static sr_status out_of_memory(size_t bytes) {
    return sr_fail(SR_ENOMEM, "out of memory: cannot allocate %zu bytes", bytes);
}

/* Takes `bytes` of what this thread may allocate. */
static sr_status take(size_t bytes) {
    if (allowance < 0) return SR_OK;
    if (bytes > (uint64_t)allowance)
        return sr_fail(SR_ENOMEM, "cannot allocate %zu bytes: the limit leaves %lld", bytes,
                       (long long)allowance);
    allowance -= (int64_t)bytes;
    return SR_OK;
}

static void *counted(void *block) {
    if (block == NULL) return NULL;
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    if (watched != NULL) count_bytes((int64_t)malloc_usable_size(block));
    return block;
}

sr_status sr_alloc(void **out, size_t count, size_t size) {
    *out = NULL;
    size_t bytes;
    SR_TRY(sr_mul_size(&bytes, count, size));
    if (bytes == 0) return SR_OK;
    SR_TRY(take(bytes));
    *out = refused(bytes) ? NULL : counted(calloc(1, bytes));
    return *out != NULL ? SR_OK : out_of_memory(bytes);
}

void *sr_mem_malloc(size_t bytes) {
    return refused(bytes) ? NULL : counted(malloc(bytes > 0 ? bytes : 1));
}

void *sr_mem_realloc(void *block, size_t bytes) {
    if (block == NULL) return sr_mem_malloc(bytes);
    if (refused(bytes)) return NULL; /* the old block and the new one are there for a moment */
    if (watched == NULL) return realloc(block, bytes > 0 ? bytes : 1);
    int64_t before = (int64_t)malloc_usable_size(block);
    void *moved = realloc(block, bytes > 0 ? bytes : 1);
    if (moved != NULL) count_bytes((int64_t)malloc_usable_size(moved) - before);
    return moved;
}

void *sr_zlib_alloc(void *opaque, unsigned count, unsigned size) {
    (void)opaque;
    return sr_mem_malloc((size_t)count * size);
}

void sr_zlib_free(void *opaque, void *block) {
    (void)opaque;
    sr_free(block);
}

sr_status sr_resize(void **block, size_t count, size_t size) {
    size_t bytes;
    SR_TRY(sr_mul_size(&bytes, count, size));
    void *moved = sr_mem_realloc(*block, bytes);
    if (moved == NULL) return out_of_memory(bytes);
    *block = moved;
    return SR_OK;
}

/* Unlike aligned_alloc(), bytes need not be a multiple of the alignment. */
static void *aligned(size_t alignment, size_t bytes) {
    void *block;
    return posix_memalign(&block, alignment, bytes) == 0 ? block : NULL;
}

static sr_status alloc_at(void **out, size_t bytes, size_t alignment) {
    *out = NULL;
    size_t rounded;
    SR_TRY(sr_add_size(&rounded, bytes, 63));
    rounded &= ~(size_t)63;
    if (rounded == 0) rounded = 64;
    SR_TRY(take(rounded));
    *out = refused(rounded) ? NULL : counted(aligned(alignment, rounded));
    return *out != NULL ? SR_OK : out_of_memory(bytes);
}

sr_status sr_alloc_aligned(void **out, size_t bytes) {
    return alloc_at(out, bytes, 64);
}

sr_status sr_alloc_pages(void **out, size_t bytes, size_t sure) {
    enum { HUGE = 2 << 20 };
    size_t huge = sure / HUGE * HUGE;
    if (huge == 0) return sr_alloc_aligned(out, bytes);
    SR_TRY(alloc_at(out, bytes, HUGE));
    (void)madvise(*out, huge, MADV_HUGEPAGE); /* a hint: the system may have none */
    return SR_OK;
}

void sr_mem_discard(void *start, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)start;
    uintptr_t first = (at + page - 1) / page * page, last = (at + bytes) / page * page;
    if (first < last) madvise((char *)start + (first - at), last - first, MADV_DONTNEED);
}

sr_status sr_strdup(char **out, const char *text) {
    size_t bytes = strlen(text) + 1;
    SR_TRY(sr_alloc((void **)out, bytes, 1));
    memcpy(*out, text, bytes);
    return SR_OK;
}

void sr_free(void *block) {
    if (block == NULL) return;
    if (watched != NULL) count_bytes(-(int64_t)malloc_usable_size(block));
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(block);
}

void sr_free_aligned(void *block) {
    sr_free(block);
}

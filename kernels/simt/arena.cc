#include "kernels/simt/arena.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/mem.h"

namespace simt {

enum : size_t {
    RESERVED = (size_t)64 << 30,
    NOTES = RESERVED / 2 * sizeof(note),
    PIECE = (size_t)16 << 20 /* becomes usable at a time */
};

/* A free block, kept in the block itself. */
struct vacancy {
    vacancy *next;
    size_t bytes;
};

static char *memory, *notes;
static size_t used, usable;
static vacancy *vacancies;
static uint32_t stamps = 1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *reserve(size_t bytes) {
    void *p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
}

static sr_status open_locked(void) {
    if (memory != nullptr) return SR_OK;
    char *a = (char *)reserve(RESERVED), *b = (char *)reserve(NOTES);
    if (a == nullptr || b == nullptr) {
        if (a != nullptr) munmap(a, RESERVED);
        if (b != nullptr) munmap(b, NOTES);
        return sr_fail(SR_ENOMEM, "simt: cannot reserve %zu GiB of addresses; raise ulimit -v",
                       (RESERVED + NOTES) >> 30);
    }
    memory = a;
    notes = b;
    return SR_OK;
}

sr_status arena_open(void) {
    pthread_mutex_lock(&mutex);
    sr_status st = open_locked();
    pthread_mutex_unlock(&mutex);
    return st;
}

static sr_status extend(size_t to) {
    size_t more = (to - usable + PIECE - 1) / PIECE * PIECE;
    if (usable + more > RESERVED)
        return sr_fail(SR_ENOMEM, "simt: cannot allocate %zu bytes of device memory", to - used);
    if (mprotect(memory + usable, more, PROT_READ | PROT_WRITE) != 0 ||
        mprotect(notes + usable / 2 * sizeof(note), more / 2 * sizeof(note),
                 PROT_READ | PROT_WRITE) != 0)
        return sr_fail(SR_ENOMEM, "simt: cannot allocate %zu bytes of device memory: %s", to - used,
                       strerror(errno));
    usable += more;
    return SR_OK;
}

static size_t rounded(size_t bytes) {
    return (bytes + 255) / 256 * 256 + 256; /* a gap, so that neighbours do not touch */
}

static sr_status take_locked(void **data, size_t bytes) {
    vacancy **best = nullptr;
    for (vacancy **v = &vacancies; *v != nullptr; v = &(*v)->next)
        if ((*v)->bytes >= bytes && (best == nullptr || (*v)->bytes < (*best)->bytes)) best = v;
    if (best != nullptr && (*best)->bytes == bytes) {
        *data = *best;
        *best = (*best)->next;
        return SR_OK;
    }
    if (best != nullptr) {
        (*best)->bytes -= bytes;
        *data = (char *)*best + (*best)->bytes;
        return SR_OK;
    }
    if (used + bytes > usable) SR_TRY(extend(used + bytes));
    *data = memory + used;
    used += bytes;
    return SR_OK;
}

sr_status arena_take(void **data, size_t bytes) {
    pthread_mutex_lock(&mutex);
    sr_status st = take_locked(data, rounded(bytes));
    pthread_mutex_unlock(&mutex);
    return st;
}

void arena_give(void *data, size_t bytes) {
    if (data == nullptr) return;
    pthread_mutex_lock(&mutex);
    vacancy *v = (vacancy *)data;
    v->bytes = rounded(bytes);
    v->next = vacancies;
    vacancies = v;
    pthread_mutex_unlock(&mutex);
}

note *arena_note(const void *p) {
    size_t at = (size_t)((const char *)p - memory);
    return at < used ? (note *)notes + at / 2 : nullptr;
}

uint32_t arena_stamps(uint32_t blocks) {
    pthread_mutex_lock(&mutex);
    if (blocks >= MANY_BLOCKS - stamps) { /* once in 4 billion blocks */
        memset(notes, 0, used / 2 * sizeof(note));
        stamps = 1;
    }
    uint32_t first = stamps;
    stamps += blocks;
    pthread_mutex_unlock(&mutex);
    return first;
}

} // namespace simt

#include "kernels/simt/arena.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/mem.h"

namespace simt {

enum : size_t { RESERVED = (size_t)64 << 30, NOTES = RESERVED / 2 * sizeof(note) };

/* A free block, kept in the block itself. */
struct vacancy {
    vacancy *next;
    size_t bytes;
};

static char *memory, *notes, *devices; /* `devices`: the same addresses as the host sees them */
static size_t used;
static vacancy *vacancies;
static uint32_t stamps = 1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *map(size_t bytes, int protection, int flags, int file) {
    void *p = mmap(nullptr, bytes, protection, flags | MAP_NORESERVE, file, 0);
    return p == MAP_FAILED ? nullptr : p;
}

static sr_status open_locked(void) {
    if (memory != nullptr) return SR_OK;
    int file = memfd_create("simt", MFD_CLOEXEC), flags = MAP_SHARED;
    if (file < 0 || ftruncate(file, (off_t)RESERVED) != 0) flags = MAP_PRIVATE | MAP_ANONYMOUS;
    int each = PROT_READ | PROT_WRITE;
    char *a = (char *)map(RESERVED, each, flags, flags == MAP_SHARED ? file : -1);
    char *b = (char *)map(NOTES, each, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    char *c = (char *)map(RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (file >= 0) close(file);
    if (a == nullptr || b == nullptr || c == nullptr) {
        if (a != nullptr) munmap(a, RESERVED);
        if (b != nullptr) munmap(b, NOTES);
        if (c != nullptr) munmap(c, RESERVED);
        return sr_fail(SR_ENOMEM, "simt: cannot reserve %zu GiB of addresses; raise ulimit -v",
                       (2 * RESERVED + NOTES) >> 30);
    }
    memory = a;
    notes = b;
    devices = c;
    return SR_OK;
}

sr_status arena_open(void) {
    pthread_mutex_lock(&mutex);
    sr_status st = open_locked();
    pthread_mutex_unlock(&mutex);
    return st;
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
    if (bytes > RESERVED - used)
        return sr_fail(SR_ENOMEM, "simt: cannot allocate %zu bytes of device memory", bytes);
    *data = memory + used;
    used += bytes;
    return SR_OK;
}

void *arena_inside(const void *device) {
    return device == nullptr ? nullptr : (char *)device - devices + memory;
}

void *arena_outside(const void *inside) {
    return inside == nullptr ? nullptr : (char *)inside - memory + devices;
}

sr_status arena_take(void **data, size_t bytes) {
    pthread_mutex_lock(&mutex);
    sr_status st = take_locked(data, rounded(bytes));
    if (st == SR_OK) *data = arena_outside(*data);
    pthread_mutex_unlock(&mutex);
    return st;
}

void arena_give(void *data, size_t bytes) {
    if (data == nullptr) return;
    pthread_mutex_lock(&mutex);
    vacancy *v = (vacancy *)arena_inside(data);
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

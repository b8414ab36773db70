#include "core/tensor/pool.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"

enum { CLASSES = 4 * 45, POISON_CHUNK = 64 << 20 };

/* Free blocks of one class, as a stack. */
typedef struct stack {
    void **block;
    int count, capacity;
} stack;

struct sr_classes {
    stack of[CLASSES];
};

/* Class 4k + m holds blocks of 16 (4 + m) 2^k bytes. */
static size_t size_of_class(int c) {
    return (size_t)(4 + c % 4) * 16 << c / 4;
}

static int class_of(size_t bytes) {
    size_t units = bytes / 16 + (bytes % 16 != 0);
    if (units < 4) units = 4;
    int k = 61 - __builtin_clzll(units);
    size_t m = (units + ((size_t)1 << k) - 1) >> k; /* 4..8; 8 is the first class of k + 1 */
    return 4 * k + (int)m - 4;
}

sr_status sr_classes_new(sr_classes **out) {
    return sr_new(out, 1);
}

void sr_classes_free(sr_classes *classes) {
    if (classes == NULL) return;
    for (int c = 0; c < CLASSES; c++) sr_free(classes->of[c].block);
    sr_free(classes);
}

void sr_device_trim(sr_device *device) {
    for (int c = 0; c < CLASSES; c++) {
        stack *s = &device->classes->of[c];
        while (s->count > 0) {
            device->backend->free(device, s->block[--s->count], size_of_class(c));
            device->bytes_held -= size_of_class(c);
        }
    }
}

/* Allocates a block from the backend. */
static sr_status ask_backend(sr_device *device, void **data, size_t bytes) {
    device->allocations++;
    sr_status st = device->backend->alloc(device, data, bytes);
    if (st == SR_ENOMEM && device->bytes_held > device->bytes_used) {
        sr_device_trim(device);
        st = device->backend->alloc(device, data, bytes);
    }
    if (st == SR_OK) device->bytes_held += bytes;
    return st;
}

/* Bytes of 0xFF are a NaN in every compute dtype, which reveals elements that are never written. */
static sr_status poison(sr_device *device, void *data, size_t bytes) {
    char *chunk;
    size_t room = bytes < POISON_CHUNK ? bytes : POISON_CHUNK;
    SR_TRY(sr_alloc((void **)&chunk, room, 1));
    memset(chunk, 0xFF, room);
    sr_status st = SR_OK;
    for (size_t done = 0; st == SR_OK && done < bytes; done += room)
        st = device->backend->upload(device, (char *)data + done, chunk,
                                     bytes - done < room ? bytes - done : room);
    sr_free(chunk);
    return st;
}

sr_status sr_device_take(sr_device *device, void **data, size_t bytes) {
    *data = NULL;
    int c = class_of(bytes);
    if (c >= CLASSES)
        return sr_fail(SR_ENOMEM, "out of memory: cannot allocate a tensor of %zu bytes", bytes);
    stack *s = &device->classes->of[c];
    if (s->count > 0)
        *data = s->block[--s->count];
    else
        SR_TRY(ask_backend(device, data, size_of_class(c)));
    device->bytes_used += size_of_class(c);
    if (device->bytes_used > device->bytes_peak) device->bytes_peak = device->bytes_used;
    sr_status st = device->poison ? poison(device, *data, size_of_class(c)) : SR_OK;
    if (st != SR_OK) {
        sr_device_give(device, *data, bytes);
        *data = NULL;
    }
    return st;
}

/* Reserves one more entry in the stack; on failure the block is returned to the backend. */
static bool has_room(stack *s) {
    if (s->count < s->capacity) return true;
    int capacity = s->capacity > 0 ? 2 * s->capacity : 8;
    if (sr_grow(&s->block, capacity) != SR_OK) return false;
    s->capacity = capacity;
    return true;
}

void sr_device_give(sr_device *device, void *data, size_t bytes) {
    int c = class_of(bytes);
    stack *s = &device->classes->of[c];
    device->bytes_used -= size_of_class(c);
    if (has_room(s)) {
        s->block[s->count++] = data;
        return;
    }
    device->backend->free(device, data, size_of_class(c));
    device->bytes_held -= size_of_class(c);
}

/* device.h - a backend with its state and its memory pool. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/tensor/dtype.h"

SR_BEGIN_C

typedef struct sr_backend sr_backend; /* backend.h */
typedef struct sr_scope sr_scope;     /* scope.h */

/* Freed blocks are kept by size class and reused, so that a training step of fixed shapes allocates
 * nothing.  Classes are 64 bytes x (1, 1.25, 1.5, 1.75) x 2^k.
 *
 * A device is reference-counted: every storage retains it, so that handles which the collector
 * frees late find their free lists.  After sr_device_close() it has no memory and no backend state.
 */
typedef struct sr_device {
    char name[16]; /* "cpu", "cuda", "cuda:1" */
    const sr_backend *backend;
    int number;                 /* among the devices of the backend: 1 for "cuda:1" */
    sr_dtype real;              /* default dtype of real tensors: f64 on ref, f32 on cpu */
    sr_threads *threads;        /* borrowed; NULL: the caller's thread only */
    void *state;                /* private to the backend */
    sr_scope *scope;            /* the innermost open scope; `outside` if none is open */
    sr_scope *outside;          /* owns the storages that no scope owns */
    struct sr_classes *classes; /* the pool's free blocks: pool.h */
    struct sr_weight *weights;  /* handles of parameters: weight.h */
    struct sr_rotary *rotary;   /* tables of rotary positions: rotary.h */
    struct sr_spares *spares;   /* free structs of tensors, storages and nodes: storage.h */
    size_t bytes_used;          /* bytes in live storages */
    size_t bytes_held;          /* bytes in live storages and free blocks */
    size_t bytes_peak;          /* maximum of `used` */
    size_t bytes_made;   /* total bytes created outside scopes, to be freed by the collector */
    size_t bytes_scoped; /* total bytes created inside scopes: a collection frees them early */
    int64_t allocations; /* blocks allocated by the backend since the device was opened */
    int64_t waits;       /* times the host waited for the device: downloads and sr_device_wait() */
    int64_t uploads;     /* of host memory */
    void *staging;       /* host memory in which uploads are assembled */
    size_t staging_bytes;
    /* NULL, or called now and then while the host waits for the device, and with `over` when it has
     * waited: what can keep the device from ever being done.  Its failure ends the wait. */
    sr_status (*watch)(void *watcher, bool over);
    void *watcher;
    bool poison; /* for tests: fills blocks with NaN */
    bool closed;
    int32_t refs;
} sr_device;

/* True for the compute dtypes that the device computes with: its own, and bf16 beside f32. */
static inline bool sr_device_computes(const sr_device *device, sr_dtype dtype) {
    return dtype == device->real || (dtype == SR_BF16 && device->real == SR_F32);
}

/* "cuda:1" -> "cuda", 1; "cuda" -> "cuda", 0.  False for anything else. */
bool sr_device_parse(char backend[16], int *number, const char *name);

/* Opens device `number` of a backend, from 0: calls backend->open.  SR_EDEVICE, with the reason, if
 * it is not available. */
sr_status sr_device_open(sr_device **out, const sr_backend *backend, int number,
                         sr_threads *threads);
/* Expires all remaining storages, then returns all memory to the backend. */
void sr_device_close(sr_device *device); /* may be NULL */

/* Waits until all work issued to the device is done, and reports the first error since
 * the last wait: an index that is out of range, a fault of the device. */
sr_status sr_device_wait(sr_device *device);

/* Copies host memory to the device; `host` may be reused at once. */
sr_status sr_device_upload(sr_device *device, void *to, const void *host, size_t bytes);

/* Copies device memory to the host once all work given to the device is done; reports errors as
 * sr_device_wait() does. */
sr_status sr_device_download(sr_device *device, void *host, const void *from, size_t bytes);

/* Returns free blocks to the backend. */
void sr_device_trim(sr_device *device);

SR_END_C

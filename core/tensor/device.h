/* device.h - a backend with its state, and the pool that its storages come from. */
#ifndef SR_TENSOR_DEVICE_H
#define SR_TENSOR_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/tensor/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_backend sr_backend; /* backend.h */
typedef struct sr_scope sr_scope;     /* scope.h */

/* Size classes: freed blocks are kept and handed out again, so that a training step of fixed shape
 * allocates nothing.  Classes are 64 bytes x (1, 1.25, 1.5, 1.75) x 2^k.
 *
 * A device is counted: every storage holds it, so that handles which the collector frees late find
 * their free lists.  After sr_device_close() it has no memory and no backend state. */
typedef struct sr_device {
    char name[16]; /* "ref", "cpu", "cuda:0" */
    const sr_backend *backend;
    sr_dtype real;       /* dtype of a real tensor made without one: f64 on ref, f32 on cpu */
    sr_threads *threads; /* borrowed; NULL: the caller's thread only */
    void *state;         /* the backend's own */
    sr_scope *scope;     /* the innermost open scope; `outside` when none is open */
    sr_scope *outside;   /* owns the storages that no scope owns */
    struct sr_classes *classes; /* the pool's free blocks: pool.h */
    struct sr_weight *weights;  /* handles of parameters: weight.h */
    struct sr_spares *spares;   /* free structs of tensors, storages and nodes: storage.h */
    size_t bytes_used;          /* in live storages */
    size_t bytes_held;          /* the same and the free blocks */
    size_t bytes_peak;          /* most ever used */
    size_t bytes_made;   /* sum of the storages made outside scopes: they wait for the collector */
    size_t bytes_scoped; /* sum of those made inside: a collector's round frees them early */
    int64_t allocations; /* blocks asked of the backend since the device was opened */
    int64_t waits;       /* times the host waited for the device: downloads and sr_device_wait() */
    int64_t uploads;     /* of host memory */
    void *staging;       /* host memory that uploads are put together in */
    size_t staging_bytes;
    bool poison; /* for tests: blocks are handed out full of NaN */
    bool closed;
    int32_t refs;
} sr_device;

/* The real dtypes that the device computes with: its own, and bf16 beside f32. */
static inline bool sr_device_computes(const sr_device *device, sr_dtype dtype) {
    return dtype == device->real || (dtype == SR_BF16 && device->real == SR_F32);
}

/* Opens a device: calls backend->open.  SR_EDEVICE with the reason when it cannot be had. */
sr_status sr_device_open(sr_device **out, const sr_backend *backend, const char *name,
                         sr_threads *threads);
/* Expires every storage that is left, then gives all memory back to the backend. */
void sr_device_close(sr_device *device); /* NULL is allowed */

/* Waits until all work given to the device is done, and reports the first error that it met since
 * the last wait: an index that is out of range, a fault of the device. */
sr_status sr_device_wait(sr_device *device);

/* Copies host memory to the device; `host` is the caller's again at once. */
sr_status sr_device_upload(sr_device *device, void *to, const void *host, size_t bytes);

/* Copies device memory to the host once all work given to the device is done; reports errors as
 * sr_device_wait() does. */
sr_status sr_device_download(sr_device *device, void *host, const void *from, size_t bytes);

/* Returns free blocks to the backend. */
void sr_device_trim(sr_device *device);

#ifdef __cplusplus
}
#endif
#endif

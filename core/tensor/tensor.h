/* tensor.h - an n-dimensional view of a storage on a device, and memory ownership.
 *
 *   sr_device   a backend with its state: threads, memory pool.  "ref", "cpu", "cuda:0"
 *   sr_storage  memory on a device.  Lives until its scope closes or its last tensor is released,
 *               whichever is first; then its memory returns to the device's pool
 *   sr_tensor   dtype, shape and strides (in elements) over a storage; reference-counted
 *   sr_scope    owns the storages created while it is open; closing it frees them, and a
 *               tensor of such a storage is expired: using it is an error, never a crash
 *
 * A storage has a version that every write increments: a backward pass rejects tensors that were
 * modified since the forward pass (grad.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/dtype.h"

SR_BEGIN_C

enum { SR_MAX_DIMS = 6 };

typedef struct sr_device sr_device; /* device.h */
typedef struct sr_scope sr_scope;   /* scope.h */
typedef struct sr_node sr_node;     /* grad.h: the op that made a tensor */
typedef struct sr_weight sr_weight; /* weight.h */
typedef struct sr_blanks sr_blanks; /* blank.h */

typedef struct sr_storage {
    sr_device *device;
    void *data; /* NULL when expired; device memory unless the device is the host */
    size_t bytes;
    uint64_t version; /* incremented by every write after creation */
    int32_t refs;
    sr_scope *scope; /* device->outside if no scope owns it; NULL when expired */
    struct sr_storage *scope_next, *scope_prev;
    sr_blanks *blanks; /* parts that count as zeros; or NULL */
} sr_storage;

typedef struct sr_tensor {
    sr_storage *storage;
    sr_dtype dtype;
    int ndim; /* 0 for a scalar */
    int64_t shape[SR_MAX_DIMS];
    int64_t stride[SR_MAX_DIMS]; /* elements; 0 along a broadcast dimension */
    int64_t offset;              /* elements from the start of the storage */
    int32_t refs;
    bool requires_grad;     /* a leaf that needs a gradient */
    bool reached;           /* a backward pass has come to this leaf; whoever asks clears it */
    struct sr_tensor *grad; /* of a leaf, or NULL; kernels accumulate into it */
    sr_node *node;          /* the recorded op that made this tensor, or NULL */
    int output;             /* index of this output of the node */
    sr_weight *weight; /* of a whole matrix of parameters: its layouts on the device; or NULL */
    struct sr_tensor *next; /* links the device's free list and tensors to be freed */
} sr_tensor;

/* First element; the tensor must be live (sr_tensor_check()). */
static inline void *sr_tensor_data(const sr_tensor *t) {
    return (char *)t->storage->data + (size_t)t->offset * sr_dtype_size(t->dtype);
}
#define SR_DATA(type, t) ((type *)sr_tensor_data(t))

/* A new contiguous, uninitialised tensor on `device`, in the device's innermost open scope.
 * SR_ENOMEM, SR_EINVAL (more than SR_MAX_DIMS, a negative size). */
sr_status sr_tensor_new(sr_tensor **out, sr_device *device, sr_dtype dtype, int ndim,
                        const int64_t *shape);
sr_status sr_tensor_like(sr_tensor **out, const sr_tensor *t); /* same device, dtype, shape */

/* The same in a given scope; in device->outside it lives as long as it is referenced. */
sr_status sr_tensor_new_in(sr_tensor **out, sr_scope *scope, sr_dtype dtype, int ndim,
                           const int64_t *shape);

/* The same view as a new tensor, without gradient history. */
sr_status sr_tensor_alias(sr_tensor **out, const sr_tensor *t);

/* A view of the same storage; SR_EINVAL if it exceeds it. */
sr_status sr_tensor_view(sr_tensor **out, const sr_tensor *t, int ndim, const int64_t *shape,
                         const int64_t *stride, int64_t offset);

sr_tensor *sr_tensor_retain(sr_tensor *t);
void sr_tensor_release(sr_tensor *t); /* may be NULL */

/* SR_EINVAL naming `op` if the tensor's scope was closed.  Its memory is then what it counts as. */
sr_status sr_tensor_check(const char *op, const sr_tensor *t);

/* Must be called after every write to t's memory after its creation. */
static inline void sr_tensor_wrote(sr_tensor *t) {
    t->storage->version++;
}

int64_t sr_tensor_elements(const sr_tensor *t);
bool sr_tensor_is_contiguous(const sr_tensor *t);
/* True if elements share memory, so that the tensor must not be written to. */
bool sr_tensor_is_expanded(const sr_tensor *t);

/* Copies between host and tensor, contiguous, converting between `dtype` and the tensor's dtype. */
sr_status sr_tensor_write(sr_tensor *t, const void *host, sr_dtype dtype);
sr_status sr_tensor_read(const sr_tensor *t, void *host, sr_dtype dtype);

/* "(3, 4) f32 on cpu", into `text`; returns it. */
const char *sr_tensor_describe(const sr_tensor *t, char *text, size_t size);

SR_END_C

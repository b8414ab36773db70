/* tensor.h - an n-dimensional view of a storage on a device, and who owns the bytes.
 *
 *   sr_device   a backend with its state: threads, memory pool.  "ref", "cpu", later "cuda:0"
 *   sr_storage  bytes on a device.  Lives until its scope closes or its last tensor goes,
 *               whichever is first; then the bytes go back to the device's pool
 *   sr_tensor   dtype, shape, strides (in elements) over a storage; counted by reference
 *   sr_scope    owns the storages made while it is open; closing it returns them to the pool, and a
 *               tensor that still points there is expired: using it is an error, never a crash
 *
 * A storage has a version that every write bumps: a backward pass that meets a tensor written to
 * since the forward pass refuses it (grad.h).
 */
#ifndef SR_TENSOR_TENSOR_H
#define SR_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_MAX_DIMS = 6 };

typedef struct sr_device sr_device; /* device.h */
typedef struct sr_scope sr_scope;   /* scope.h */
typedef struct sr_node sr_node;     /* grad.h: the op that made a tensor */
typedef struct sr_weight sr_weight; /* weight.h */

typedef struct sr_storage {
    sr_device *device;
    void *data; /* NULL once expired; device memory when the device is not the host */
    size_t bytes;
    uint64_t version; /* bumped by every write after creation */
    int32_t refs;
    sr_scope *scope; /* device->outside when no scope owns it; NULL once expired */
    struct sr_storage *scope_next, *scope_prev;
} sr_storage;

typedef struct sr_tensor {
    sr_storage *storage;
    sr_dtype dtype;
    int ndim; /* 0 for a scalar */
    int64_t shape[SR_MAX_DIMS];
    int64_t stride[SR_MAX_DIMS]; /* elements; 0 along a broadcast dimension */
    int64_t offset;              /* elements from the start of the storage */
    int32_t refs;
    bool requires_grad;     /* a leaf whose gradient is wanted */
    struct sr_tensor *grad; /* of a leaf, or NULL; kernels add into it */
    sr_node *node;          /* the recorded op that made this tensor, or NULL */
    int output;             /* which of the node's outputs this is */
    sr_weight *weight; /* of a whole matrix of parameters: its layouts on the device; or NULL */
    struct sr_tensor *next; /* links the device's free list and tensors about to go */
} sr_tensor;

/* First element; the tensor must be live (sr_tensor_check()). */
static inline void *sr_tensor_data(const sr_tensor *t) {
    return (char *)t->storage->data + (size_t)t->offset * sr_dtype_size(t->dtype);
}
#define SR_DATA(type, t) ((type *)sr_tensor_data(t))

/* A new contiguous tensor on `device`, contents not set, in the device's innermost open scope.
 * SR_ENOMEM, SR_EINVAL (more than SR_MAX_DIMS, a negative size). */
sr_status sr_tensor_new(sr_tensor **out, sr_device *device, sr_dtype dtype, int ndim,
                        const int64_t *shape);
sr_status sr_tensor_like(sr_tensor **out, const sr_tensor *t); /* same device, dtype, shape */

/* The same, owned by `scope` whichever is open; device->outside: by its references alone. */
sr_status sr_tensor_new_in(sr_tensor **out, sr_scope *scope, sr_dtype dtype, int ndim,
                           const int64_t *shape);

/* The same view as a tensor of its own, without gradient history. */
sr_status sr_tensor_alias(sr_tensor **out, const sr_tensor *t);

/* A view of the same storage; SR_EINVAL when it would reach outside it. */
sr_status sr_tensor_view(sr_tensor **out, const sr_tensor *t, int ndim, const int64_t *shape,
                         const int64_t *stride, int64_t offset);

sr_tensor *sr_tensor_retain(sr_tensor *t);
void sr_tensor_release(sr_tensor *t); /* NULL is allowed */

/* SR_EINVAL naming `op` when the tensor's scope has been closed. */
sr_status sr_tensor_check(const char *op, const sr_tensor *t);

/* Every write to t's bytes after its creation is followed by this. */
static inline void sr_tensor_wrote(sr_tensor *t) {
    t->storage->version++;
}

int64_t sr_tensor_elements(const sr_tensor *t);
bool sr_tensor_is_contiguous(const sr_tensor *t);
/* Several of its elements stand at one place, so that it is not to be written to. */
bool sr_tensor_is_expanded(const sr_tensor *t);

/* Host <-> tensor, contiguous, converting between `dtype` on the host and the tensor's own. */
sr_status sr_tensor_write(sr_tensor *t, const void *host, sr_dtype dtype);
sr_status sr_tensor_read(const sr_tensor *t, void *host, sr_dtype dtype);

/* "(3, 4) f32 on cpu", into `text`; returns it. */
const char *sr_tensor_describe(const sr_tensor *t, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif

#include "core/tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/tensor/blank.h"
#include "core/tensor/grad.h"
#include "core/tensor/scope.h"
#include "core/tensor/storage.h"
#include "core/tensor/weight.h"

/* The product of the non-zero sizes must fit into an int64_t, so that iteration over any subset of
 * the dimensions cannot overflow. */
static bool is_countable(int ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        if (shape[i] > 0 && __builtin_mul_overflow(n, shape[i], &n)) return false;
    return true;
}

/* Sets the shape and row-major strides; *bytes = size of the elements. */
static sr_status lay_out(sr_tensor *t, size_t *bytes, int ndim, const int64_t *shape) {
    if (ndim < 0 || ndim > SR_MAX_DIMS)
        return sr_fail(SR_EINVAL, "a tensor of %d dimensions; the maximum is %d", ndim,
                       SR_MAX_DIMS);
    size_t elements = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        if (shape[i] < 0)
            return sr_fail(SR_EINVAL, "a tensor of size %lld in dimension %d; sizes must be >= 0",
                           (long long)shape[i], i + 1);
        t->shape[i] = shape[i];
        t->stride[i] = (int64_t)elements;
        SR_TRY(sr_mul_size(&elements, elements, (size_t)shape[i]));
    }
    if (!is_countable(ndim, shape))
        return sr_fail(SR_ENOMEM, "a tensor of 2^63 elements or more does not fit into memory");
    t->ndim = ndim;
    return sr_mul_size(bytes, elements, sr_dtype_size(t->dtype));
}

static sr_status new_struct(sr_tensor **out, sr_device *device) {
    SR_TRY(sr_spare_take((void **)out, &device->spares->tensors, sizeof **out));
    (*out)->refs = 1;
    return SR_OK;
}

sr_status sr_tensor_new_in(sr_tensor **out, sr_scope *scope, sr_dtype dtype, int ndim,
                           const int64_t *shape) {
    *out = NULL;
    sr_device *device = scope->device;
    sr_tensor *t = NULL;
    SR_TRY(new_struct(&t, device));
    t->dtype = dtype;
    size_t bytes = 0;
    sr_status st = lay_out(t, &bytes, ndim, shape);
    if (st == SR_OK) st = sr_storage_new(&t->storage, scope, bytes);
    if (st != SR_OK) {
        sr_spare_give(&device->spares->tensors, t);
        return st;
    }
    *out = t;
    return SR_OK;
}

sr_status sr_tensor_new(sr_tensor **out, sr_device *device, sr_dtype dtype, int ndim,
                        const int64_t *shape) {
    return sr_tensor_new_in(out, device->scope, dtype, ndim, shape);
}

sr_status sr_tensor_like(sr_tensor **out, const sr_tensor *t) {
    return sr_tensor_new(out, t->storage->device, t->dtype, t->ndim, t->shape);
}

sr_status sr_tensor_alias(sr_tensor **out, const sr_tensor *t) {
    sr_tensor *y = NULL;
    SR_TRY(new_struct(&y, t->storage->device));
    y->storage = sr_storage_retain(t->storage);
    y->dtype = t->dtype;
    y->ndim = t->ndim;
    memcpy(y->shape, t->shape, sizeof y->shape);
    memcpy(y->stride, t->stride, sizeof y->stride);
    y->offset = t->offset;
    y->weight = sr_weight_retain(t->weight);
    *out = y;
    return SR_OK;
}

/* Checks that the first and last element of the view are within the storage. */
static sr_status check_reach(const sr_tensor *t, int ndim, const int64_t *shape,
                             const int64_t *stride, int64_t offset) {
    int64_t low = offset, high = offset;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 0) return SR_OK;
        int64_t reach;
        if (__builtin_mul_overflow(shape[i] - 1, stride[i], &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            return sr_fail(SR_EINVAL, "view: integer overflow in dimension %d", i + 1);
    }
    int64_t elements = (int64_t)(t->storage->bytes / sr_dtype_size(t->dtype));
    if (low < 0 || high >= elements)
        return sr_fail(SR_EINVAL, "view: elements %lld to %lld of a storage of %lld",
                       (long long)low, (long long)high, (long long)elements);
    return SR_OK;
}

sr_status sr_tensor_view(sr_tensor **out, const sr_tensor *t, int ndim, const int64_t *shape,
                         const int64_t *stride, int64_t offset) {
    *out = NULL;
    if (ndim < 0 || ndim > SR_MAX_DIMS)
        return sr_fail(SR_EINVAL, "view: %d dimensions; the maximum is %d", ndim, SR_MAX_DIMS);
    if (!is_countable(ndim, shape))
        return sr_fail(SR_EINVAL, "view: 2^63 elements or more; choose smaller sizes");
    SR_TRY(check_reach(t, ndim, shape, stride, offset));
    SR_TRY(sr_tensor_alias(out, t));
    sr_weight_release((*out)->weight);
    (*out)->weight = NULL;
    (*out)->ndim = ndim;
    (*out)->offset = offset;
    memcpy((*out)->shape, shape, (size_t)ndim * sizeof *shape);
    memcpy((*out)->stride, stride, (size_t)ndim * sizeof *stride);
    return SR_OK;
}

sr_tensor *sr_tensor_retain(sr_tensor *t) {
    t->refs++;
    return t;
}

static void free_tensor(sr_tensor *t) {
    sr_device *device = sr_device_retain(t->storage->device);
    sr_node_release(t->node);
    sr_tensor_release(t->grad);
    sr_weight_release(t->weight);
    sr_storage_release(t->storage);
    sr_spare_give(&device->spares->tensors, t);
    sr_device_release(device);
}

/* A tensor retains its node and a node retains others, so that freeing one may free a graph of any
 * depth: tensors to be freed are kept in a list instead of on the C stack. */
void sr_tensor_release(sr_tensor *t) {
    if (t == NULL || --t->refs > 0) return;
    sr_device *device = t->storage->device;
    sr_spares *spares = device->spares;
    t->next = spares->dying;
    spares->dying = t;
    if (spares->draining) return;
    sr_device_retain(device);
    spares->draining = true;
    while (spares->dying != NULL) {
        sr_tensor *dead = spares->dying;
        spares->dying = dead->next;
        free_tensor(dead);
    }
    spares->draining = false;
    sr_device_release(device);
}

sr_status sr_tensor_check(const char *op, const sr_tensor *t) {
    if (t->storage->data != NULL) return t->storage->blanks != NULL ? sr_blanks_settle(t) : SR_OK;
    return sr_fail(SR_EINVAL,
                   "%s: the tensor has expired because its scope was closed; call t:keep() before "
                   "the scope ends",
                   op);
}

int64_t sr_tensor_elements(const sr_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
    return n;
}

bool sr_tensor_is_contiguous(const sr_tensor *t) {
    int64_t expected = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] == 0) return true;
        if (t->shape[i] != 1 && t->stride[i] != expected) return false;
        expected *= t->shape[i];
    }
    return true;
}

bool sr_tensor_is_expanded(const sr_tensor *t) {
    bool repeats = false, empty = false;
    for (int i = 0; i < t->ndim; i++) {
        repeats = repeats || (t->shape[i] > 1 && t->stride[i] == 0);
        empty = empty || t->shape[i] == 0;
    }
    return repeats && !empty;
}

static sr_status check_contiguous(const char *op, const sr_tensor *t) {
    SR_TRY(sr_tensor_check(op, t));
    if (sr_tensor_is_contiguous(t)) return SR_OK;
    return sr_fail(SR_EINVAL, "%s: the tensor is a strided view; call contiguous() first", op);
}

/* Host memory of the tensor's dtype, for conversions. */
static sr_status new_staging(void **out, const sr_tensor *t) {
    return sr_alloc(out, (size_t)sr_tensor_elements(t), sr_dtype_size(t->dtype));
}

sr_status sr_tensor_write(sr_tensor *t, const void *host, sr_dtype dtype) {
    SR_TRY(check_contiguous("write", t));
    sr_device *device = t->storage->device;
    int64_t n = sr_tensor_elements(t);
    if (n == 0) return SR_OK;
    size_t bytes = (size_t)n * sr_dtype_size(t->dtype);
    sr_tensor_wrote(t);
    if (dtype == t->dtype) return sr_device_upload(device, sr_tensor_data(t), host, bytes);
    void *staging = NULL;
    SR_TRY(new_staging(&staging, t));
    sr_dtype_convert(staging, t->dtype, host, dtype, n);
    sr_status st = sr_device_upload(device, sr_tensor_data(t), staging, bytes);
    sr_free(staging);
    return st;
}

sr_status sr_tensor_read(const sr_tensor *t, void *host, sr_dtype dtype) {
    SR_TRY(check_contiguous("read", t));
    sr_device *device = t->storage->device;
    int64_t n = sr_tensor_elements(t);
    if (n == 0) return SR_OK;
    size_t bytes = (size_t)n * sr_dtype_size(t->dtype);
    if (dtype == t->dtype) return sr_device_download(device, host, sr_tensor_data(t), bytes);
    void *staging = NULL;
    SR_TRY(new_staging(&staging, t));
    sr_status st = sr_device_download(device, staging, sr_tensor_data(t), bytes);
    if (st == SR_OK) sr_dtype_convert(host, dtype, staging, t->dtype, n);
    sr_free(staging);
    return st;
}

const char *sr_tensor_describe(const sr_tensor *t, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < t->ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, i == 0 ? "(%lld" : ", %lld",
                                 (long long)t->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "%s %s on %s", t->ndim == 0 ? "()" : ")",
                 sr_dtype_name(t->dtype), t->storage->device->name);
    return text;
}

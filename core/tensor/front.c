#include "core/tensor/front.h"

#include <stdio.h>
#include <string.h>

sr_status sr_front_check(const char *op, int count, sr_tensor *const *list) {
    const sr_tensor *first = NULL;
    for (int i = 0; i < count; i++) {
        if (list[i] == NULL) continue;
        SR_TRY(sr_tensor_check(op, list[i]));
        if (first == NULL) first = list[i];
        if (list[i]->storage->device != first->storage->device)
            return sr_fail(SR_EINVAL, "%s: one tensor is on %s, another on %s; move one with to()",
                           op, first->storage->device->name, list[i]->storage->device->name);
    }
    return SR_OK;
}

static const char *expected_text(char *text, size_t size, sr_dtype dtype, int ndim,
                                 const int64_t *shape) {
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < ndim && used < size; i++) {
        const char *comma = i > 0 ? ", " : "";
        if (shape[i] < 0)
            used += (size_t)snprintf(text + used, size - used, "%sany", comma);
        else
            used +=
                (size_t)snprintf(text + used, size - used, "%s%lld", comma, (long long)shape[i]);
    }
    if (used < size) snprintf(text + used, size - used, ") %s", sr_dtype_name(dtype));
    return text;
}

sr_status sr_front_shape(const char *op, const char *name, const sr_tensor *t, sr_dtype dtype,
                         int ndim, const int64_t *shape) {
    bool fits = t->dtype == dtype && t->ndim == ndim;
    for (int i = 0; fits && i < ndim; i++) fits = shape[i] < 0 || shape[i] == t->shape[i];
    if (fits) return SR_OK;
    char given[160], expected[160];
    const char *fix = t->dtype != dtype ? "convert it with to()" : "reshape it, or check the sizes";
    return sr_fail(SR_EINVAL, "%s: %s is %s; expected %s; %s", op, name,
                   sr_tensor_describe(t, given, sizeof given),
                   expected_text(expected, sizeof expected, dtype, ndim, shape), fix);
}

sr_status sr_front_real(const char *op, const char *name, const sr_tensor *t, int ndim,
                        const int64_t *shape) {
    const sr_device *device = t->storage->device;
    bool fits = sr_device_computes(device, t->dtype);
    return sr_front_shape(op, name, t, fits ? t->dtype : device->real, ndim, shape);
}

sr_status sr_front_same(const char *op, const char *name, const sr_tensor *t, const char *other,
                        const sr_tensor *u) {
    if (t->dtype == u->dtype) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "%s: %s is %s, but %s is %s; expected the same dtype; convert one with to(), or "
                   "create the parameters with the precision of the activations",
                   op, name, sr_dtype_name(t->dtype), other, sr_dtype_name(u->dtype));
}

/* Scalars and integers take the dtype of a tensor with dimensions. */
static bool yields(const sr_tensor *number, const sr_tensor *to) {
    return !sr_dtype_is_real(number->dtype) || (number->ndim == 0 && to->ndim > 0);
}

sr_dtype sr_front_meet(const sr_tensor *a, const sr_tensor *b) {
    sr_dtype real = a->storage->device->real;
    if (real != SR_F32) return real;
    bool bf16_a = a->dtype == SR_BF16, bf16_b = b->dtype == SR_BF16;
    bool bf16 = (bf16_a && (bf16_b || yields(b, a))) || (bf16_b && yields(a, b));
    return bf16 ? SR_BF16 : real;
}

sr_status sr_front_rows(const char *op, const char *name, const sr_tensor *x,
                        const sr_layout *layout) {
    if (x->ndim >= 1 && x->shape[0] == layout->rows) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "%s: the layout has %lld rows (%d sequences, %lld tokens), but %s has %lld; "
                   "pass the layout of this batch",
                   op, (long long)layout->rows, layout->sequences, (long long)layout->tokens, name,
                   x->ndim >= 1 ? (long long)x->shape[0] : 0LL);
}

sr_status sr_front_record(sr_node **node, const sr_rule *rule, sr_tensor *y, int inputs,
                          sr_tensor *const *x) {
    *node = NULL;
    if (!sr_grad_wanted(inputs, x)) return SR_OK;
    SR_TRY(sr_node_new(node, rule, y->storage->device, inputs, x));
    sr_node_attach(*node, y, 0);
    sr_node_release(*node); /* y holds it */
    return SR_OK;
}

sr_status sr_front_writable(const char *op, const sr_tensor *y) {
    SR_TRY(sr_tensor_check(op, y));
    if (sr_tensor_is_expanded(y))
        return sr_fail(
            SR_EINVAL,
            "%s: the tensor is an expanded view, whose elements share memory; write to a "
            "clone() of it",
            op);
    if (!sr_grad_recording() || !sr_grad_tracks(y)) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "%s: the tensor %s, and in-place writes are not recorded; use the op that "
                   "returns a new tensor, or write under no_grad()",
                   op, y->requires_grad ? "requires a gradient" : "has a recorded history");
}

void sr_front_stretch(sr_tensor *view, const sr_tensor *t, int ndim, const int64_t *shape) {
    *view = *t;
    view->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        int from = i - (ndim - t->ndim);
        bool stretched = from < 0 || (t->shape[from] == 1 && shape[i] != 1);
        view->shape[i] = shape[i];
        view->stride[i] = stretched ? 0 : t->stride[from];
    }
}

/* ops_rows.c - rows by index: gathering and replacing them, and taking some out for a while. */
#include <string.h>

#include "core/tensor/front.h"

/* ---- gather_rows ----------------------------------------------------------------------------- */

static sr_status gather_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, scatter_rows);
    sr_tensor *sink;
    SR_TRY(sr_grad_sink(node, dx, 0, &sink));
    return node->device->backend->scatter_rows(sink, node->dy[0], node->saved[0].tensor);
}
static const sr_rule gather_rule = {"gather_rows", gather_back};

sr_status sr_op_gather_rows(sr_tensor **out, sr_tensor *x, sr_tensor *rows) {
    *out = NULL;
    SR_TRY(sr_front_check("gather_rows", 2, (sr_tensor *[]){x, rows}));
    sr_device *device = x->storage->device;
    SR_NEED(device, gather_rows);
    SR_TRY(sr_front_shape("gather_rows", "rows", rows, SR_I32, 1, (int64_t[]){-1}));
    if (x->ndim == 0) return sr_fail(SR_EINVAL, "gather_rows: x is a scalar, which has no rows");
    int64_t shape[SR_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = rows->shape[0];
    sr_tensor *y = NULL;
    sr_node *node = NULL;
    SR_TRY(sr_tensor_new(&y, device, x->dtype, x->ndim, shape));
    sr_status st = device->backend->gather_rows(y, x, rows);
    if (st == SR_OK && sr_dtype_is_real(x->dtype))
        st = sr_front_record(&node, &gather_rule, y, 1, &x);
    if (st == SR_OK && node != NULL) st = sr_node_save(node, 0, rows);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- put_rows -------------------------------------------------------------------------------- */

/* dx = dy, zero in the rows that were replaced. */
static sr_status put_back_x(sr_tensor **dx, const sr_tensor *dy, const sr_tensor *rows) {
    const sr_backend *backend = dy->storage->device->backend;
    sr_tensor *g = NULL;
    SR_TRY(sr_tensor_new(&g, dy->storage->device, dy->dtype, dy->ndim, dy->shape));
    sr_status st = backend->copy(g, dy);
    if (st == SR_OK) st = backend->put_rows(g, NULL, rows);
    return SR_GIVE(dx, g, st, sr_tensor_release);
}

static sr_status put_back(sr_node *node, sr_tensor **dx) {
    sr_tensor *dy = node->dy[0], *rows = node->saved[0].tensor;
    SR_NEED(node->device, gather_rows);
    if (sr_node_wants(node, 0)) SR_TRY(put_back_x(&dx[0], dy, rows));
    if (!sr_node_wants(node, 1)) return SR_OK;
    SR_TRY(sr_tensor_new(&dx[1], node->device, dy->dtype, node->edge[1].ndim, node->edge[1].shape));
    return node->device->backend->gather_rows(dx[1], dy, rows);
}
static const sr_rule put_rule = {"put_rows", put_back};

static sr_status check_put(const sr_tensor *x, const sr_tensor *rows, const sr_tensor *values) {
    int64_t shape[SR_MAX_DIMS];
    SR_TRY(sr_front_shape("put_rows", "rows", rows, SR_I32, 1, (int64_t[]){-1}));
    if (x->ndim == 0) return sr_fail(SR_EINVAL, "put_rows: x is a scalar, which has no rows");
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = rows->shape[0];
    return sr_front_shape("put_rows", "values", values, x->dtype, x->ndim, shape);
}

sr_status sr_op_put_rows(sr_tensor **out, sr_tensor *x, sr_tensor *rows, sr_tensor *values) {
    *out = NULL;
    SR_TRY(sr_front_check("put_rows", 3, (sr_tensor *[]){x, rows, values}));
    sr_device *device = x->storage->device;
    SR_NEED(device, put_rows);
    SR_TRY(check_put(x, rows, values));
    sr_tensor *y = NULL;
    sr_node *node = NULL;
    SR_TRY(sr_tensor_new(&y, device, x->dtype, x->ndim, x->shape));
    sr_status st = device->backend->copy(y, x);
    if (st == SR_OK) st = device->backend->put_rows(y, values, rows);
    if (st == SR_OK && sr_dtype_is_real(x->dtype))
        st = sr_front_record(&node, &put_rule, y, 2, (sr_tensor *[]){x, values});
    if (st == SR_OK && node != NULL) st = sr_node_save(node, 0, rows);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- take_rows, return_rows ------------------------------------------------------------------ */

/* Rows `from` .. `to` of t, for kernels: a struct on the caller's stack. */
static sr_tensor part_of(const sr_tensor *t, int64_t from, int64_t to) {
    sr_tensor part = *t;
    part.offset += from * t->stride[0];
    part.shape[0] = to - from;
    return part;
}

/* *out (count, ...) = the rows of x, then zeros. */
static sr_status take(sr_tensor **out, const sr_tensor *x, const sr_tensor *rows, int64_t count) {
    sr_device *device = x->storage->device;
    int64_t shape[SR_MAX_DIMS], taken = rows->shape[0];
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = count;
    SR_TRY(sr_tensor_new(out, device, x->dtype, x->ndim, shape));
    sr_tensor head = part_of(*out, 0, taken), tail = part_of(*out, taken, count);
    SR_TRY(device->backend->gather_rows(&head, x, rows));
    return taken < count ? device->backend->fill(&tail, 0.0) : SR_OK;
}

static bool is_only_reference(const sr_tensor *t) {
    return t->refs == 1 && t->storage->refs == 1 && !sr_tensor_is_expanded(t);
}

/* *out = the gradient of the rest, reused if nothing else refers to it; zeros without one. */
static sr_status own_gradient(sr_tensor **out, sr_node *node) {
    const sr_backend *backend = node->device->backend;
    sr_tensor *rest = node->dy[1], *some = rest != NULL ? rest : node->dy[0];
    if (rest != NULL && is_only_reference(rest)) {
        *out = sr_tensor_retain(rest);
        sr_tensor_wrote(rest);
        return SR_OK;
    }
    const sr_edge *e = &node->edge[0];
    SR_TRY(sr_tensor_new(out, node->device, some->dtype, e->ndim, e->shape));
    return rest != NULL ? backend->copy(*out, rest) : backend->fill(*out, 0.0);
}

/* dx = the gradient of the rest, with the gradients of the taken rows in their place. */
static sr_status take_back(sr_node *node, sr_tensor **dx) {
    const sr_tensor *rows = node->saved[0].tensor, *taken = node->dy[0];
    SR_TRY(own_gradient(&dx[0], node));
    if (taken == NULL) return node->device->backend->put_rows(dx[0], NULL, rows);
    sr_tensor head = part_of(taken, 0, rows->shape[0]);
    return node->device->backend->put_rows(dx[0], &head, rows);
}
static const sr_rule take_rule = {"take_rows", take_back};

static sr_status check_take(const sr_tensor *x, const sr_tensor *rows, int64_t count) {
    SR_NEED(x->storage->device, gather_rows);
    SR_NEED(x->storage->device, put_rows);
    SR_TRY(sr_front_shape("take_rows", "rows", rows, SR_I32, 1, (int64_t[]){-1}));
    if (x->ndim == 0) return sr_fail(SR_EINVAL, "take_rows: x is a scalar, which has no rows");
    if (count < rows->shape[0])
        return sr_fail(SR_EINVAL, "take_rows: %lld rows do not fit in a count of %lld",
                       (long long)rows->shape[0], (long long)count);
    return SR_OK;
}

sr_status sr_op_take_rows(sr_tensor **taken, sr_tensor **rest, sr_tensor *x, sr_tensor *rows,
                          int64_t count) {
    *taken = *rest = NULL;
    SR_TRY(sr_front_check("take_rows", 2, (sr_tensor *[]){x, rows}));
    SR_TRY(check_take(x, rows, count));
    sr_tensor *y = NULL, *other = NULL;
    sr_node *node = NULL;
    sr_status st = take(&y, x, rows, count);
    if (st == SR_OK) st = sr_tensor_alias(&other, x);
    if (st == SR_OK) st = sr_front_record(&node, &take_rule, y, 1, &x);
    if (st == SR_OK && node != NULL) st = sr_node_save(node, 0, rows);
    if (st != SR_OK) {
        sr_tensor_release(other);
        sr_tensor_release(y);
        return st;
    }
    if (node != NULL) sr_node_attach(node, other, 1);
    *taken = y;
    *rest = other;
    return SR_OK;
}

/* The gradient of the rest is dy itself: take_back() replaces the rows that are not the rest's. */
static sr_status return_back(sr_node *node, sr_tensor **dx) {
    sr_tensor *dy = node->dy[0];
    if (sr_node_wants(node, 0)) dx[0] = sr_tensor_retain(dy);
    if (!sr_node_wants(node, 1)) return SR_OK;
    return take(&dx[1], dy, node->saved[0].tensor, node->edge[1].shape[0]);
}
static const sr_rule return_rule = {"return_rows", return_back};

static sr_status check_return(const sr_tensor *rest, const sr_tensor *rows, const sr_tensor *values,
                              bool in_place) {
    int64_t shape[SR_MAX_DIMS];
    memcpy(shape, rest->shape, sizeof shape);
    shape[0] = -1;
    SR_TRY(sr_front_shape("return_rows", "values", values, rest->dtype, rest->ndim, shape));
    if (values->shape[0] < rows->shape[0])
        return sr_fail(SR_EINVAL, "return_rows: %lld values for %lld rows; return a row for each",
                       (long long)values->shape[0], (long long)rows->shape[0]);
    bool leaf = rest->node != NULL && rest->node->edge[0].leaf != NULL;
    if (!in_place || (!leaf && !rest->requires_grad && !sr_tensor_is_expanded(rest))) return SR_OK;
    return sr_fail(SR_EINVAL, "return_rows: x %s, so it cannot be overwritten; leave out in_place",
                   sr_tensor_is_expanded(rest) ? "is an expanded view"
                                               : "is a leaf that requires a gradient");
}

/* *out = rest, or a copy of it. */
static sr_status base_of(sr_tensor **out, const sr_tensor *rest, bool in_place) {
    if (in_place) return sr_tensor_alias(out, rest);
    SR_TRY(sr_tensor_new(out, rest->storage->device, rest->dtype, rest->ndim, rest->shape));
    return rest->storage->device->backend->copy(*out, rest);
}

sr_status sr_op_return_rows(sr_tensor **out, sr_tensor *rest, sr_tensor *rows, sr_tensor *values,
                            bool in_place) {
    *out = NULL;
    SR_TRY(sr_front_check("return_rows", 3, (sr_tensor *[]){rest, rows, values}));
    SR_TRY(check_return(rest, rows, values, in_place));
    sr_tensor *y = NULL, head = part_of(values, 0, rows->shape[0]);
    sr_node *node = NULL;
    sr_status st = base_of(&y, rest, in_place);
    if (st == SR_OK) sr_tensor_wrote(y);
    if (st == SR_OK) st = rest->storage->device->backend->put_rows(y, &head, rows);
    if (st == SR_OK) st = sr_front_record(&node, &return_rule, y, 2, (sr_tensor *[]){rest, values});
    if (st == SR_OK && node != NULL) st = sr_node_save(node, 0, rows);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ops_rows.c - rows by index: gathering and replacing them. */
#include <string.h>

#include "core/tensor/front.h"

/* ---- gather_rows ----------------------------------------------------------------------------- */

static sr_status gather_back(sr_node *node, sr_tensor **dx, sr_backward *pass) {
    (void)pass;
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
    if (st != SR_OK) {
        sr_tensor_release(y);
        return st;
    }
    *out = y;
    return SR_OK;
}

/* ---- put_rows -------------------------------------------------------------------------------- */

/* dx = dy, zero in the rows that were replaced. */
static sr_status put_back_x(sr_tensor **dx, const sr_tensor *dy, const sr_tensor *rows) {
    const sr_backend *backend = dy->storage->device->backend;
    sr_tensor *g = NULL;
    SR_TRY(sr_tensor_new(&g, dy->storage->device, dy->dtype, dy->ndim, dy->shape));
    sr_status st = backend->copy(g, dy);
    if (st == SR_OK) st = backend->put_rows(g, NULL, rows);
    if (st != SR_OK) {
        sr_tensor_release(g);
        return st;
    }
    *dx = g;
    return SR_OK;
}

static sr_status put_back(sr_node *node, sr_tensor **dx, sr_backward *pass) {
    (void)pass;
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
    if (st != SR_OK) {
        sr_tensor_release(y);
        return st;
    }
    *out = y;
    return SR_OK;
}

/* ops_reduce.c - sums and extremes, matrix products, softmax, joining. */
#include <string.h>

#include "core/tensor/front.h"

static const char *const reduction_names[] = {[SR_SUM] = "sum",
                                              [SR_MAX] = "max",
                                              [SR_MIN] = "min",
                                              [SR_ARGMAX] = "argmax",
                                              [SR_ARGMIN] = "argmin"};

/* ---- sum, max, min, argmax, argmin ----------------------------------------------------------- */

/* dy with the reduced dimensions back as 1, ready to broadcast against the input. */
static sr_status kept(sr_tensor **out, const sr_node *node, sr_tensor *dy) {
    const sr_edge *e = &node->edge[0];
    int64_t shape[SR_MAX_DIMS];
    for (int i = 0; i < e->ndim; i++)
        shape[i] = node->op == SR_ALL_DIMS || node->op == i ? 1 : e->shape[i];
    return sr_op_reshape(out, dy, e->ndim, shape);
}

static sr_status sum_back(sr_node *node, sr_tensor **dx) {
    sr_tensor *g = NULL;
    SR_TRY(kept(&g, node, node->dy[0]));
    sr_status st = sr_op_expand(&dx[0], g, node->edge[0].ndim, node->edge[0].shape);
    sr_tensor_release(g);
    return st;
}
static const sr_rule sum_rule = {"sum", sum_back};

/* Distributes dy equally over all elements equal to the extreme. */
static sr_status extreme_back(sr_node *node, sr_tensor **dx) {
    sr_tensor *g = NULL, *y = NULL, *mask = NULL, *ones = NULL, *count = NULL, *share = NULL;
    sr_tensor *x = node->saved[0].tensor;
    sr_status st;
    SR_GO(done, st, kept(&g, node, node->dy[0]));
    SR_GO(done, st, kept(&y, node, node->saved[1].tensor));
    SR_GO(done, st, sr_op_binary(&mask, x, y, SR_EQ));
    SR_GO(done, st, sr_op_convert(&ones, mask, x->dtype));
    SR_GO(done, st, sr_op_reduce(&count, ones, SR_SUM, node->op, true));
    SR_GO(done, st, sr_op_binary(&share, g, count, SR_DIV));
    SR_GO(done, st, sr_op_binary(&dx[0], ones, share, SR_MUL));
done:
    sr_tensor_release(g);
    sr_tensor_release(y);
    sr_tensor_release(mask);
    sr_tensor_release(ones);
    sr_tensor_release(count);
    sr_tensor_release(share);
    return st;
}
static const sr_rule extreme_rule = {"max or min", extreme_back};

static sr_status record_reduce(sr_tensor *y, sr_tensor *x, sr_reduction op, int dim) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, op == SR_SUM ? &sum_rule : &extreme_rule, y, 1, &x));
    if (node == NULL) return SR_OK;
    node->op = dim;
    if (op == SR_SUM) return SR_OK;
    SR_TRY(sr_node_save(node, 0, x));
    return sr_node_save(node, 1, y);
}

/* Gives y the shape without the reduced dimensions. */
static void drop_dims(sr_tensor *y, int dim) {
    int n = 0;
    for (int i = 0; i < y->ndim; i++) {
        if (dim == SR_ALL_DIMS || i == dim) continue;
        y->shape[n] = y->shape[i];
        y->stride[n++] = y->stride[i];
    }
    y->ndim = n;
}

static sr_status check_reduce(sr_tensor *x, sr_reduction op, int dim) {
    const char *name = reduction_names[op];
    char text[160];
    SR_TRY(sr_tensor_check(name, x));
    SR_NEED(x->storage->device, reduce);
    if (dim != SR_ALL_DIMS && (dim < 0 || dim >= x->ndim))
        return sr_fail(SR_EINVAL, "%s: dimension %d is out of range for %s", name, dim + 1,
                       sr_tensor_describe(x, text, sizeof text));
    int64_t reduced = dim == SR_ALL_DIMS ? sr_tensor_elements(x) : x->shape[dim];
    if (op != SR_SUM && reduced == 0 && (dim == SR_ALL_DIMS || sr_tensor_elements(x) == 0))
        return sr_fail(SR_EINVAL, "%s: no elements to reduce in %s", name,
                       sr_tensor_describe(x, text, sizeof text));
    return SR_OK;
}

/* x as the reduction reads it: whole numbers or the device's compute dtype, flat for a position
 * over all dimensions. */
static sr_status reduce_input(sr_tensor **out, sr_tensor *x, sr_reduction op, int *dim) {
    bool real = sr_dtype_is_real(x->dtype);
    sr_tensor *in = NULL;
    SR_TRY(sr_op_convert(&in, x, real ? x->storage->device->real : SR_I32));
    if ((op != SR_ARGMAX && op != SR_ARGMIN) || *dim != SR_ALL_DIMS) {
        *out = in;
        return SR_OK;
    }
    *dim = 0;
    sr_status st = sr_op_reshape(out, in, 1, (int64_t[]){-1});
    sr_tensor_release(in);
    return st;
}

sr_status sr_op_reduce(sr_tensor **out, sr_tensor *x, sr_reduction op, int dim, bool keep) {
    *out = NULL;
    SR_TRY(check_reduce(x, op, dim));
    bool position = op == SR_ARGMAX || op == SR_ARGMIN;
    int asked = dim;
    sr_tensor *in = NULL, *y = NULL;
    SR_TRY(reduce_input(&in, x, op, &dim));
    int64_t shape[SR_MAX_DIMS];
    for (int i = 0; i < in->ndim; i++) shape[i] = dim == SR_ALL_DIMS || dim == i ? 1 : in->shape[i];
    sr_device *device = in->storage->device;
    sr_status st = sr_tensor_new(&y, device, position ? SR_I32 : in->dtype, in->ndim, shape);
    if (st == SR_OK) st = device->backend->reduce(y, in, op);
    if (st == SR_OK && !keep) drop_dims(y, dim);
    if (st == SR_OK && keep && asked == SR_ALL_DIMS)
        for (y->ndim = 0; y->ndim < x->ndim; y->ndim++) y->shape[y->ndim] = y->stride[y->ndim] = 1;
    if (st == SR_OK && !position && sr_dtype_is_real(y->dtype)) st = record_reduce(y, in, op, dim);
    sr_tensor_release(in);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

sr_status sr_op_mean(sr_tensor **out, sr_tensor *x, int dim, bool keep) {
    *out = NULL;
    SR_TRY(sr_tensor_check("mean", x));
    sr_device *device = x->storage->device;
    sr_tensor *in = NULL, *sum = NULL, *count = NULL;
    sr_status st;
    SR_GO(done, st, sr_op_convert(&in, x, device->real));
    SR_GO(done, st, sr_op_reduce(&sum, in, SR_SUM, dim, keep));
    double n = (double)(dim == SR_ALL_DIMS ? sr_tensor_elements(x) : x->shape[dim]);
    SR_GO(done, st, sr_tensor_scalar(&count, device, device->real, n));
    SR_GO(done, st, sr_op_binary(out, sum, count, SR_DIV));
done:
    sr_tensor_release(in);
    sr_tensor_release(sum);
    sr_tensor_release(count);
    return st;
}

sr_status sr_op_sum_to(sr_tensor **out, sr_tensor *g, sr_dtype dtype, int ndim,
                       const int64_t *shape) {
    *out = NULL;
    int64_t wide[SR_MAX_DIMS];
    bool same = g->ndim == ndim;
    for (int i = 0; i < g->ndim; i++) {
        int from = i - (g->ndim - ndim);
        wide[i] = from < 0 ? 1 : shape[from];
        same = same && wide[i] == g->shape[i];
    }
    if (same) {
        *out = sr_tensor_retain(g);
        return SR_OK;
    }
    sr_device *device = g->storage->device;
    SR_NEED(device, reduce);
    sr_tensor *sum = NULL;
    SR_TRY(sr_tensor_new(&sum, device, dtype, g->ndim, wide));
    sr_status st = device->backend->reduce(sum, g, SR_SUM);
    if (st == SR_OK) st = sr_op_reshape(out, sum, ndim, shape);
    sr_tensor_release(sum);
    return st;
}

/* ---- matmul ---------------------------------------------------------------------------------- */

static sr_status compute_matmul(sr_tensor **out, sr_tensor *a, sr_tensor *b, sr_dtype dtype);

/* da = dy b^T, db = a^T dy, summed over what was broadcast. */
static sr_status matmul_side(sr_tensor **dx, sr_node *node, int side) {
    sr_tensor *dy = node->dy[0], *other = node->saved[1 - side].tensor, *turned = NULL,
              *whole = NULL;
    const sr_edge *e = &node->edge[side];
    sr_dtype dtype = sr_edge_grad_dtype(e);
    sr_status st = sr_op_transpose(&turned, other, other->ndim - 2, other->ndim - 1);
    if (st == SR_OK)
        st = compute_matmul(&whole, side == 0 ? dy : turned, side == 0 ? turned : dy, dtype);
    if (st == SR_OK) st = sr_op_sum_to(dx, whole, dtype, e->ndim, e->shape);
    sr_tensor_release(turned);
    sr_tensor_release(whole);
    return st;
}

static sr_status matmul_back(sr_node *node, sr_tensor **dx) {
    for (int side = 0; side < 2; side++)
        if (sr_node_wants(node, side)) SR_TRY(matmul_side(&dx[side], node, side));
    return SR_OK;
}
static const sr_rule matmul_rule = {"matmul", matmul_back};

/* The shape of the product; batch dimensions broadcast. */
static sr_status matmul_shape(int *ndim, int64_t *shape, const sr_tensor *a, const sr_tensor *b) {
    char ta[160], tb[160];
    bool fits = a->ndim >= 2 && b->ndim >= 2 && a->shape[a->ndim - 1] == b->shape[b->ndim - 2];
    *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int i = 0; fits && i < *ndim - 2; i++) {
        int ia = i - (*ndim - a->ndim), ib = i - (*ndim - b->ndim);
        int64_t na = ia < 0 ? 1 : a->shape[ia], nb = ib < 0 ? 1 : b->shape[ib];
        fits = na == nb || na == 1 || nb == 1;
        shape[i] = na == 1 ? nb : na;
    }
    if (!fits)
        return sr_fail(
            SR_EINVAL,
            "matmul: %s by %s; expected (..., m, k) by (..., k, n) with batch sizes equal "
            "or 1; transpose(-2, -1) or unsqueeze() one",
            sr_tensor_describe(a, ta, sizeof ta), sr_tensor_describe(b, tb, sizeof tb));
    shape[*ndim - 2] = a->shape[a->ndim - 2];
    shape[*ndim - 1] = b->shape[b->ndim - 1];
    return SR_OK;
}

/* t with its batch dimensions expanded to those of `shape`. */
static void stretch_batch(sr_tensor *view, const sr_tensor *t, int ndim, const int64_t *shape) {
    int64_t mine[SR_MAX_DIMS];
    memcpy(mine, shape, sizeof mine);
    mine[ndim - 2] = t->shape[t->ndim - 2];
    mine[ndim - 1] = t->shape[t->ndim - 1];
    sr_front_stretch(view, t, ndim, mine);
}

/* The product as `dtype`. */
static sr_status compute_matmul(sr_tensor **out, sr_tensor *a, sr_tensor *b, sr_dtype dtype) {
    sr_device *device = a->storage->device;
    int64_t shape[SR_MAX_DIMS];
    int ndim;
    SR_TRY(matmul_shape(&ndim, shape, a, b));
    sr_tensor va, vb;
    stretch_batch(&va, a, ndim, shape);
    stretch_batch(&vb, b, ndim, shape);
    SR_TRY(sr_tensor_new(out, device, dtype, ndim, shape));
    SR_TRY(device->backend->matmul(*out, &va, &vb, 1.0, 0.0));
    sr_node *node;
    SR_TRY(sr_front_record(&node, &matmul_rule, *out, 2, (sr_tensor *[]){a, b}));
    if (node == NULL) return SR_OK;
    SR_TRY(sr_node_save(node, 0, a));
    return sr_node_save(node, 1, b);
}

sr_status sr_op_matmul(sr_tensor **out, sr_tensor *a, sr_tensor *b) {
    *out = NULL;
    SR_TRY(sr_front_check("matmul", 2, (sr_tensor *[]){a, b}));
    sr_device *device = a->storage->device;
    SR_NEED(device, matmul);
    sr_tensor *ca = NULL, *cb = NULL, *y = NULL;
    sr_dtype dtype = sr_front_meet(a, b);
    sr_status st = sr_op_convert(&ca, a, dtype);
    if (st == SR_OK) st = sr_op_convert(&cb, b, dtype);
    if (st == SR_OK) st = compute_matmul(&y, ca, cb, dtype);
    sr_tensor_release(ca);
    sr_tensor_release(cb);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- softmax --------------------------------------------------------------------------------- */

static sr_status softmax_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, softmax_backward);
    SR_TRY(sr_tensor_like(&dx[0], node->dy[0]));
    return node->device->backend->softmax_backward(dx[0], node->dy[0], node->saved[0].tensor,
                                                   node->op != 0);
}
static const sr_rule softmax_rule = {"softmax", softmax_back};

/* Over the last dimension. */
static sr_status softmax_last(sr_tensor **out, sr_tensor *x, bool log) {
    sr_tensor *y = NULL;
    sr_node *node;
    SR_TRY(sr_tensor_like(&y, x));
    sr_status st = x->storage->device->backend->softmax(y, x, log);
    if (st == SR_OK) st = sr_front_record(&node, &softmax_rule, y, 1, &x);
    if (st == SR_OK && node != NULL) {
        node->op = log;
        st = sr_node_save(node, 0, y);
    }
    return SR_GIVE(out, y, st, sr_tensor_release);
}

sr_status sr_op_softmax(sr_tensor **out, sr_tensor *x, int dim, bool log) {
    *out = NULL;
    const char *name = log ? "log_softmax" : "softmax";
    SR_TRY(sr_tensor_check(name, x));
    SR_NEED(x->storage->device, softmax);
    if (dim < 0 || dim >= x->ndim) {
        char text[160];
        return sr_fail(SR_EINVAL, "%s: dimension %d is out of range for %s", name, dim + 1,
                       sr_tensor_describe(x, text, sizeof text));
    }
    sr_tensor *in = NULL, *turned = NULL, *y = NULL;
    sr_status st;
    SR_GO(done, st, sr_op_convert(&in, x, sr_front_meet(x, x)));
    if (dim == x->ndim - 1) {
        st = softmax_last(out, in, log);
        goto done;
    }
    SR_GO(done, st, sr_op_transpose(&turned, in, dim, x->ndim - 1));
    SR_GO(done, st, softmax_last(&y, turned, log));
    SR_GO(done, st, sr_op_transpose(out, y, dim, x->ndim - 1));
done:
    sr_tensor_release(in);
    sr_tensor_release(turned);
    sr_tensor_release(y);
    return st;
}

/* ---- cat ------------------------------------------------------------------------------------- */

static sr_status cat_back(sr_node *node, sr_tensor **dx) {
    int64_t start = 0;
    for (int i = 0; i < node->inputs; i++) {
        int64_t length = node->edge[i].shape[node->op];
        if (sr_node_wants(node, i))
            SR_TRY(sr_op_narrow(&dx[i], node->dy[0], node->op, start, length));
        start += length;
    }
    return SR_OK;
}
static const sr_rule cat_rule = {"cat", cat_back};

/* All but `dim` agree with the first tensor; *total = the sum of the sizes there. */
static sr_status check_cat(int64_t *total, int count, sr_tensor *const *list, int dim) {
    const sr_tensor *first = list[0];
    char ta[160], tb[160];
    *total = 0;
    for (int i = 0; i < count; i++) {
        const sr_tensor *t = list[i];
        bool fits = t->ndim == first->ndim && t->dtype == first->dtype && dim >= 0 && dim < t->ndim;
        for (int d = 0; fits && d < t->ndim; d++) fits = d == dim || t->shape[d] == first->shape[d];
        if (!fits)
            return sr_fail(
                SR_EINVAL,
                "cat: tensor %d is %s, tensor 1 is %s; expected the same dtype, and equal sizes "
                "except in dimension %d",
                i + 1, sr_tensor_describe(t, ta, sizeof ta),
                sr_tensor_describe(first, tb, sizeof tb), dim + 1);
        *total += t->shape[dim];
    }
    return SR_OK;
}

/* Copies each tensor into y. */
static sr_status fill_cat(sr_tensor *y, int count, sr_tensor *const *list, int dim) {
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        sr_tensor place = *y; /* for the kernel only */
        place.shape[dim] = list[i]->shape[dim];
        place.offset = y->offset + start * y->stride[dim];
        if (place.shape[dim] > 0) SR_TRY(y->storage->device->backend->copy(&place, list[i]));
        start += list[i]->shape[dim];
    }
    return SR_OK;
}

sr_status sr_op_cat(sr_tensor **out, int count, sr_tensor *const *list, int dim) {
    *out = NULL;
    if (count == 0) return sr_fail(SR_EINVAL, "cat: needs at least one tensor");
    SR_TRY(sr_front_check("cat", count, list));
    int64_t total;
    SR_TRY(check_cat(&total, count, list, dim));
    int64_t shape[SR_MAX_DIMS];
    memcpy(shape, list[0]->shape, sizeof shape);
    shape[dim] = total;
    sr_tensor *y = NULL;
    sr_node *node = NULL;
    SR_TRY(sr_tensor_new(&y, list[0]->storage->device, list[0]->dtype, list[0]->ndim, shape));
    sr_status st = fill_cat(y, count, list, dim);
    if (st == SR_OK && sr_dtype_is_real(y->dtype))
        st = sr_front_record(&node, &cat_rule, y, count, list);
    if (st != SR_OK) {
        sr_tensor_release(y);
        return st;
    }
    if (node != NULL) node->op = dim;
    *out = y;
    return SR_OK;
}

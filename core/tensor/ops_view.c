/* ops_view.c - views: other shapes and strides of the same storage. */
#include <string.h>

#include "core/tensor/front.h"

/* A view of x, recorded with `rule`; *node is NULL if it is not recorded. */
static sr_status view_of(sr_tensor **out, sr_node **node, const sr_rule *rule, sr_tensor *x,
                         int ndim, const int64_t *shape, const int64_t *stride, int64_t offset) {
    *out = NULL;
    *node = NULL;
    sr_tensor *y = NULL;
    SR_TRY(sr_tensor_view(&y, x, ndim, shape, stride, offset));
    sr_status st = SR_OK;
    if (sr_dtype_is_real(x->dtype)) st = sr_front_record(node, rule, y, 1, &x);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

static sr_status check_dim(const char *op, const sr_tensor *x, int dim) {
    if (dim >= 0 && dim < x->ndim) return SR_OK;
    char text[160];
    return sr_fail(SR_EINVAL, "%s: dimension %d is out of range for %s", op, dim + 1,
                   sr_tensor_describe(x, text, sizeof text));
}

/* ---- reshape --------------------------------------------------------------------------------- */

/* Back to the shape of the input: for every op that only relabels elements. */
static sr_status reshape_back(sr_node *node, sr_tensor **dx) {
    const sr_edge *e = &node->edge[0];
    return sr_op_reshape(&dx[0], node->dy[0], e->ndim, e->shape);
}
static const sr_rule reshape_rule = {"reshape", reshape_back};

/* Fills in a -1 and checks the number of elements. */
static sr_status resolve_shape(const char *op, int64_t *shape, const sr_tensor *x, int ndim,
                               const int64_t *wanted) {
    int64_t known = 1, total = sr_tensor_elements(x);
    int open = -1;
    char text[160];
    if (ndim > SR_MAX_DIMS)
        return sr_fail(SR_EINVAL, "%s: %d dimensions; the maximum is %d", op, ndim, SR_MAX_DIMS);
    for (int i = 0; i < ndim; i++) {
        shape[i] = wanted[i];
        if (wanted[i] == -1 && open < 0)
            open = i;
        else if (wanted[i] < 0 || (wanted[i] > 0 && known > INT64_MAX / wanted[i]))
            return sr_fail(SR_EINVAL,
                           "%s: size %lld in dimension %d; sizes must be >= 0, one may "
                           "be -1",
                           op, (long long)wanted[i], i + 1);
        else
            known *= wanted[i];
    }
    if (open >= 0) shape[open] = known > 0 ? total / known : 0;
    if (open >= 0) known *= shape[open];
    if (known == total) return SR_OK;
    return sr_fail(SR_EINVAL, "%s: %s has %lld elements, but the new shape has %lld", op,
                   sr_tensor_describe(x, text, sizeof text), (long long)total, (long long)known);
}

/* Strides of the same elements under `shape`; false if there are none. */
static bool restride(int64_t *stride, const sr_tensor *x, int ndim, const int64_t *shape) {
    int old = 0;
    int64_t from[SR_MAX_DIMS], step[SR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) { /* sizes of 1 do not matter */
        if (x->shape[i] == 1) continue;
        from[old] = x->shape[i];
        step[old++] = x->stride[i];
    }
    int64_t next = 1;
    for (int i = ndim - 1; i >= 0; i--) { /* for sizes of 1, and for tensors without elements */
        stride[i] = next;
        next *= shape[i] > 0 ? shape[i] : 1;
    }
    int o = 0, n = 0;
    while (o < old && n < ndim) {
        int o_end = o + 1, n_end = n + 1;
        int64_t here = from[o], there = shape[n];
        while (here != there) {
            if (here < there) {
                if (o_end == old) return false;
                here *= from[o_end++];
            } else {
                if (n_end == ndim) return false;
                there *= shape[n_end++];
            }
        }
        for (int i = o; i + 1 < o_end; i++)
            if (step[i] != from[i + 1] * step[i + 1]) return false;
        int64_t run = step[o_end - 1];
        for (int i = n_end - 1; i >= n; i--) {
            stride[i] = run;
            run *= shape[i];
        }
        o = o_end;
        n = n_end;
    }
    return true;
}

static sr_status reshape(const char *op, sr_tensor **out, sr_tensor *x, int ndim,
                         const int64_t *wanted, bool may_copy) {
    *out = NULL;
    int64_t shape[SR_MAX_DIMS], stride[SR_MAX_DIMS];
    sr_node *node;
    SR_TRY(sr_tensor_check(op, x));
    SR_TRY(resolve_shape(op, shape, x, ndim, wanted));
    if (sr_tensor_elements(x) == 0 || restride(stride, x, ndim, shape)) {
        if (sr_tensor_elements(x) == 0) memset(stride, 0, sizeof stride);
        return view_of(out, &node, &reshape_rule, x, ndim, shape, stride, x->offset);
    }
    if (!may_copy)
        return sr_fail(SR_EINVAL,
                       "%s: the strides of this tensor do not allow this view; use "
                       "reshape(), which copies",
                       op);
    sr_tensor *flat = NULL;
    SR_TRY(sr_op_contiguous(&flat, x));
    sr_status st = reshape(op, out, flat, ndim, shape, false);
    sr_tensor_release(flat);
    return st;
}

sr_status sr_op_reshape(sr_tensor **out, sr_tensor *x, int ndim, const int64_t *shape) {
    return reshape("reshape", out, x, ndim, shape, true);
}

sr_status sr_op_view(sr_tensor **out, sr_tensor *x, int ndim, const int64_t *shape) {
    return reshape("view", out, x, ndim, shape, false);
}

sr_status sr_op_squeeze(sr_tensor **out, sr_tensor *x, int dim) {
    *out = NULL;
    SR_TRY(sr_tensor_check("squeeze", x));
    if (dim != SR_ALL_DIMS) SR_TRY(check_dim("squeeze", x, dim));
    int64_t shape[SR_MAX_DIMS], stride[SR_MAX_DIMS];
    int ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (x->shape[i] == 1 && (dim == SR_ALL_DIMS || dim == i)) continue;
        shape[ndim] = x->shape[i];
        stride[ndim++] = x->stride[i];
    }
    sr_node *node;
    return view_of(out, &node, &reshape_rule, x, ndim, shape, stride, x->offset);
}

sr_status sr_op_unsqueeze(sr_tensor **out, sr_tensor *x, int dim) {
    *out = NULL;
    SR_TRY(sr_tensor_check("unsqueeze", x));
    if (dim < 0 || dim > x->ndim || x->ndim == SR_MAX_DIMS)
        return sr_fail(SR_EINVAL,
                       "unsqueeze: position %d in a tensor of %d dimensions (at most %d)", dim + 1,
                       x->ndim, SR_MAX_DIMS);
    int64_t shape[SR_MAX_DIMS], stride[SR_MAX_DIMS];
    for (int i = 0; i <= x->ndim; i++) {
        shape[i] = i < dim ? x->shape[i] : i == dim ? 1 : x->shape[i - 1];
        stride[i] = i < dim ? x->stride[i] : i == dim ? 1 : x->stride[i - 1];
    }
    sr_node *node;
    return view_of(out, &node, &reshape_rule, x, x->ndim + 1, shape, stride, x->offset);
}

/* ---- permute --------------------------------------------------------------------------------- */

static sr_status permute_back(sr_node *node, sr_tensor **dx) {
    int back[SR_MAX_DIMS];
    for (int i = 0; i < node->edge[0].ndim; i++) back[node->number[i]] = i;
    return sr_op_permute(&dx[0], node->dy[0], back);
}
static const sr_rule permute_rule = {"permute", permute_back};

sr_status sr_op_permute(sr_tensor **out, sr_tensor *x, const int *order) {
    *out = NULL;
    SR_TRY(sr_tensor_check("permute", x));
    int64_t shape[SR_MAX_DIMS], stride[SR_MAX_DIMS];
    unsigned seen = 0;
    for (int i = 0; i < x->ndim; i++) {
        SR_TRY(check_dim("permute", x, order[i]));
        if (seen >> order[i] & 1)
            return sr_fail(SR_EINVAL, "permute: duplicate dimension %d", order[i] + 1);
        seen |= 1u << order[i];
        shape[i] = x->shape[order[i]];
        stride[i] = x->stride[order[i]];
    }
    sr_node *node;
    SR_TRY(view_of(out, &node, &permute_rule, x, x->ndim, shape, stride, x->offset));
    for (int i = 0; node != NULL && i < x->ndim; i++) node->number[i] = order[i];
    return SR_OK;
}

sr_status sr_op_transpose(sr_tensor **out, sr_tensor *x, int a, int b) {
    *out = NULL;
    int order[SR_MAX_DIMS];
    for (int i = 0; i < SR_MAX_DIMS; i++) order[i] = i;
    SR_TRY(check_dim("transpose", x, a));
    SR_TRY(check_dim("transpose", x, b));
    order[a] = b;
    order[b] = a;
    return sr_op_permute(out, x, order);
}

/* ---- expand ---------------------------------------------------------------------------------- */

static sr_status expand_back(sr_node *node, sr_tensor **dx) {
    const sr_edge *e = &node->edge[0];
    return sr_op_sum_to(&dx[0], node->dy[0], sr_edge_grad_dtype(e), e->ndim, e->shape);
}
static const sr_rule expand_rule = {"expand", expand_back};

sr_status sr_op_expand(sr_tensor **out, sr_tensor *x, int ndim, const int64_t *wanted) {
    *out = NULL;
    SR_TRY(sr_tensor_check("expand", x));
    char text[160];
    if (ndim < x->ndim || ndim > SR_MAX_DIMS)
        return sr_fail(SR_EINVAL, "expand: %s to %d dimensions; must be %d to %d",
                       sr_tensor_describe(x, text, sizeof text), ndim, x->ndim, SR_MAX_DIMS);
    int64_t shape[SR_MAX_DIMS];
    for (int i = 0; i < ndim; i++) {
        int from = i - (ndim - x->ndim);
        int64_t size = from >= 0 ? x->shape[from] : 1;
        shape[i] = wanted[i] == -1 && from >= 0 ? size : wanted[i];
        if (shape[i] < 0 || (size != 1 && size != shape[i]))
            return sr_fail(SR_EINVAL,
                           "expand: dimension %d of the result is %lld, but %s has "
                           "%lld there; only sizes of 1 can be expanded",
                           i + 1, (long long)shape[i], sr_tensor_describe(x, text, sizeof text),
                           (long long)size);
    }
    sr_tensor view;
    sr_front_stretch(&view, x, ndim, shape);
    sr_node *node;
    return view_of(out, &node, &expand_rule, x, ndim, shape, view.stride, x->offset);
}

/* ---- narrow ---------------------------------------------------------------------------------- */

/* dy embedded in zeros of the input's shape. */
static sr_status narrow_back(sr_node *node, sr_tensor **dx) {
    const sr_edge *e = &node->edge[0];
    sr_tensor *dy = node->dy[0], *place = NULL;
    SR_TRY(sr_tensor_full(&dx[0], node->device, dy->dtype, e->ndim, e->shape, 0.0));
    SR_TRY(sr_op_narrow(&place, dx[0], node->op, node->number[0], node->number[1]));
    sr_status st = node->device->backend->copy(place, dy);
    sr_tensor_release(place);
    return st;
}
static const sr_rule narrow_rule = {"narrow", narrow_back};

sr_status sr_op_narrow(sr_tensor **out, sr_tensor *x, int dim, int64_t start, int64_t length) {
    *out = NULL;
    SR_TRY(sr_tensor_check("narrow", x));
    SR_TRY(check_dim("narrow", x, dim));
    int64_t size = x->shape[dim];
    if (start < 0 || length < 0 || start > size || length > size - start)
        return sr_fail(SR_EINVAL, "narrow: positions %lld to %lld of dimension %d, which has %lld",
                       (long long)start + 1, (long long)start + (long long)length, dim + 1,
                       (long long)size);
    int64_t shape[SR_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[dim] = length;
    sr_node *node;
    SR_TRY(view_of(out, &node, &narrow_rule, x, x->ndim, shape, x->stride,
                   x->offset + start * x->stride[dim]));
    if (node == NULL) return SR_OK;
    node->op = dim;
    node->number[0] = start;
    node->number[1] = length;
    return SR_OK;
}

sr_status sr_op_select(sr_tensor **out, sr_tensor *x, int dim, int64_t i) {
    *out = NULL;
    SR_TRY(sr_tensor_check("select", x));
    SR_TRY(check_dim("select", x, dim));
    if (i < 0 || i >= x->shape[dim]) {
        char text[160];
        return sr_fail(SR_EINVAL,
                       "select: position %lld of dimension %d is out of range for %s; positions "
                       "are from 1, -1 is the last",
                       (long long)i + 1, dim + 1, sr_tensor_describe(x, text, sizeof text));
    }
    sr_tensor *row = NULL;
    SR_TRY(sr_op_narrow(&row, x, dim, i, 1));
    sr_status st = sr_op_squeeze(out, row, dim);
    sr_tensor_release(row);
    return st;
}

sr_status sr_op_detach(sr_tensor **out, sr_tensor *x) {
    *out = NULL;
    SR_TRY(sr_tensor_check("detach", x));
    return sr_tensor_alias(out, x);
}

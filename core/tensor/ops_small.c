/* ops_small.c - elementwise ops, copies between dtypes and devices, writes in place. */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/front.h"

#define NAME_OF(NAME, name, ...) [SR_##NAME] = #name,
static const char *const unary_names[] = {SR_UNARY_OPS(NAME_OF)};
static const char *const binary_names[] = {SR_BINARY_OPS(NAME_OF)};

const char *sr_unary_name(sr_unary op) {
    return unary_names[op];
}

const char *sr_binary_name(sr_binary op) {
    return binary_names[op];
}

/* ---- making ---------------------------------------------------------------------------------- */

sr_status sr_tensor_full(sr_tensor **out, sr_device *device, sr_dtype dtype, int ndim,
                         const int64_t *shape, double value) {
    SR_TRY(sr_tensor_new(out, device, dtype, ndim, shape));
    sr_status st = device->backend->fill(*out, value);
    if (st == SR_OK) return SR_OK;
    sr_tensor_release(*out);
    *out = NULL;
    return st;
}

sr_status sr_tensor_scalar(sr_tensor **out, sr_device *device, sr_dtype dtype, double value) {
    return sr_tensor_full(out, device, dtype, 0, NULL, value);
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

static sr_status convert_back(sr_node *node, sr_tensor **dx) {
    dx[0] = sr_tensor_retain(node->dy[0]); /* the tape converts it to the dtype of the edge */
    return SR_OK;
}
static const sr_rule convert_rule = {"to", convert_back};

/* y = a contiguous copy of x with another dtype. */
static sr_status copy_as(sr_tensor **out, sr_tensor *x, sr_dtype dtype) {
    *out = NULL;
    sr_device *device = x->storage->device;
    sr_tensor *y = NULL;
    sr_node *node;
    SR_TRY(sr_tensor_new(&y, device, dtype, x->ndim, x->shape));
    sr_status st = device->backend->copy(y, x);
    if (st == SR_OK && sr_dtype_is_real(dtype))
        st = sr_front_record(&node, &convert_rule, y, 1, &x);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

sr_status sr_op_convert(sr_tensor **out, sr_tensor *x, sr_dtype dtype) {
    SR_TRY(sr_tensor_check("to", x));
    if (x->dtype != dtype) return copy_as(out, x, dtype);
    *out = sr_tensor_retain(x);
    return SR_OK;
}

sr_status sr_op_clone(sr_tensor **out, sr_tensor *x) {
    SR_TRY(sr_tensor_check("clone", x));
    return copy_as(out, x, x->dtype);
}

sr_status sr_op_contiguous(sr_tensor **out, sr_tensor *x) {
    SR_TRY(sr_tensor_check("contiguous", x));
    if (!sr_tensor_is_contiguous(x)) return copy_as(out, x, x->dtype);
    *out = sr_tensor_retain(x);
    return SR_OK;
}

/* ---- from device to device ------------------------------------------------------------------- */

/* Copies x to another device, through host memory. */
static sr_status carry(sr_tensor **out, sr_tensor *x, sr_device *device, sr_dtype dtype) {
    sr_tensor *from = NULL, *y = NULL;
    void *host = NULL;
    sr_status st;
    SR_GO(done, st, sr_op_contiguous(&from, x));
    SR_GO(done, st, sr_alloc(&host, (size_t)sr_tensor_elements(x), sr_dtype_size(x->dtype)));
    SR_GO(done, st, sr_tensor_read(from, host, x->dtype));
    SR_GO(done, st, sr_tensor_new(&y, device, dtype, x->ndim, x->shape));
    SR_GO(done, st, sr_tensor_write(y, host, x->dtype));
    y->storage->version = 0;
done:
    sr_free(host);
    sr_tensor_release(from);
    if (st != SR_OK) {
        sr_tensor_release(y);
        y = NULL;
    }
    *out = y;
    return st;
}

/* node->device is the device of the input, so the gradient goes back there. */
static sr_status to_device_back(sr_node *node, sr_tensor **dx) {
    return carry(&dx[0], node->dy[0], node->device, (sr_dtype)node->op);
}
static const sr_rule to_device_rule = {"to", to_device_back};

sr_status sr_op_to_device(sr_tensor **out, sr_tensor *x, sr_device *device) {
    *out = NULL;
    SR_TRY(sr_tensor_check("to", x));
    if (x->storage->device == device) {
        *out = sr_tensor_retain(x);
        return SR_OK;
    }
    sr_dtype dtype = x->dtype == x->storage->device->real ? device->real : x->dtype;
    sr_tensor *y = NULL;
    bool before = sr_grad_set_recording(false);
    sr_status st = carry(&y, x, device, dtype);
    sr_grad_set_recording(before);
    if (st == SR_OK && sr_grad_wanted(1, &x)) {
        sr_node *node = NULL;
        st = sr_node_new(&node, &to_device_rule, x->storage->device, 1, &x);
        if (st == SR_OK) {
            node->op = (int)x->dtype;
            sr_node_attach(node, y, 0);
        }
        sr_node_release(node);
    }
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- unary ----------------------------------------------------------------------------------- */

/* The dtype that `op` computes in on x's device. */
static sr_dtype unary_dtype(const sr_tensor *x, sr_unary op) {
    if (op == SR_NOT) return SR_BOOL;
    if (sr_unary_is_whole(op) && !sr_dtype_is_real(x->dtype)) return SR_I32;
    return sr_front_meet(x, x);
}

static sr_status unary_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, unary_backward);
    SR_TRY(sr_tensor_like(&dx[0], node->dy[0]));
    return node->device->backend->unary_backward(dx[0], node->dy[0], node->saved[0].tensor,
                                                 node->saved[1].tensor, (sr_unary)node->op);
}
static const sr_rule unary_rule = {"an elementwise op", unary_back};

static sr_status record_unary(sr_tensor *y, sr_tensor *x, sr_unary op) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &unary_rule, y, 1, &x));
    if (node == NULL) return SR_OK;
    node->op = (int)op;
    SR_TRY(sr_node_save(node, 0, x));
    return sr_node_save(node, 1, y);
}

sr_status sr_op_unary(sr_tensor **out, sr_tensor *x, sr_unary op) {
    *out = NULL;
    SR_TRY(sr_tensor_check(unary_names[op], x));
    sr_device *device = x->storage->device;
    SR_NEED(device, unary);
    sr_tensor *in = NULL, *y = NULL;
    SR_TRY(sr_op_convert(&in, x, unary_dtype(x, op)));
    sr_status st = sr_tensor_like(&y, in);
    if (st == SR_OK) st = device->backend->unary(y, in, op);
    if (st == SR_OK && sr_dtype_is_real(y->dtype)) st = record_unary(y, in, op);
    sr_tensor_release(in);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- binary ---------------------------------------------------------------------------------- */

/* The shape that a and b broadcast to. */
static sr_status broadcast(const char *op, int *ndim, int64_t *shape, const sr_tensor *a,
                           const sr_tensor *b) {
    *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int i = 0; i < *ndim; i++) {
        int ia = i - (*ndim - a->ndim), ib = i - (*ndim - b->ndim);
        int64_t na = ia < 0 ? 1 : a->shape[ia], nb = ib < 0 ? 1 : b->shape[ib];
        if (na != nb && na != 1 && nb != 1) {
            char ta[160], tb[160];
            return sr_fail(SR_EINVAL,
                           "%s: %s and %s do not broadcast; sizes must be equal or 1, counted from "
                           "the last dimension",
                           op, sr_tensor_describe(a, ta, sizeof ta),
                           sr_tensor_describe(b, tb, sizeof tb));
        }
        shape[i] = na == 1 ? nb : na;
    }
    return SR_OK;
}

/* The common dtype of a and b for `op`. */
static sr_dtype binary_dtype(const sr_tensor *a, const sr_tensor *b, sr_binary op) {
    if (op == SR_AND || op == SR_OR) return SR_BOOL;
    bool whole = !sr_dtype_is_real(a->dtype) && !sr_dtype_is_real(b->dtype);
    return whole && op != SR_DIV && op != SR_POW ? SR_I32 : sr_front_meet(a, b);
}

/* x in the dtype of an op; an f32 scalar combined with bf16 is not rounded. */
static sr_status convert_operand(sr_tensor **out, sr_tensor *x, sr_dtype dtype) {
    bool exact = dtype == SR_BF16 && x->dtype == SR_F32 && x->ndim == 0;
    return sr_op_convert(out, x, exact ? SR_F32 : dtype);
}

/* True where op(a, b), min or max, took its value from a. */
static sr_status took_a(sr_tensor **out, sr_tensor *a, sr_tensor *b, sr_binary op) {
    return sr_op_binary(out, a, b, op == SR_MINIMUM ? SR_LE : SR_GE);
}

/* The gradient with respect to a (side 0) or b (side 1), still in the shape of the result. */
static sr_status binary_side(sr_tensor **out, sr_node *node, int side) {
    sr_tensor *dy = node->dy[0], *a = node->saved[0].tensor, *b = node->saved[1].tensor;
    sr_tensor *y = node->saved[2].tensor, *t = NULL, *u = NULL;
    sr_binary op = (sr_binary)node->op;
    sr_status st = SR_OK;
    switch (op) {
    case SR_ADD:
        *out = sr_tensor_retain(dy);
        return SR_OK;
    case SR_SUB:
        if (side == 1) return sr_op_unary(out, dy, SR_NEG);
        *out = sr_tensor_retain(dy);
        return SR_OK;
    case SR_MUL:
        return sr_op_binary(out, dy, side == 0 ? b : a, SR_MUL);
    case SR_DIV: /* dy / b and -dy y / b */
        SR_TRY(sr_op_binary(&t, dy, b, SR_DIV));
        if (side == 0) {
            *out = t;
            return SR_OK;
        }
        st = sr_op_binary(&u, t, y, SR_MUL);
        if (st == SR_OK) st = sr_op_unary(out, u, SR_NEG);
        break;
    case SR_POW: /* dy b a^(b-1) and dy y log a */
        if (side == 0) {
            sr_tensor *one = NULL, *less = NULL;
            st = sr_tensor_scalar(&one, node->device, b->dtype, 1.0);
            if (st == SR_OK) st = sr_op_binary(&less, b, one, SR_SUB);
            if (st == SR_OK) st = sr_op_binary(&t, a, less, SR_POW);
            if (st == SR_OK) st = sr_op_binary(&u, t, b, SR_MUL);
            sr_tensor_release(one);
            sr_tensor_release(less);
        } else {
            st = sr_op_unary(&t, a, SR_LOG);
            if (st == SR_OK) st = sr_op_binary(&u, t, y, SR_MUL);
        }
        if (st == SR_OK) st = sr_op_binary(out, u, dy, SR_MUL);
        break;
    default: /* minimum, maximum: on a tie a gets the gradient */
        SR_TRY(sr_tensor_scalar(&u, node->device, dy->dtype, 0.0));
        st = took_a(&t, a, b, op);
        if (st == SR_OK) st = sr_op_where(out, t, side == 0 ? dy : u, side == 0 ? u : dy);
        break;
    }
    sr_tensor_release(t);
    sr_tensor_release(u);
    return st;
}

static sr_status binary_back(sr_node *node, sr_tensor **dx) {
    for (int side = 0; side < 2; side++) {
        if (!sr_node_wants(node, side)) continue;
        sr_tensor *whole = NULL;
        SR_TRY(binary_side(&whole, node, side));
        const sr_edge *e = &node->edge[side];
        sr_status st = sr_op_sum_to(&dx[side], whole, sr_edge_grad_dtype(e), e->ndim, e->shape);
        sr_tensor_release(whole);
        SR_TRY(st);
    }
    return SR_OK;
}
static const sr_rule binary_rule = {"an arithmetic op", binary_back};

/* Sums save nothing; quotients and powers also save the result. */
static sr_status record_binary(sr_tensor *y, sr_tensor *a, sr_tensor *b, sr_binary op) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &binary_rule, y, 2, (sr_tensor *[]){a, b}));
    if (node == NULL) return SR_OK;
    node->op = (int)op;
    if (op == SR_ADD || op == SR_SUB) return SR_OK;
    SR_TRY(sr_node_save(node, 0, a));
    SR_TRY(sr_node_save(node, 1, b));
    return op == SR_DIV || op == SR_POW ? sr_node_save(node, 2, y) : SR_OK;
}

/* y = op(a, b) as `dtype`. */
static sr_status compute_binary(sr_tensor **out, sr_tensor *a, sr_tensor *b, sr_binary op,
                                sr_dtype dtype) {
    sr_device *device = a->storage->device;
    int64_t shape[SR_MAX_DIMS];
    int ndim;
    SR_TRY(broadcast(binary_names[op], &ndim, shape, a, b));
    sr_tensor va, vb;
    sr_front_stretch(&va, a, ndim, shape);
    sr_front_stretch(&vb, b, ndim, shape);
    SR_TRY(sr_tensor_new(out, device, sr_binary_compares(op) ? SR_BOOL : dtype, ndim, shape));
    SR_TRY(device->backend->binary(*out, &va, &vb, op));
    return !sr_binary_compares(op) && sr_dtype_is_real(dtype) ? record_binary(*out, a, b, op)
                                                              : SR_OK;
}

sr_status sr_op_binary(sr_tensor **out, sr_tensor *a, sr_tensor *b, sr_binary op) {
    *out = NULL;
    SR_TRY(sr_front_check(binary_names[op], 2, (sr_tensor *[]){a, b}));
    SR_NEED(a->storage->device, binary);
    sr_dtype dtype = binary_dtype(a, b, op);
    sr_tensor *ca = NULL, *cb = NULL, *y = NULL;
    sr_status st = convert_operand(&ca, a, dtype);
    if (st == SR_OK) st = convert_operand(&cb, b, dtype);
    if (st == SR_OK) st = compute_binary(&y, ca, cb, op, dtype);
    sr_tensor_release(ca);
    sr_tensor_release(cb);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- where ----------------------------------------------------------------------------------- */

static sr_status where_back(sr_node *node, sr_tensor **dx) {
    sr_tensor *zero = NULL, *c = node->saved[0].tensor;
    SR_TRY(sr_tensor_scalar(&zero, node->device, node->dy[0]->dtype, 0.0));
    sr_status st = SR_OK;
    for (int side = 0; side < 2 && st == SR_OK; side++) {
        if (!sr_node_wants(node, side)) continue;
        sr_tensor *dy = node->dy[0], *whole = NULL;
        st = sr_op_where(&whole, c, side == 0 ? dy : zero, side == 0 ? zero : dy);
        const sr_edge *e = &node->edge[side];
        if (st == SR_OK)
            st = sr_op_sum_to(&dx[side], whole, sr_edge_grad_dtype(e), e->ndim, e->shape);
        sr_tensor_release(whole);
    }
    sr_tensor_release(zero);
    return st;
}
static const sr_rule where_rule = {"where", where_back};

static sr_status compute_where(sr_tensor **out, sr_tensor *c, sr_tensor *a, sr_tensor *b) {
    sr_device *device = c->storage->device;
    int64_t shape[SR_MAX_DIMS];
    int ndim;
    SR_TRY(broadcast("where", &ndim, shape, a, b));
    sr_tensor both = *a;
    both.ndim = ndim;
    memcpy(both.shape, shape, sizeof shape);
    SR_TRY(broadcast("where", &ndim, shape, c, &both));
    sr_tensor vc, va, vb;
    sr_front_stretch(&vc, c, ndim, shape);
    sr_front_stretch(&va, a, ndim, shape);
    sr_front_stretch(&vb, b, ndim, shape);
    SR_TRY(sr_tensor_new(out, device, a->dtype, ndim, shape));
    SR_TRY(device->backend->where(*out, &vc, &va, &vb));
    if (!sr_dtype_is_real(a->dtype)) return SR_OK;
    sr_node *node;
    SR_TRY(sr_front_record(&node, &where_rule, *out, 2, (sr_tensor *[]){a, b}));
    return node != NULL ? sr_node_save(node, 0, c) : SR_OK;
}

sr_status sr_op_where(sr_tensor **out, sr_tensor *condition, sr_tensor *a, sr_tensor *b) {
    *out = NULL;
    SR_TRY(sr_front_check("where", 3, (sr_tensor *[]){condition, a, b}));
    SR_NEED(condition->storage->device, where);
    sr_dtype dtype = a->dtype == b->dtype ? a->dtype : binary_dtype(a, b, SR_ADD);
    sr_tensor *c = NULL, *ca = NULL, *cb = NULL, *y = NULL;
    sr_status st = sr_op_convert(&c, condition, SR_BOOL);
    if (st == SR_OK) st = sr_op_convert(&ca, a, dtype);
    if (st == SR_OK) st = sr_op_convert(&cb, b, dtype);
    if (st == SR_OK) st = compute_where(&y, c, ca, cb);
    sr_tensor_release(c);
    sr_tensor_release(ca);
    sr_tensor_release(cb);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- in place -------------------------------------------------------------------------------- */

sr_status sr_op_fill_in_place(sr_tensor *y, double value) {
    SR_TRY(sr_front_writable("fill_", y));
    sr_tensor_wrote(y);
    return y->storage->device->backend->fill(y, value);
}

/* x as `dtype`, copied if it shares memory with y and might be overwritten while it is read. */
static sr_status apart_from(sr_tensor **out, sr_tensor *x, const sr_tensor *y, sr_dtype dtype) {
    if (x->storage == y->storage) return copy_as(out, x, dtype);
    return convert_operand(out, x, dtype);
}

/* x expanded to y's shape, or an error that names the op. */
static sr_status stretch_to(const char *op, sr_tensor *view, const sr_tensor *y,
                            const sr_tensor *x) {
    int64_t shape[SR_MAX_DIMS];
    int ndim;
    SR_TRY(broadcast(op, &ndim, shape, y, x));
    if (ndim != y->ndim || memcmp(shape, y->shape, (size_t)ndim * sizeof *shape) != 0) {
        char tx[160], ty[160];
        return sr_fail(SR_EINVAL, "%s: %s does not fit into %s, whose shape cannot change in place",
                       op, sr_tensor_describe(x, tx, sizeof tx),
                       sr_tensor_describe(y, ty, sizeof ty));
    }
    sr_front_stretch(view, x, ndim, shape);
    return SR_OK;
}

sr_status sr_op_copy_in_place(sr_tensor *y, sr_tensor *x) {
    SR_TRY(sr_front_check("copy_", 2, (sr_tensor *[]){y, x}));
    SR_TRY(sr_front_writable("copy_", y));
    sr_tensor *from = NULL, view;
    SR_TRY(apart_from(&from, x, y, x->dtype));
    sr_status st = stretch_to("copy_", &view, y, from);
    if (st == SR_OK) {
        sr_tensor_wrote(y);
        st = y->storage->device->backend->copy(y, &view);
    }
    sr_tensor_release(from);
    return st;
}

sr_status sr_op_binary_in_place(sr_tensor *y, sr_tensor *x, sr_binary op) {
    const char *name = binary_names[op];
    SR_TRY(sr_front_check(name, 2, (sr_tensor *[]){y, x}));
    SR_TRY(sr_front_writable(name, y));
    SR_NEED(y->storage->device, binary);
    if (sr_binary_compares(op) || binary_dtype(y, x, op) != y->dtype) {
        char tx[160], ty[160];
        return sr_fail(SR_EINVAL,
                       "%s_: %s with %s has another dtype; use the op that returns a "
                       "new tensor",
                       name, sr_tensor_describe(y, ty, sizeof ty),
                       sr_tensor_describe(x, tx, sizeof tx));
    }
    sr_tensor *cx = NULL, view;
    SR_TRY(apart_from(&cx, x, y, y->dtype));
    sr_status st = stretch_to(name, &view, y, cx);
    if (st == SR_OK) {
        sr_tensor_wrote(y);
        st = y->storage->device->backend->binary(y, y, &view, op);
    }
    sr_tensor_release(cx);
    return st;
}

sr_status sr_op_random_in_place(sr_tensor *y, sr_random kind, uint64_t seed, sr_purpose purpose,
                                uint32_t uid, uint32_t epoch, double a, double b) {
    SR_TRY(sr_front_writable("random", y));
    sr_device *device = y->storage->device;
    SR_NEED(device, random);
    if (!sr_device_computes(device, y->dtype))
        return sr_fail(SR_EINVAL, "random: the tensor is %s; expected %s", sr_dtype_name(y->dtype),
                       sr_dtype_name(device->real));
    sr_tensor_wrote(y);
    return device->backend->random(y, kind, seed, purpose, uid, epoch, a, b);
}

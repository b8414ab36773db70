/* ops_coarse.c - linear, attention, dropout: checks and rules.
 *
 * Kernels get contiguous tensors: a strided argument is copied on the way in (and the copy is
 * recorded), a strided gradient in backward.  Activations and weights have one dtype, which is
 * that of the result and of the gradients of activations; see ops.h.
 */
#include <math.h>

#include "core/tensor/coarse.h"

sr_status sr_coarse_inputs(sr_tensor **held, int count, sr_tensor *const *given) {
    for (int i = 0; i < count; i++) held[i] = NULL;
    for (int i = 0; i < count; i++) {
        if (given[i] == NULL) continue;
        sr_status st = sr_op_contiguous(&held[i], given[i]);
        if (st == SR_OK) continue;
        sr_coarse_drop(held, count);
        return st;
    }
    return SR_OK;
}

void sr_coarse_drop(sr_tensor **held, int count) {
    for (int i = 0; i < count; i++) {
        sr_tensor_release(held[i]);
        held[i] = NULL;
    }
}

sr_status sr_coarse_dy(sr_node *node, sr_tensor **dy, int k) {
    sr_tensor *dense = NULL;
    *dy = NULL;
    if (node->dy[k] == NULL) return SR_OK;
    SR_TRY(sr_op_contiguous(&dense, node->dy[k]));
    sr_tensor_release(node->dy[k]);
    node->dy[k] = *dy = dense;
    return SR_OK;
}

sr_status sr_coarse_dx(sr_node *node, sr_tensor **dx, int i) {
    if (!sr_node_wants(node, i)) return SR_OK;
    const sr_edge *e = &node->edge[i];
    return sr_tensor_new(&dx[i], node->device, e->dtype, e->ndim, e->shape);
}

sr_dtype sr_statistics_dtype(const sr_device *device) {
    return device->real == SR_F64 ? SR_F64 : SR_F32;
}

sr_status sr_coarse_check_drop(const char *op, sr_dropout drop, const sr_layout *layout) {
    if (drop.keep < 1 || drop.keep > 256)
        return sr_fail(SR_EINVAL, "%s: dropout keeps %u of 256; the probability must be below 1",
                       op, drop.keep);
    if (drop.keep < 256 && layout == NULL)
        return sr_fail(SR_EINVAL, "%s: dropout is keyed by sequence and needs the layout", op);
    if (drop.keep < 256 && layout->longest > 1 << 16)
        return sr_fail(SR_EINVAL,
                       "%s: dropout is keyed by 16 bits of the row, and a sequence has %d", op,
                       layout->longest);
    return SR_OK;
}

/* ---- linear ---------------------------------------------------------------------------------- */

enum { LINEAR_X, LINEAR_W, LINEAR_PRE, LINEAR_Y };
enum { LINEAR_SUMMED }; /* in `number`: the op above has added the gradient of the bias */

/* sr_coarse_dx(), or the gradient that the input has so far, for a kernel to add to: *add. */
static sr_status dx_or_sum(sr_node *node, sr_tensor **dx, int i, bool *add) {
    *add = false;
    if (node->device->backend->adds && sr_node_wants(node, i)) dx[i] = sr_grad_take(node, i);
    *add = dx[i] != NULL;
    return *add ? SR_OK : sr_coarse_dx(node, dx, i);
}

static sr_status linear_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, linear_backward);
    sr_tensor *dy, *dw, *db = NULL;
    bool summed = node->number[LINEAR_SUMMED] != 0, add, set;
    node->number[LINEAR_SUMMED] = 0;
    SR_TRY(sr_coarse_dy(node, &dy, 0));
    SR_TRY(dx_or_sum(node, dx, 0, &add));
    if (node->inputs > 2 && !summed) SR_TRY(sr_grad_sink(node, dx, 2, &db));
    SR_TRY(sr_grad_first_sink(node, dx, 1, &dw, &set)); /* last: it must be written from here on */
    return node->device->backend->linear_backward(
        dx[0], dw, db, dy, node->saved[LINEAR_X].tensor, node->saved[LINEAR_W].tensor,
        node->saved[LINEAR_PRE].tensor, node->saved[LINEAR_Y].tensor, (sr_act)node->op, add, set);
}
static const sr_rule linear_rule = {"linear", linear_back};

/* Whether the gradient of the layer's bias is its dy summed over rows, all of which one op gives.
 */
static bool sums_above(const sr_node *layer) {
    return layer != NULL && layer->rule == &linear_rule && layer->users == 1 && layer->inputs > 2 &&
           layer->op == SR_ACT_NONE && layer->edge[2].leaf != NULL;
}

sr_status sr_linear_bias_sink(sr_node *node, int i, sr_tensor **sink) {
    sr_node *layer = node->edge[i].node;
    sr_tensor *apart[3] = {NULL};
    *sink = NULL;
    if (!node->device->backend->adds || !sums_above(layer)) return SR_OK;
    SR_TRY(sr_grad_sink(layer, apart, 2, sink));
    if (apart[2] != NULL) *sink = NULL; /* the leaf's own gradient cannot be added to */
    layer->number[LINEAR_SUMMED] = *sink != NULL;
    sr_tensor_release(apart[2]);
    return SR_OK;
}

static sr_status record_linear(sr_tensor *y, sr_tensor *pre, sr_tensor *const in[3], sr_act act) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &linear_rule, y, in[2] != NULL ? 3 : 2, in));
    if (node == NULL) return SR_OK;
    node->op = (int)act;
    SR_TRY(sr_node_save(node, LINEAR_X, in[0]));
    SR_TRY(sr_node_save(node, LINEAR_W, in[1]));
    SR_TRY(sr_node_save(node, LINEAR_PRE, pre));
    bool from_y = act != SR_ACT_NONE && !sr_act_keeps_input(act);
    return from_y ? sr_node_save(node, LINEAR_Y, y) : SR_OK;
}

static sr_status compute_linear(sr_tensor **out, sr_tensor *const in[3], sr_act act) {
    sr_device *device = in[0]->storage->device;
    int64_t shape[2] = {in[0]->shape[0], in[1]->shape[0]};
    sr_tensor *y = NULL, *pre = NULL;
    sr_status st = sr_tensor_new(&y, device, in[0]->dtype, 2, shape);
    bool keeps = sr_act_keeps_input(act) && sr_grad_wanted(3, in);
    if (st == SR_OK && keeps) st = sr_tensor_like(&pre, y);
    if (st == SR_OK) st = device->backend->linear(y, pre, in[0], in[1], in[2], act);
    if (st == SR_OK) st = record_linear(y, pre, in, act);
    sr_tensor_release(pre);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

static sr_status check_linear(sr_tensor *x, sr_tensor *w, sr_tensor *b) {
    SR_TRY(sr_front_real("linear", "w", w, 2, (int64_t[]){-1, -1}));
    SR_TRY(sr_front_real("linear", "x", x, 2, (int64_t[]){-1, w->shape[1]}));
    SR_TRY(sr_front_same("linear", "x", x, "w", w));
    if (b == NULL) return SR_OK;
    SR_TRY(sr_front_real("linear", "b", b, 1, (int64_t[]){w->shape[0]}));
    return sr_front_same("linear", "b", b, "w", w);
}

sr_status sr_op_linear(sr_tensor **out, sr_tensor *x, sr_tensor *w, sr_tensor *b, sr_act act) {
    *out = NULL;
    SR_TRY(sr_front_check("linear", 3, (sr_tensor *[]){x, w, b}));
    sr_device *device = x->storage->device;
    SR_NEED(device, linear);
    SR_TRY(check_linear(x, w, b));
    sr_tensor *in[3];
    SR_TRY(sr_coarse_inputs(in, 3, (sr_tensor *[]){x, w, b}));
    sr_status st = compute_linear(out, in, act);
    sr_coarse_drop(in, 3);
    return st;
}

/* ---- attention ------------------------------------------------------------------------------- */

enum { ATTENTION_QKV, ATTENTION_OUT, ATTENTION_LSE, ATTENTION_ROWS };

/* The options of a node: heads in `op`, scale in `scalar`, these in `number`. */
enum { ATTENTION_KV_HEADS, ATTENTION_WINDOW, ATTENTION_CAUSAL };

static void keep_options(sr_node *node, const sr_attention_opts *o) {
    node->op = o->heads;
    node->number[ATTENTION_KV_HEADS] = o->kv_heads;
    node->number[ATTENTION_WINDOW] = o->window;
    node->number[ATTENTION_CAUSAL] = o->causal;
    node->scalar = o->scale;
    node->drop = o->drop;
}

static sr_attention_opts kept_options(const sr_node *node) {
    return (sr_attention_opts){.heads = node->op,
                               .kv_heads = (int)node->number[ATTENTION_KV_HEADS],
                               .window = node->number[ATTENTION_WINDOW],
                               .causal = node->number[ATTENTION_CAUSAL] != 0,
                               .scale = node->scalar,
                               .drop = node->drop};
}

static sr_status attention_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, attention_backward);
    sr_tensor *dy, *dbias;
    SR_TRY(sr_coarse_dy(node, &dy, 0));
    SR_TRY(sr_linear_bias_sink(node, 0, &dbias));
    SR_TRY(sr_coarse_dx(node, dx, 0));
    return node->device->backend->attention_backward(
        dx[0], dbias, dy, node->saved[ATTENTION_QKV].tensor, node->saved[ATTENTION_OUT].tensor,
        node->saved[ATTENTION_LSE].tensor, node->saved[ATTENTION_ROWS].tensor, node->layout,
        kept_options(node));
}
static const sr_rule attention_rule = {"attention", attention_back};

static sr_status check_heads(const sr_tensor *qkv, const sr_attention_opts *o) {
    int64_t columns = qkv->shape[1], heads = (int64_t)o->heads + 2 * (int64_t)o->kv_heads;
    if (o->heads < 1 || o->kv_heads < 1 || o->heads % o->kv_heads != 0)
        return sr_fail(SR_EINVAL,
                       "attention: %d query heads cannot share %d key and value heads; kv_heads "
                       "must divide heads",
                       o->heads, o->kv_heads);
    if (columns % heads == 0) return SR_OK;
    if (o->kv_heads == o->heads)
        return sr_fail(SR_EINVAL,
                       "attention: qkv has %lld columns, which is not a multiple of 3 x %d heads; "
                       "expected (T, 3 H), each row [q heads | k heads | v heads]",
                       (long long)columns, o->heads);
    return sr_fail(SR_EINVAL,
                   "attention: qkv has %lld columns, which is not a multiple of %d + 2 x %d heads; "
                   "each row must be [%d q heads | %d k heads | %d v heads]",
                   (long long)columns, o->heads, o->kv_heads, o->heads, o->kv_heads, o->kv_heads);
}

static sr_status check_attention(sr_tensor *qkv, const sr_layout *layout,
                                 const sr_attention_opts *o) {
    SR_TRY(sr_front_real("attention", "qkv", qkv, 2, (int64_t[]){-1, -1}));
    SR_TRY(sr_front_rows("attention", "qkv", qkv, layout));
    SR_TRY(check_heads(qkv, o));
    if (o->window < -1)
        return sr_fail(
            SR_EINVAL,
            "attention: window is %lld; must be a distance of at least 0, or -1 for none",
            (long long)o->window);
    return sr_coarse_check_drop("attention", o->drop, layout);
}

static sr_status record_attention(sr_tensor *y, sr_tensor *lse, sr_tensor *qkv, sr_tensor *rows,
                                  const sr_layout *layout, const sr_attention_opts *o) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &attention_rule, y, 1, &qkv));
    if (node == NULL) return SR_OK;
    keep_options(node, o);
    sr_node_set_layout(node, layout);
    SR_TRY(sr_node_save(node, ATTENTION_QKV, qkv));
    SR_TRY(sr_node_save(node, ATTENTION_OUT, y));
    SR_TRY(sr_node_save(node, ATTENTION_LSE, lse));
    return sr_node_save(node, ATTENTION_ROWS, rows);
}

/* Where a device does not take a list of queries: all rows, of which these are gathered.  Their
 * order does not matter there. */
static sr_status attend_and_gather(sr_tensor **out, sr_tensor *qkv, sr_tensor *rows,
                                   const sr_layout *layout, sr_attention_opts opts) {
    sr_tensor *all;
    SR_TRY(sr_op_attention(&all, qkv, NULL, layout, opts));
    sr_status st = sr_op_gather_rows(out, all, rows);
    sr_tensor_release(all);
    return st;
}

sr_status sr_op_attention(sr_tensor **out, sr_tensor *qkv, sr_tensor *rows, const sr_layout *layout,
                          sr_attention_opts opts) {
    *out = NULL;
    SR_TRY(sr_front_check("attention", 2, (sr_tensor *[]){qkv, rows}));
    sr_device *device = qkv->storage->device;
    SR_NEED(device, attention);
    if (opts.kv_heads == 0) opts.kv_heads = opts.heads;
    SR_TRY(check_attention(qkv, layout, &opts));
    if (rows != NULL) SR_TRY(sr_front_shape("attention", "rows", rows, SR_I32, 1, (int64_t[]){-1}));
    if (rows != NULL && !device->backend->attends_rows)
        return attend_and_gather(out, qkv, rows, layout, opts);
    int64_t queries = rows != NULL ? rows->shape[0] : qkv->shape[0];
    int64_t size = qkv->shape[1] / (opts.heads + 2 * (int64_t)opts.kv_heads);
    if (opts.scale == 0) opts.scale = 1.0 / sqrt((double)size);
    sr_tensor *in[2] = {NULL}, *y = NULL, *lse = NULL;
    int64_t y_shape[] = {queries, opts.heads * size}, lse_shape[] = {opts.heads, queries};
    sr_status st;
    SR_GO(done, st, sr_coarse_inputs(in, 2, (sr_tensor *[]){qkv, rows}));
    SR_GO(done, st, sr_tensor_new(&y, device, qkv->dtype, 2, y_shape));
    SR_GO(done, st, sr_tensor_new(&lse, device, sr_statistics_dtype(device), 2, lse_shape));
    SR_GO(done, st, device->backend->attention(y, lse, in[0], in[1], layout, opts));
    SR_GO(done, st, record_attention(y, lse, in[0], in[1], layout, &opts));
done:
    sr_coarse_drop(in, 2);
    sr_tensor_release(lse);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- dropout --------------------------------------------------------------------------------- */

static sr_status dropout_back(sr_node *node, sr_tensor **dx) {
    sr_tensor *dy;
    SR_TRY(sr_coarse_dy(node, &dy, 0));
    SR_TRY(sr_coarse_dx(node, dx, 0));
    return node->device->backend->dropout(dx[0], dy, node->layout, node->drop);
}
static const sr_rule dropout_rule = {"dropout", dropout_back};

sr_status sr_op_dropout(sr_tensor **out, sr_tensor *x, const sr_layout *layout, sr_dropout drop) {
    *out = NULL;
    SR_TRY(sr_tensor_check("dropout", x));
    sr_device *device = x->storage->device;
    SR_NEED(device, dropout);
    SR_TRY(sr_front_real("dropout", "x", x, 2, (int64_t[]){-1, -1}));
    SR_TRY(sr_front_rows("dropout", "x", x, layout));
    SR_TRY(sr_coarse_check_drop("dropout", drop, layout));
    sr_tensor *in = NULL, *y = NULL;
    sr_node *node = NULL;
    SR_TRY(sr_op_contiguous(&in, x));
    sr_status st = sr_tensor_like(&y, in);
    if (st == SR_OK) st = device->backend->dropout(y, in, layout, drop);
    if (st == SR_OK) st = sr_front_record(&node, &dropout_rule, y, 1, &in);
    sr_tensor_release(in);
    if (st != SR_OK) {
        sr_tensor_release(y);
        return st;
    }
    if (node != NULL) {
        node->drop = drop;
        sr_node_set_layout(node, layout);
    }
    *out = y;
    return SR_OK;
}

/* ops_encoder.c - rotary positions and gated activations: checks and rules.  See ops_coarse.c. */
#include <math.h>

#include "core/tensor/coarse.h"
#include "core/tensor/rotary.h"

/* ---- rotary positions ------------------------------------------------------------------------ */

enum { ROTARY_TABLE, ROTARY_POSITIONS };

static bool is_only_reference(const sr_tensor *t) {
    return t->refs == 1 && t->storage->refs == 1 && !sr_tensor_is_expanded(t);
}

/* The gradient turns back; in place if nothing else refers to it. */
static sr_status rotary_back(sr_node *node, sr_tensor **dx) {
    sr_tensor *dy;
    SR_TRY(sr_coarse_dy(node, &dy, 0));
    if (is_only_reference(dy)) {
        dx[0] = sr_tensor_retain(dy);
        sr_tensor_wrote(dy);
    } else {
        SR_TRY(sr_coarse_dx(node, dx, 0));
    }
    return node->device->backend->rotary(dx[0], dy, node->saved[ROTARY_TABLE].tensor,
                                         node->saved[ROTARY_POSITIONS].tensor, node->layout,
                                         node->op, true);
}
static const sr_rule rotary_rule = {"rotary", rotary_back};

static sr_status check_heads(const sr_tensor *x, const sr_rotary_opts *o) {
    int64_t heads = o->heads + 2 * (int64_t)o->kv_heads;
    if (o->heads < 1 || o->kv_heads < 1 || x->shape[1] % heads != 0)
        return sr_fail(
            SR_EINVAL,
            "rotary: qkv has %lld columns, which is not a multiple of %d query heads and "
            "2 x %d key and value heads",
            (long long)x->shape[1], o->heads, o->kv_heads);
    if (x->shape[1] / heads % 2 != 0 || x->shape[1] == 0)
        return sr_fail(SR_EINVAL,
                       "rotary: heads have %lld columns, which are turned in pairs; choose an even "
                       "head size",
                       (long long)(x->shape[1] / heads));
    return SR_OK;
}

/* What cannot be overwritten: as for return_rows. */
static sr_status check_in_place(const sr_tensor *x) {
    const char *is = x->requires_grad              ? "is a leaf that requires a gradient"
                     : sr_tensor_is_expanded(x)    ? "is an expanded view"
                     : !sr_tensor_is_contiguous(x) ? "is not contiguous"
                                                   : NULL;
    if (is == NULL) return SR_OK;
    return sr_fail(SR_EINVAL, "rotary: x %s, so it cannot be overwritten; leave out in_place", is);
}

static sr_status check_rotary(const sr_tensor *x, const sr_tensor *positions,
                              const sr_layout *layout, const sr_rotary_opts *o) {
    SR_TRY(sr_front_real("rotary", "qkv", x, 2, (int64_t[]){-1, -1}));
    SR_TRY(sr_front_rows("rotary", "qkv", x, layout));
    SR_TRY(check_heads(x, o));
    if (!(o->theta > 0) || !isfinite(o->theta))
        return sr_fail(SR_EINVAL, "rotary: theta is %g; expected a number above 0, such as 10000",
                       o->theta);
    if (o->limit < 0 || o->limit > SR_ROTARY_LONGEST || layout->longest > SR_ROTARY_LONGEST)
        return sr_fail(SR_EINVAL,
                       "rotary: positions are below %d; a sequence, or the limit, has %lld",
                       SR_ROTARY_LONGEST,
                       (long long)(o->limit > layout->longest ? o->limit : layout->longest));
    if (o->in_place) SR_TRY(check_in_place(x));
    if (positions == NULL) return SR_OK;
    return sr_front_shape("rotary", "positions", positions, SR_I32, 1, &layout->rows);
}

static sr_status record_rotary(sr_tensor *y, sr_tensor *x, const sr_tensor *table,
                               const sr_tensor *positions, const sr_layout *layout, int heads) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &rotary_rule, y, 1, &x));
    if (node == NULL) return SR_OK;
    node->op = heads;
    sr_node_set_layout(node, layout);
    SR_TRY(sr_node_save(node, ROTARY_TABLE, table));
    return sr_node_save(node, ROTARY_POSITIONS, positions);
}

/* *y is x turned, in its memory if `in_place`. */
static sr_status compute_rotary(sr_tensor **y, sr_tensor *x, const sr_tensor *table,
                                const sr_tensor *positions, const sr_layout *layout,
                                const sr_rotary_opts *o) {
    int heads = o->heads + o->kv_heads;
    SR_TRY(o->in_place ? sr_tensor_alias(y, x) : sr_tensor_like(y, x));
    if (o->in_place) sr_tensor_wrote(*y);
    SR_TRY(x->storage->device->backend->rotary(*y, x, table, positions, layout, heads, false));
    return record_rotary(*y, x, table, positions, layout, heads);
}

sr_status sr_op_rotary(sr_tensor **out, sr_tensor *qkv, sr_tensor *positions,
                       const sr_layout *layout, sr_rotary_opts opts) {
    *out = NULL;
    SR_TRY(sr_front_check("rotary", 2, (sr_tensor *[]){qkv, positions}));
    sr_device *device = qkv->storage->device;
    SR_NEED(device, rotary);
    if (opts.kv_heads == 0) opts.kv_heads = opts.heads;
    SR_TRY(check_rotary(qkv, positions, layout, &opts));
    int64_t size = qkv->shape[1] / (opts.heads + 2 * (int64_t)opts.kv_heads);
    int64_t rows = positions != NULL && opts.limit > 0 ? opts.limit : layout->longest;
    sr_tensor *in[2] = {NULL}, *table = NULL, *y = NULL;
    sr_status st;
    SR_GO(done, st, sr_coarse_inputs(in, 2, (sr_tensor *[]){qkv, positions}));
    SR_GO(done, st, sr_rotary_table(&table, device, opts.theta, size, rows));
    SR_GO(done, st, compute_rotary(&y, in[0], table, in[1], layout, &opts));
done:
    sr_tensor_release(table);
    sr_coarse_drop(in, 2);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- gated activations ----------------------------------------------------------------------- */

static sr_status gated_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, gated_backward);
    sr_tensor *dy;
    SR_TRY(sr_coarse_dy(node, &dy, 0));
    SR_TRY(sr_coarse_dx(node, dx, 0));
    return node->device->backend->gated_backward(dx[0], dy, node->saved[0].tensor, (sr_act)node->op,
                                                 node->number[0] != 0);
}
static const sr_rule gated_rule = {"gated", gated_back};

/* Its input, which the product before it need not keep. */
static sr_status record_gated(sr_tensor *y, sr_tensor *x, sr_act act, bool gate_first) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &gated_rule, y, 1, &x));
    if (node == NULL) return SR_OK;
    node->op = (int)act;
    node->number[0] = gate_first;
    return sr_node_save(node, 0, x);
}

sr_status sr_op_gated(sr_tensor **out, sr_tensor *x, sr_act act, bool gate_first) {
    *out = NULL;
    SR_TRY(sr_tensor_check("gated", x));
    sr_device *device = x->storage->device;
    SR_NEED(device, gated);
    SR_TRY(sr_front_real("gated", "x", x, 2, (int64_t[]){-1, -1}));
    if (x->shape[1] % 2 != 0)
        return sr_fail(SR_EINVAL,
                       "gated: x has %lld columns; expected (T, 2 F): the activated half and its "
                       "gate",
                       (long long)x->shape[1]);
    sr_tensor *in = NULL, *y = NULL;
    sr_status st;
    SR_GO(done, st, sr_op_contiguous(&in, x));
    SR_GO(done, st,
          sr_tensor_new(&y, device, x->dtype, 2, (int64_t[]){x->shape[0], x->shape[1] / 2}));
    SR_GO(done, st, device->backend->gated(y, in, act, gate_first));
    SR_GO(done, st, record_gated(y, in, act, gate_first));
done:
    sr_tensor_release(in);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

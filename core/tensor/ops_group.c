/* ops_group.c - rows in the order of their groups, and a linear layer of each group: the experts of
 * a mixture.
 */
#include "core/tensor/coarse.h"

/* ---- group_rows ------------------------------------------------------------------------------ */

static sr_status check_items(const sr_tensor *items, const sr_layout *layout, int64_t groups,
                             int64_t capacity) {
    SR_TRY(sr_front_shape("group_rows", "items", items, SR_I32, 2, (int64_t[]){-1, layout->rows}));
    if (groups < 1 || groups >= INT32_MAX)
        return sr_fail(SR_EINVAL, "group_rows: %lld groups; expected at least 1",
                       (long long)groups);
    if (capacity < 0)
        return sr_fail(SR_EINVAL, "group_rows: capacity is %lld; expected 0, no limit, or more",
                       (long long)capacity);
    if (sr_tensor_elements(items) <= INT32_MAX) return SR_OK;
    return sr_fail(SR_EINVAL, "group_rows: %lld items; expected at most 2^31 - 1",
                   (long long)sr_tensor_elements(items));
}

sr_status sr_op_group_rows(sr_tensor **rows, sr_tensor **place, sr_tensor **starts,
                           sr_tensor *items, const sr_layout *layout, int64_t groups,
                           int64_t capacity) {
    *rows = *place = *starts = NULL;
    SR_TRY(sr_tensor_check("group_rows", items));
    sr_device *device = items->storage->device;
    SR_NEED(device, group_rows);
    SR_TRY(check_items(items, layout, groups, capacity));
    int64_t count = sr_tensor_elements(items), bounds = groups + 1;
    sr_tensor *in = NULL, *made[3] = {NULL, NULL, NULL};
    sr_status st;
    SR_GO(done, st, sr_op_contiguous(&in, items));
    SR_GO(done, st, sr_tensor_new(&made[0], device, SR_I32, 1, &count));
    SR_GO(done, st, sr_tensor_like(&made[1], in));
    SR_GO(done, st, sr_tensor_new(&made[2], device, SR_I32, 1, &bounds));
    SR_GO(done, st,
          device->backend->group_rows(made[0], made[1], made[2], in, layout,
                                      capacity > 0 ? capacity : INT32_MAX));
    *rows = made[0], *place = made[1], *starts = made[2];
    made[0] = made[1] = made[2] = NULL;
done:
    sr_coarse_drop(made, 3);
    sr_tensor_release(in);
    return st;
}

/* ---- grouped_linear -------------------------------------------------------------------------- */

enum { GROUPED_X, GROUPED_W, GROUPED_PRE, GROUPED_Y, GROUPED_STARTS };

static sr_status grouped_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, grouped_linear_backward);
    const sr_saved *saved = node->saved;
    sr_tensor *dy, *dw, *db = NULL;
    SR_TRY(sr_coarse_dy(node, &dy, 0));
    SR_TRY(sr_coarse_dx(node, dx, 0));
    SR_TRY(sr_grad_sink(node, dx, 1, &dw));
    if (node->inputs > 2) SR_TRY(sr_grad_sink(node, dx, 2, &db));
    return node->device->backend->grouped_linear_backward(
        dx[0], dw, db, dy, saved[GROUPED_X].tensor, saved[GROUPED_W].tensor,
        saved[GROUPED_PRE].tensor, saved[GROUPED_Y].tensor, saved[GROUPED_STARTS].tensor,
        (sr_act)node->op);
}
static const sr_rule grouped_rule = {"grouped_linear", grouped_back};

/* in: x, w, b, starts */
static sr_status record_grouped(sr_tensor *y, sr_tensor *pre, sr_tensor *const in[4], sr_act act) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &grouped_rule, y, in[2] != NULL ? 3 : 2, in));
    if (node == NULL) return SR_OK;
    node->op = (int)act;
    SR_TRY(sr_node_save(node, GROUPED_X, in[0]));
    SR_TRY(sr_node_save(node, GROUPED_W, in[1]));
    SR_TRY(sr_node_save(node, GROUPED_PRE, pre));
    SR_TRY(sr_node_save(node, GROUPED_STARTS, in[3]));
    bool from_y = act != SR_ACT_NONE && !sr_act_keeps_input(act);
    return from_y ? sr_node_save(node, GROUPED_Y, y) : SR_OK;
}

static sr_status compute_grouped(sr_tensor **out, sr_tensor *const in[4], sr_act act) {
    sr_device *device = in[0]->storage->device;
    int64_t shape[2] = {in[0]->shape[0], in[1]->shape[0] / (in[3]->shape[0] - 1)};
    sr_tensor *y = NULL, *pre = NULL;
    sr_status st = sr_tensor_new(&y, device, in[0]->dtype, 2, shape);
    bool keeps = sr_act_keeps_input(act) && sr_grad_wanted(3, in);
    if (st == SR_OK && keeps) st = sr_tensor_like(&pre, y);
    if (st == SR_OK) st = device->backend->grouped_linear(y, pre, in[0], in[1], in[2], in[3], act);
    if (st == SR_OK) st = record_grouped(y, pre, in, act);
    sr_tensor_release(pre);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

static sr_status check_grouped(sr_tensor *x, sr_tensor *w, sr_tensor *b, sr_tensor *starts) {
    const char *op = "grouped_linear";
    SR_TRY(sr_front_real(op, "w", w, 2, (int64_t[]){-1, -1}));
    SR_TRY(sr_front_real(op, "x", x, 2, (int64_t[]){-1, w->shape[1]}));
    SR_TRY(sr_front_same(op, "x", x, "w", w));
    SR_TRY(sr_front_shape(op, "starts", starts, SR_I32, 1, (int64_t[]){-1}));
    int64_t groups = starts->shape[0] - 1;
    if (groups < 1)
        return sr_fail(SR_EINVAL, "%s: starts has %lld numbers; expected one more than groups", op,
                       (long long)starts->shape[0]);
    if (w->shape[0] % groups != 0)
        return sr_fail(SR_EINVAL, "%s: the %lld rows of w are not a multiple of %lld groups", op,
                       (long long)w->shape[0], (long long)groups);
    if (b == NULL) return SR_OK;
    SR_TRY(sr_front_real(op, "b", b, 1, (int64_t[]){w->shape[0]}));
    return sr_front_same(op, "b", b, "w", w);
}

sr_status sr_op_grouped_linear(sr_tensor **out, sr_tensor *x, sr_tensor *w, sr_tensor *b,
                               sr_tensor *starts, sr_act act) {
    *out = NULL;
    SR_TRY(sr_front_check("grouped_linear", 4, (sr_tensor *[]){x, w, b, starts}));
    SR_NEED(x->storage->device, grouped_linear);
    SR_TRY(check_grouped(x, w, b, starts));
    sr_tensor *in[4];
    SR_TRY(sr_coarse_inputs(in, 4, (sr_tensor *[]){x, w, b, starts}));
    sr_status st = compute_grouped(out, in, act);
    sr_coarse_drop(in, 4);
    return st;
}

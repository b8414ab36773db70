/* ops_sequence.c - one value for each sequence of a layout: the mean of its rows. */
#include "core/tensor/coarse.h"

static sr_status mean_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, sequence_mean_backward);
    sr_tensor *dy;
    SR_TRY(sr_coarse_dy(node, &dy, 0));
    SR_TRY(sr_coarse_dx(node, dx, 0));
    return node->device->backend->sequence_mean_backward(dx[0], dy, node->layout);
}
static const sr_rule mean_rule = {"sequence_mean", mean_back};

static sr_status compute(sr_tensor **out, sr_tensor *x, const sr_layout *layout) {
    sr_device *device = x->storage->device;
    int64_t shape[] = {layout->sequences, x->shape[1]};
    sr_tensor *y = NULL;
    sr_node *node = NULL;
    SR_TRY(sr_tensor_new(&y, device, sr_statistics_dtype(device), 2, shape));
    sr_status st = device->backend->sequence_mean(y, x, layout);
    if (st == SR_OK) st = sr_front_record(&node, &mean_rule, y, 1, &x);
    if (st != SR_OK) {
        sr_tensor_release(y);
        return st;
    }
    if (node != NULL) sr_node_set_layout(node, layout);
    *out = y;
    return SR_OK;
}

sr_status sr_op_sequence_mean(sr_tensor **out, sr_tensor *x, const sr_layout *layout) {
    *out = NULL;
    SR_TRY(sr_tensor_check("sequence_mean", x));
    sr_device *device = x->storage->device;
    SR_NEED(device, sequence_mean);
    SR_TRY(sr_front_real("sequence_mean", "x", x, 2, (int64_t[]){-1, -1}));
    SR_TRY(sr_front_rows("sequence_mean", "x", x, layout));
    sr_tensor *in;
    SR_TRY(sr_op_contiguous(&in, x));
    sr_status st = compute(out, in, layout);
    sr_tensor_release(in);
    return st;
}

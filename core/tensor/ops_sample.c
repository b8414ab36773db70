/* ops_sample.c - draws from distributions; nothing is recorded. */
#include "core/tensor/front.h"

sr_status sr_op_sample(sr_tensor **out, sr_tensor *logits, sr_tensor *keys, uint64_t seed) {
    *out = NULL;
    SR_TRY(sr_front_check("sample", 2, (sr_tensor *[]){logits, keys}));
    sr_device *device = logits->storage->device;
    SR_NEED(device, sample);
    SR_TRY(sr_front_shape("sample", "logits", logits, device->real, 2, (int64_t[]){-1, -1}));
    SR_TRY(sr_front_shape("sample", "keys", keys, SR_I32, 2, (int64_t[]){logits->shape[0], 3}));
    if (logits->shape[1] < 1) return sr_fail(SR_EINVAL, "sample: logits has no classes");
    sr_tensor *in[2] = {NULL, NULL}, *y = NULL;
    sr_status st;
    SR_GO(done, st, sr_op_contiguous(&in[0], logits));
    SR_GO(done, st, sr_op_contiguous(&in[1], keys));
    SR_GO(done, st, sr_tensor_new(&y, device, SR_I32, 1, logits->shape));
    SR_GO(done, st, device->backend->sample(y, in[0], in[1], seed));
    *out = y;
    y = NULL;
done:
    sr_tensor_release(y);
    sr_tensor_release(in[0]);
    sr_tensor_release(in[1]);
    return st;
}

/* gpu.cu - the parts of gpu.h that are the same on both hosts. */
#include "kernels/cuda/gpu.h"

sr_status gpu_scratch(void **data, gpu *g, int number, size_t bytes) {
    auto *s = &g->scratch[number];
    if (bytes > s->bytes || s->data == nullptr) {
        void *more;
        SR_TRY(sr_device_take(g->device, &more, bytes));
        if (s->data != nullptr)
            sr_device_give(g->device, s->data, s->bytes); /* queued work is first */
        s->data = more;
        s->bytes = bytes;
    }
    *data = s->data;
    return SR_OK;
}

void gpu_scratch_free(gpu *g) {
    for (int i = 0; i < GPU_SCRATCH_SLOTS; i++) {
        if (g->scratch[i].data != nullptr)
            sr_device_give(g->device, g->scratch[i].data, g->scratch[i].bytes);
        g->scratch[i] = {};
    }
    sr_device_trim(g->device);
}

/* The sentences of the cpu device. */
sr_status gpu_fault_status(const queue_fault *f) {
    if (f->key == ~(uint64_t)0) return SR_OK;
    long long row = (uint32_t)f->key, value = f->value, limit = f->limit;
    switch (f->code) {
    case FAULT_EMBED_ID:
        return sr_fail(SR_EINVAL, "embed: ids[%lld] is %lld, but the word table has %lld rows", row,
                       value, limit);
    case FAULT_EMBED_TYPE:
        return sr_fail(SR_EINVAL, "embed: types[%lld] is %lld, but the type table has %lld rows",
                       row, value, limit);
    case FAULT_MLM_LABEL:
    case FAULT_CROSS_ENTROPY_LABEL:
        return sr_fail(SR_EINVAL, "%s: labels[%lld] is %lld, but there are %lld classes",
                       f->code == FAULT_MLM_LABEL ? "mlm_loss" : "cross_entropy", row, value,
                       limit);
    case FAULT_PUT_DUPLICATE:
        return sr_fail(SR_EINVAL, "put_rows: rows[%lld] is %lld again; name a row once", row,
                       value);
    default:
        return sr_fail(SR_EINVAL,
                       "%s: rows[%lld] is %lld, but there are %lld rows (counted from 0)",
                       f->code == FAULT_GATHER_ROW    ? "gather_rows"
                       : f->code == FAULT_SCATTER_ROW ? "scatter_rows"
                                                      : "put_rows",
                       row, value, limit);
    }
}

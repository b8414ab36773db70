/* gpu.cu - the parts of gpu.h that are the same on both hosts. */
#include "core/base/mem.h"
#include "kernels/cuda/gpu.h"

sr_status gpu_scratch(void **data, gpu *g, int number, size_t bytes) {
    auto *s = &g->scratch[number];
    if (bytes > s->bytes || s->data == nullptr) {
        void *more;
        SR_TRY(sr_device_take(g->device, &more, bytes));
        if (s->data != nullptr)
            sr_device_give(g->device, s->data, s->bytes); /* after the queued work */
        s->data = more;
        s->bytes = bytes;
    }
    *data = s->data;
    return SR_OK;
}

/* Room for `bytes` on the device and in the copy. */
static sr_status make_room(gpu *g, int number, size_t bytes) {
    auto *t = &g->kept[number];
    void *data, *copy = nullptr;
    if (bytes <= t->room && t->data != nullptr) return SR_OK;
    SR_TRY(sr_device_take(g->device, &data, bytes));
    sr_status st = sr_alloc(&copy, bytes, 1);
    if (st != SR_OK) {
        sr_device_give(g->device, data, bytes);
        return st;
    }
    if (t->data != nullptr) sr_device_give(g->device, t->data, t->room);
    sr_free(t->copy);
    *t = {data, copy, bytes, 0};
    return SR_OK;
}

sr_status gpu_keep(void **data, gpu *g, int number, const void *host, size_t bytes) {
    auto *t = &g->kept[number];
    SR_TRY(make_room(g, number, bytes));
    *data = t->data;
    if (t->bytes == bytes && (bytes == 0 || memcmp(t->copy, host, bytes) == 0)) return SR_OK;
    t->bytes = 0; /* until the upload is queued */
    SR_TRY(g->device->backend->upload(g->device, t->data, host, bytes));
    memcpy(t->copy, host, bytes);
    t->bytes = bytes;
    return SR_OK;
}

void gpu_scratch_free(gpu *g) {
    for (auto &t : g->kept) {
        if (t.data != nullptr) sr_device_give(g->device, t.data, t.room);
        sr_free(t.copy);
        t = {};
    }
    for (int i = 0; i < GPU_SCRATCH_SLOTS; i++) {
        if (g->scratch[i].data != nullptr)
            sr_device_give(g->device, g->scratch[i].data, g->scratch[i].bytes);
        g->scratch[i] = {};
    }
    sr_device_trim(g->device);
}

/* The same messages as on the cpu device. */
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
    case FAULT_EMBED_POSITION:
        return sr_fail(SR_EINVAL,
                       "embed: positions[%lld] is %lld, but the position table has %lld rows", row,
                       value, limit);
    case FAULT_ROTARY_POSITION:
        return sr_fail(SR_EINVAL, "rotary: positions[%lld] is %lld, but the limit is %lld", row,
                       value, limit);
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

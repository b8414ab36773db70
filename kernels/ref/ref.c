/* ref.c - the table of the reference device, its memory, and iteration over strided tensors. */
#include "kernels/ref/ref.h"

#include <string.h>

#include "core/base/mem.h"

static sr_status take(sr_device *device, void **data, size_t bytes) {
    (void)device;
    return sr_alloc_aligned(data, bytes);
}

static void give(sr_device *device, void *data, size_t bytes) {
    (void)device, (void)bytes;
    sr_free_aligned(data);
}

static sr_status transfer(sr_device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    memcpy(to, from, bytes);
    return SR_OK;
}

ref_walk ref_start(int tensors, const sr_tensor *const *t) {
    ref_walk w = {.tensors = tensors, .ndim = t[0]->ndim, .left = sr_tensor_elements(t[0])};
    memcpy(w.shape, t[0]->shape, sizeof w.shape);
    for (int i = 0; i < tensors; i++) w.t[i] = t[i];
    return w;
}

void ref_next(ref_walk *w) {
    w->left--;
    for (int d = w->ndim - 1; d >= 0; d--) {
        for (int i = 0; i < w->tensors; i++) w->at[i] += w->t[i]->stride[d];
        if (++w->index[d] < w->shape[d]) return;
        for (int i = 0; i < w->tensors; i++) w->at[i] -= w->t[i]->stride[d] * w->shape[d];
        w->index[d] = 0;
    }
}

double ref_drop(const sr_layout *layout, int32_t s, sr_dropout drop, int64_t row, int64_t col,
                int head) {
    if (drop.keep >= 256) return 1.0;
    uint32_t c = (uint32_t)col;
    sr_u32x4 counter = sr_counter((uint32_t)row, sr_drop_group(c), layout->uid[s], drop.purpose,
                                  drop.layer, (uint32_t)head, layout->epoch[s]);
    sr_u32x4 words = sr_philox(counter, layout->seed, SR_ROUNDS_DROPOUT);
    return sr_drop_byte(words, c) < drop.keep ? 256.0 / drop.keep : 0.0;
}

double ref_drop_row(const sr_layout *layout, sr_dropout drop, int64_t t, int64_t col) {
    if (drop.keep >= 256 || layout->owner[t] < 0) return 1.0;
    return ref_drop(layout, layout->owner[t], drop, layout->position[t], col, 0);
}

static sr_status zero_ranges(sr_tensor *y, const int64_t *ends, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        memset(SR_DATA(double, y) + ends[2 * i], 0,
               (size_t)(ends[2 * i + 1] - ends[2 * i]) * sizeof(double));
    return SR_OK;
}

const sr_backend sr_backend_ref = {
    SR_BACKEND_ABI,
    .name = "ref",
    .host = true,
    .adds = true,
    .attends_rows = true,
    .real = SR_F64,
    .alloc = take,
    .free = give,
    .upload = transfer,
    .download = transfer,
    .zero_ranges = zero_ranges,
#define SR_SLOT(name, ...) .name = ref_##name,
#include "core/tensor/slots.h"
};

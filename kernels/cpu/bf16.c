/* bf16.c - bf16 tensors through kernels that compute in f32.
 *
 * An op widens what it reads and rounds what it writes, so that every value is rounded once, at the
 * output.  Traffic: 6 bytes per element besides the kernel's own.
 */
#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

enum { LINE = 16 }; /* floats */

/* Floats of all stand-ins, each at the start of a cache line. */
static sr_status total(size_t *floats, const sr_tensor *const *list, int count) {
    *floats = 0;
    for (int i = 0; i < count; i++)
        if (list[i] != NULL && list[i]->dtype == SR_BF16)
            *floats += (size_t)sr_blocks(sr_tensor_elements(list[i]), LINE) * LINE;
    size_t bytes;
    return sr_mul_size(&bytes, *floats, sizeof(float));
}

/* A contiguous f32 tensor of t's shape at `offset` in the storage of stand-ins. */
static void stand_in(sr_cpu_wide *w, int i, const sr_tensor *t, int64_t offset) {
    sr_tensor *copy = &w->copy[i];
    *copy = (sr_tensor){
        .storage = &w->storage, .dtype = SR_F32, .ndim = t->ndim, .offset = offset, .refs = 1};
    int64_t step = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        copy->shape[d] = t->shape[d];
        copy->stride[d] = step;
        step *= t->shape[d];
    }
    w->t[i] = copy;
}

sr_status sr_cpu_widen(sr_cpu_wide *w, const char *op, const sr_tensor *const *list, int count,
                       int outputs) {
    size_t floats;
    w->outputs = outputs;
    for (int i = 0; i < count; i++) {
        w->given[i] = w->t[i] = (sr_tensor *)list[i];
        if (list[i] != NULL && list[i]->dtype != SR_BF16) SR_TRY(sr_cpu_need_f32(op, list + i, 1));
    }
    SR_TRY(total(&floats, list, count));
    if (floats == 0) return SR_OK;
    sr_device *device = NULL;
    for (int i = 0; i < count; i++)
        if (list[i] != NULL) device = list[i]->storage->device;
    sr_cpu_state *cpu = device->state;
    SR_TRY(sr_cpu_reserve_wide(cpu, floats * sizeof(float)));
    w->storage = (sr_storage){
        .device = device, .data = cpu->wide.data, .bytes = floats * sizeof(float), .refs = 1};
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        if (list[i] == NULL || list[i]->dtype != SR_BF16) continue;
        stand_in(w, i, list[i], at);
        at += sr_blocks(sr_tensor_elements(list[i]), LINE) * LINE;
        if (i >= outputs) SR_TRY(sr_cpu_copy(w->t[i], list[i]));
    }
    return SR_OK;
}

sr_status sr_cpu_round(const sr_cpu_wide *w) {
    for (int i = 0; i < w->outputs; i++)
        if (w->t[i] != w->given[i]) SR_TRY(sr_cpu_copy(w->given[i], w->t[i]));
    return SR_OK;
}

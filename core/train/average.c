#include "core/train/average.h"

#include "core/tensor/backend.h"

static sr_range common(sr_range a, int64_t first, int64_t last) {
    if (first < a.first) first = a.first;
    if (last > a.last) last = a.last;
    return last > first ? (sr_range){first, last} : (sr_range){0, 0};
}

sr_status sr_optim_average_of(sr_tensor **average, sr_range *held, const sr_optim *o, int64_t i) {
    const sr_param *param = &o->params->list[i];
    *average = NULL;
    *held = (sr_range){0, 0};
    if (o->average == NULL || o->segments[o->segment_of[i]].frozen) return SR_OK;
    sr_range found = common(o->range, param->offset, param->offset + param->size);
    int64_t n = found.last - found.first;
    if (n == 0) return SR_OK;
    SR_TRY(
        sr_tensor_view(average, o->average, 1, &n, (int64_t[]){1}, found.first - o->range.first));
    *held = (sr_range){found.first - param->offset, found.last - param->offset};
    return SR_OK;
}

/* ---- changing places --------------------------------------------------------------------------
 */

/* Elements [at, at + n) of a flat tensor. */
static sr_tensor part(const sr_tensor *flat, int64_t at, int64_t n) {
    sr_tensor t = *flat;
    t.shape[0] = n;
    t.offset += at;
    return t;
}

static sr_status swap_chunk(sr_optim *o, const sr_chunk *c, sr_tensor *room) {
    const sr_backend *backend = o->params->device->backend;
    sr_tensor w = part(o->params->value, c->from, c->size);
    sr_tensor a = part(o->average, c->from - o->range.first, c->size);
    sr_tensor kept = part(room, 0, c->size);
    SR_TRY(backend->copy(&kept, &w));
    SR_TRY(backend->copy(&w, &a));
    SR_TRY(backend->copy(&a, &kept));
    if (o->params->bf16 == NULL) return SR_OK;
    sr_tensor copy = part(o->params->bf16, c->from, c->size);
    return backend->copy(&copy, &w);
}

sr_status sr_optim_swap_average(sr_optim *o) {
    sr_tensor *room;
    SR_TRY(sr_optim_read_results(o));
    if (o->averaged == 0) return sr_fail(SR_EINVAL, "optimizer: no average of the weights yet");
    SR_TRY(sr_params_sync_bf16(o->params));
    SR_TRY(sr_params_flat(&room, o->params->device, SR_CHUNK));
    sr_params_before_step(o->params);
    sr_status st = SR_OK;
    for (int64_t k = o->from; st == SR_OK && k < o->upto; k++)
        st = swap_chunk(o, &o->chunks[k], room);
    sr_tensor_release(room);
    return st;
}

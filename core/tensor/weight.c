#include "core/tensor/weight.h"

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/tensor/storage.h"

sr_status sr_weight_new(sr_weight **out, sr_device *device, int64_t id, int64_t rows,
                        int64_t cols) {
    *out = NULL;
    sr_weight *w;
    SR_TRY(sr_new(&w, 1));
    w->device = sr_device_retain(device);
    w->id = id;
    w->rows = rows;
    w->cols = cols;
    w->refs = 1;
    w->next = device->weights;
    if (w->next != NULL) w->next->prev = w;
    device->weights = w;
    *out = w;
    return SR_OK;
}

sr_weight *sr_weight_retain(sr_weight *w) {
    if (w != NULL) w->refs++;
    return w;
}

static void drop_layout(sr_weight *w) {
    if (w->layout != NULL) w->device->backend->weight_free(w);
    w->layout = NULL;
}

void sr_weight_release(sr_weight *w) {
    if (w == NULL || --w->refs > 0) return;
    drop_layout(w);
    if (w->prev != NULL) w->prev->next = w->next;
    if (w->prev == NULL) w->device->weights = w->next;
    if (w->next != NULL) w->next->prev = w->prev;
    sr_device_release(w->device);
    sr_free(w);
}

void sr_weight_drop_all(sr_device *device) {
    for (sr_weight *w = device->weights; w != NULL; w = w->next) drop_layout(w);
}

static sr_status build(sr_weight *w, const sr_tensor *t) {
    if (w->layout != NULL && w->version == t->storage->version) return SR_OK;
    SR_TRY(w->device->backend->weight_build(w, t));
    w->version = t->storage->version;
    return SR_OK;
}

sr_status sr_weight_layout(void **layout, const sr_tensor *t) {
    *layout = NULL;
    sr_weight *w = t->weight;
    if (w == NULL || w->device->backend->weight_build == NULL) return SR_OK;
    SR_TRY(build(w, t));
    *layout = w->layout;
    return SR_OK;
}

sr_status sr_weight_refresh(const sr_tensor *t) {
    return t->weight != NULL && t->weight->layout != NULL ? build(t->weight, t) : SR_OK;
}

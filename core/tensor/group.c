#include "core/tensor/group.h"

/* ---- rows in the order of groups ------------------------------------------------------------- */

sr_status sr_host_group_rows(sr_tensor *rows, sr_tensor *place, sr_tensor *starts,
                             const sr_tensor *items, const sr_layout *layout, int64_t capacity) {
    int64_t count = sr_tensor_elements(items), groups = starts->shape[0] - 1;
    const int32_t *item = SR_DATA(int32_t, items);
    int32_t *row = SR_DATA(int32_t, rows), *at = SR_DATA(int32_t, place);
    int32_t *next = SR_DATA(int32_t, starts); /* items of a group; then where its next one goes */
    for (int64_t g = 0; g <= groups; g++) next[g] = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t g = item[i];
        bool has = layout->owner[i % layout->rows] >= 0 && g >= 0 && g < groups;
        at[i] = has && next[g] < capacity ? g : (int32_t)groups;
        if (at[i] < groups) next[g]++;
    }
    int32_t first = 0;
    for (int64_t g = 0; g <= groups; g++) {
        int32_t n = next[g];
        next[g] = first;
        first += n;
    }
    for (int64_t i = 0; i < count; i++) {
        at[i] = next[at[i]]++;
        row[at[i]] = (int32_t)(i % layout->rows);
    }
    for (int64_t g = groups; g > 0; g--) next[g] = next[g - 1]; /* each is now its group's end */
    next[0] = 0;
    return SR_OK;
}

/* ---- a linear layer of each group ------------------------------------------------------------ */

static sr_status check_starts(const sr_tensor *starts, int64_t rows) {
    const int32_t *start = SR_DATA(int32_t, starts);
    int32_t before = 0;
    for (int64_t g = 0; g < starts->shape[0]; g++) {
        int64_t most = g > 0 ? rows : 0;
        if (start[g] < before || start[g] > most)
            return sr_fail(SR_EINVAL,
                           "grouped_linear: starts[%lld] is %d; expected %d to %lld, as returned "
                           "by group_rows",
                           (long long)g, start[g], before, (long long)most);
        before = start[g];
    }
    return SR_OK;
}

/* `count` rows of t from `from` on, in `room`; NULL if t is. */
static sr_tensor *part(sr_tensor *room, const sr_tensor *t, int64_t from, int64_t count) {
    if (t == NULL) return NULL;
    *room = *t;
    room->offset += from * t->stride[0];
    room->shape[0] = count;
    room->weight = NULL;
    return room;
}

static sr_status clear_rest(sr_tensor *t, int64_t from) {
    sr_tensor room, *rest = t != NULL ? part(&room, t, from, t->shape[0] - from) : NULL;
    if (rest == NULL || rest->shape[0] == 0) return SR_OK;
    return t->storage->device->backend->fill(rest, 0.0);
}

sr_status sr_host_grouped_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x,
                                 const sr_tensor *w, const sr_tensor *b, const sr_tensor *starts,
                                 sr_act act) {
    const sr_backend *backend = y->storage->device->backend;
    const int32_t *start = SR_DATA(int32_t, starts);
    int64_t groups = starts->shape[0] - 1, outputs = y->shape[1];
    SR_TRY(check_starts(starts, x->shape[0]));
    for (int64_t g = 0; g < groups; g++) {
        sr_tensor room[5];
        int64_t from = start[g], n = start[g + 1] - start[g];
        if (n == 0) continue;
        SR_TRY(backend->linear(part(&room[0], y, from, n), part(&room[1], pre, from, n),
                               part(&room[2], x, from, n), part(&room[3], w, g * outputs, outputs),
                               part(&room[4], b, g * outputs, outputs), act));
    }
    SR_TRY(clear_rest(pre, start[groups]));
    return clear_rest(y, start[groups]);
}

sr_status sr_host_grouped_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db,
                                          const sr_tensor *dy, const sr_tensor *x,
                                          const sr_tensor *w, const sr_tensor *pre,
                                          const sr_tensor *y, const sr_tensor *starts, sr_act act) {
    const sr_backend *backend = dy->storage->device->backend;
    const int32_t *start = SR_DATA(int32_t, starts);
    int64_t groups = starts->shape[0] - 1, outputs = dy->shape[1];
    SR_TRY(check_starts(starts, x->shape[0]));
    for (int64_t g = 0; g < groups; g++) {
        sr_tensor room[8];
        int64_t from = start[g], n = start[g + 1] - start[g], rows = g * outputs;
        if (n == 0) continue;
        SR_TRY(backend->linear_backward(
            part(&room[0], dx, from, n), part(&room[1], dw, rows, outputs),
            part(&room[2], db, rows, outputs), part(&room[3], dy, from, n),
            part(&room[4], x, from, n), part(&room[5], w, rows, outputs),
            part(&room[6], pre, from, n), part(&room[7], y, from, n), act, false, false));
    }
    return clear_rest(dx, start[groups]);
}

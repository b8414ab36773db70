#include "core/tensor/layout_on.h"

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/tensor/storage.h"

static void drop(sr_mirror *mirror) {
    sr_layout_on *on = (sr_layout_on *)mirror;
    if (on->own != NULL && on->free_own != NULL) on->free_own(on->device, on->own);
    sr_tensor_release(on->block);
    sr_device_release(on->device);
    sr_free(on);
}

static bool is_live(const sr_layout_on *on) {
    return on->block == NULL || on->block->storage->data != NULL;
}

/* A layout that is sent in every step must not accumulate the copies of closed scopes. */
static void drop_expired(sr_layout *layout) {
    sr_mirror **link = &layout->mirrors;
    while (*link != NULL) {
        sr_mirror *mirror = *link;
        if (is_live((sr_layout_on *)mirror)) {
            link = &mirror->next;
            continue;
        }
        *link = mirror->next;
        mirror->drop(mirror);
    }
}

/* Adds an empty copy to the layout.  The list of copies is not part of its value, so a const layout
 * may grow it. */
static sr_status hang(sr_layout_on **out, const sr_layout *layout, sr_device *device) {
    drop_expired((sr_layout *)(uintptr_t)layout);
    SR_TRY(sr_new(out, 1));
    (*out)->head.drop = drop;
    (*out)->device = sr_device_retain(device);
    sr_layout_add_mirror(layout, &(*out)->head);
    return SR_OK;
}

int sr_layout_add_pieces(sr_parcel *parcel, const sr_layout *l) {
    int64_t n = l->sequences;
    const void *arrays[SR_LAYOUT_PIECES] = {l->start,         l->len,   l->uid,     l->epoch,
                                            l->longest_first, l->owner, l->position};
    int first = parcel->count;
    for (int i = 0; i < SR_LAYOUT_PIECES; i++)
        sr_parcel_add(parcel, arrays[i], SR_I32, SR_I32, i < 5 ? n : l->rows);
    return first;
}

sr_status sr_layout_hang(sr_layout_on **out, const sr_layout *layout, sr_tensor *block,
                         const sr_parcel *parcel, int first) {
    const char *data = sr_tensor_data(block);
    const sr_parcel_item *piece = parcel->piece + first;
    SR_TRY(hang(out, layout, block->storage->device));
    sr_layout_on *on = *out;
    on->block = sr_tensor_retain(block);
    on->start = (const int32_t *)(data + piece[0].at);
    on->len = (const int32_t *)(data + piece[1].at);
    on->uid = (const uint32_t *)(data + piece[2].at);
    on->epoch = (const uint32_t *)(data + piece[3].at);
    on->longest_first = (const int32_t *)(data + piece[4].at);
    on->owner = (const int32_t *)(data + piece[5].at);
    on->position = (const int32_t *)(data + piece[6].at);
    return SR_OK;
}

/* Held by the layout alone, regardless of the open scope: it is made once. */
static sr_status send(sr_layout_on **out, const sr_layout *layout, sr_device *device) {
    sr_parcel_item piece[SR_LAYOUT_PIECES];
    sr_parcel parcel = {.piece = piece};
    sr_tensor *block;
    int first = sr_layout_add_pieces(&parcel, layout);
    SR_TRY(sr_parcel_send(&block, device->outside, &parcel));
    sr_status st = sr_layout_hang(out, layout, block, &parcel, first);
    sr_tensor_release(block);
    return st;
}

static sr_status lend(sr_layout_on **out, const sr_layout *l, sr_device *device) {
    SR_TRY(hang(out, l, device));
    sr_layout_on *on = *out;
    on->start = l->start, on->len = l->len, on->uid = l->uid, on->epoch = l->epoch;
    on->longest_first = l->longest_first, on->owner = l->owner, on->position = l->position;
    return SR_OK;
}

sr_status sr_layout_find_on(sr_layout_on **out, const sr_layout *layout, sr_device *device) {
    for (sr_mirror *m = layout->mirrors; m != NULL; m = m->next) {
        *out = (sr_layout_on *)m;
        if ((*out)->device == device && is_live(*out)) return SR_OK;
    }
    return device->backend->host ? lend(out, layout, device) : send(out, layout, device);
}

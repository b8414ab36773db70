/* attention_tiles.cu - a layout's tiles in device memory, the rows that no tile has, and how the
 * backward pass is split. */
#include "core/base/mem.h"
#include "core/tensor/parcel.h"
#include "kernels/cuda/attention.cuh"

using namespace attention;

static void drop_tiles(sr_device *, void *own) {
    attention_tiles *t = (attention_tiles *)own;
    sr_tensor_release(t->block);
    sr_tiles_free(t->list);
    sr_free(t);
}

static sr_status send(attention_tiles *t, sr_device *device) {
    sr_parcel_item piece[2];
    sr_parcel parcel = {piece, 0, 0};
    const int64_t words = (int64_t)(sizeof *t->list->tile / sizeof(int32_t));
    sr_parcel_add(&parcel, t->list->tile, SR_I32, SR_I32, t->list->count * words);
    sr_parcel_add(&parcel, t->list->slack, SR_I32, SR_I32, t->list->slack_count);
    SR_TRY(sr_parcel_send(&t->block, device->outside, &parcel));
    const char *data = (const char *)sr_tensor_data(t->block);
    t->tile = (const sr_tile *)(data + piece[0].at);
    t->slack = (const int32_t *)(data + piece[1].at);
    return SR_OK;
}

static sr_status make(attention_tiles **out, const sr_layout *layout, sr_device *device) {
    SR_TRY(sr_new(out, 1));
    sr_status st = sr_tiles_new(&(*out)->list, layout);
    if (st == SR_OK) st = send(*out, device);
    if (st != SR_OK) drop_tiles(device, *out);
    return st;
}

sr_status attention_tiles_of(attention_tiles **out, const sr_layout *layout, sr_device *device) {
    sr_layout_on *on;
    SR_TRY(sr_layout_find_on(&on, layout, device));
    if (on->own == nullptr) {
        SR_TRY(make(out, layout, device));
        on->own = *out;
        on->free_own = drop_tiles;
    }
    *out = (attention_tiles *)on->own;
    return SR_OK;
}

slack_rows attention_slack(const attention_tiles *tiles, size_t from) {
    const int count = tiles->list->slack_count;
    return {gpu_pointer(tiles->slack, (size_t)count), count, (int)from};
}

sr_status attention_split(sr_split *out, attention_tiles *tiles, const attention_job *j, int slots,
                          int64_t reach) {
    for (auto &known : tiles->known) {
        if (known.slots == slots && known.reach == reach && known.heads == j->call.heads &&
            known.kv_heads == j->call.kv_heads) {
            *out = known.split;
            return SR_OK;
        }
    }
    SR_TRY(sr_tiles_split(out, tiles->list, j->call.heads, j->call.kv_heads, slots, reach));
    tiles->known[tiles->next] = {j->call.heads, j->call.kv_heads, slots, reach, *out};
    tiles->next = (tiles->next + 1) % 2;
    return SR_OK;
}

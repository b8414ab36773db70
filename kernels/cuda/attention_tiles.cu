/* attention_tiles.cu - a layout's tiles in device memory, and the rows that no tile has. */
#include "core/base/mem.h"
#include "core/tensor/parcel.h"
#include "kernels/cuda/attention.h"

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

/* ---- rows of no sequence --------------------------------------------------------------------- */

/* One warp per row: zeros in x (T, width), and lse = inf where there is one. */
template <class T>
KERNEL(THREADS, 1)
void clear_slack(readonly<int32_t> slack, int count, global<T> x, int width, global<float> lse,
                 call c) {
    const int item = block_x() * WARPS + warp();
    if (item >= count) return;
    const size_t row = (size_t)slack[item];
    for (int i = lane() * 8; i < width; i += 32 * 8)
        store16(x, row * (size_t)width + (size_t)i, vec16{{0, 0, 0, 0}});
    if (!lse) return;
    for (int head = lane(); head < c.heads; head += 32) lse[(size_t)head * c.rows + row] = INFINITY;
}

template <class T>
sr_status attention_clear(const attention_job *j, const attention_tiles *tiles, sr_tensor *x) {
    const int count = tiles->list->slack_count;
    return launch(j->g, "attention", clear_slack<T>, dim(ceil_div((size_t)count, WARPS)), THREADS,
                  0, gpu_pointer(tiles->slack, (size_t)count), count, out<T>(x), (int)x->shape[1],
                  x == j->dqkv ? nullptr : out<float>(j->lse), j->call);
}

template sr_status attention_clear<bf16>(const attention_job *, const attention_tiles *,
                                         sr_tensor *);
#ifdef SR_SIMT
template sr_status attention_clear<f16>(const attention_job *, const attention_tiles *,
                                        sr_tensor *);
#endif

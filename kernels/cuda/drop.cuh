/* drop.cuh - dropout in row-wise kernels.
 *
 * A draw decides sixteen columns of a row, in pairs eight apart (core/base/rng.h), but a thread
 * owns eight consecutive ones.  So a team draws the words of its row into shared memory, one call
 * for every 16 columns, and each thread reads the 16 bytes that decide its run: words of the four
 * groups of a block of 64 columns at [block][word][group].  The words of blocks 2 apart are rotated
 * so that the writes of a warp meet no bank twice.
 */
#ifndef SR_CUDA_DROP_CUH
#define SR_CUDA_DROP_CUH

#include "core/tensor/layout_on.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/team.cuh"

/* The rows of a layout and the site of a dropout; owner is NULL without a layout. */
struct drop_rows {
    global<const int32_t> owner, position;
    global<const uint32_t> uid, epoch;
    drop_site site;
};

static inline sr_status drop_rows_of(drop_rows *d, const sr_layout *layout, sr_dropout drop,
                                     sr_device *device) {
    *d = {};
    d->site.keep = drop.keep;
    if (layout == nullptr) return SR_OK;
    sr_layout_on *on;
    SR_TRY(sr_layout_find_on(&on, layout, device));
    size_t rows = (size_t)layout->rows, sequences = (size_t)layout->sequences;
    d->owner = gpu_pointer(on->owner, rows);
    d->position = gpu_pointer(on->position, rows);
    d->uid = gpu_pointer(on->uid, sequences);
    d->epoch = gpu_pointer(on->epoch, sequences);
    d->site = {layout->seed, drop.keep, (uint32_t)drop.purpose << 24 | (drop.layer & 0xFFFu) << 12,
               256.0f / (float)drop.keep};
    return SR_OK;
}

DEV bool drops(const drop_rows &d) {
    return d.site.keep < 256u;
}

/* Words of shared memory that a row needs. */
#define DROP_WORDS(columns) (((columns) + 63) / 64 * 16)

DEV int drop_word_at(int block, int word, int group) {
    return block * 16 + ((word ^ (block >> 1 & 3)) * 4 + group);
}

/* Draws the words of a row of sequence `owner`, one group per thread: a team has at least a thread
 * for every 16 columns. */
DEV void drop_draw_row(shared<uint32_t> words, const drop_rows &d, size_t row, int owner,
                       const team &t, int columns) {
    int group = t.rank;
    if (group >= DROP_WORDS(columns) / 4) return;
    sr_u32x4 draw = drop_draw(d.site, (uint32_t)d.position[row], (uint32_t)group, d.uid[owner], 0,
                              d.epoch[owner]);
    for (int w = 0; w < 4; w++) words[drop_word_at(group >> 2, w, group & 3)] = draw.w[w];
}

/* v[i] = kept ? v[i] scale : 0, for the run at `column`, a multiple of 8. */
DEV void drop_apply(float (&v)[EIGHT], shared<uint32_t> words, const drop_rows &d, int column) {
    vec16 w = load16(words, (size_t)drop_word_at(column >> 6, column >> 4 & 3, 0));
    int shift = (column >> 3 & 1) * 16;
    for (int i = 0; i < EIGHT; i++) {
        uint32_t byte = w.w[i >> 1] >> (shift + (i & 1) * 8) & 255u;
        v[i] = byte < d.site.keep ? v[i] * d.site.scale : 0.0f;
    }
}

#endif

/* drop.cuh - dropout: the functions of core/base/rng.h for kernels, and for rows.
 *
 * A dropout decision depends on the seed, the sequence, and the row and column inside it, so every
 * device gets the same mask.  One draw decides the 16 columns of one group: sr_drop_group() and
 * sr_drop_byte().
 *
 * It decides them in pairs eight apart, but a thread of a row-wise kernel owns eight consecutive
 * ones.  So a team draws the words of its row into shared memory, one call for every 16 columns,
 * and each thread reads the 16 bytes that decide its run: words of the four groups of a block of 64
 * columns at [block][word][group].  The words of blocks 2 apart are rotated so that the writes of a
 * warp meet no bank twice.
 */
#pragma once

#include "core/base/rng.h"
#include "core/tensor/layout_on.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/prim.cuh"
#include "kernels/cuda/team.cuh"

/* ---- one decision ---------------------------------------------------------------------------- */

/* A site of dropout, as a kernel argument. */
struct drop_site {
    uint64_t seed;
    uint32_t keep;  /* of 256 */
    uint32_t third; /* purpose << 24 | layer << 12 */
    float scale;    /* 256 / keep */
};

/* The 16 decisions of a group of columns in a row of a sequence. */
DEV sr_u32x4 drop_draw(const drop_site &site, uint32_t row, uint32_t group, uint32_t uid,
                       uint32_t head, uint32_t epoch) {
    sr_u32x4 c;
    c.w[0] = (row & 0xFFFFu) | group << 16;
    c.w[1] = uid;
    c.w[2] = site.third | (head & 0xFFFu);
    c.w[3] = epoch;
    return sr_philox(c, site.seed, SR_ROUNDS_DROPOUT);
}

/* sr_drop_byte(), with the word selected: an array of registers cannot be indexed. */
DEV uint32_t drop_byte(const sr_u32x4 &draw, uint32_t col) {
    const uint32_t low = col & 16 ? draw.w[1] : draw.w[0], high = col & 16 ? draw.w[3] : draw.w[2];
    sr_u32x4 one;
    one.w[0] = col & 32 ? high : low;
    return sr_drop_byte(one, col & 15);
}

DEV bool drop_keeps(const drop_site &site, const sr_u32x4 &draw, uint32_t col) {
    return drop_byte(draw, col) < site.keep;
}

/* ---- rows ------------------------------------------------------------------------------------ */

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

/* y (T, H) = dropout(x), of f32 or bf16; slack becomes zero. */
sr_status dropped_rows(global<float> y, const char *op, const sr_tensor *x, const drop_rows &drop);

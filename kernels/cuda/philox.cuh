/* philox.cuh - keyed decisions on the device: the functions of core/base/rng.h, for kernels.
 *
 * A dropout decision depends on the seed, the sequence, and the row and column inside it, so every
 * device gets the same mask.  One draw decides the 16 columns of one group: sr_drop_group() and
 * sr_drop_byte().
 */
#ifndef SR_CUDA_PHILOX_CUH
#define SR_CUDA_PHILOX_CUH

#include "core/base/rng.h"
#include "kernels/cuda/prim.cuh"

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

#endif

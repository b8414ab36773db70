/* random.cu - keyed random tensors.
 *
 * Traffic   writes y.
 * Work      a Philox call per thread and four elements; normals in f64, as on the cpu.
 */
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/philox.cuh"

namespace {

struct source {
    int kind;
    uint64_t seed;
    uint32_t uid, purpose, epoch;
    double a, b;
};

} // namespace

DEV sr_u32x4 draw(const source &s, int64_t block, uint32_t attempt) {
    sr_u32x4 counter = {{(uint32_t)block, s.uid, s.purpose << 24 | (uint32_t)(block >> 32),
                         s.epoch + (attempt << 24)}};
    return sr_philox(counter, s.seed, SR_ROUNDS_DATA);
}

/* Element `which` of a block's two Box-Muller pairs. */
DEV double normal(const sr_u32x4 &w, int which) {
    bool second = which >= 2;
    double u = sr_unit(second ? w.w[2] : w.w[0]);
    double angle = 6.283185307179586 * (double)sr_unit(second ? w.w[3] : w.w[1]);
    double radius = math_sqrt(-2.0 * math_log(1.0 - u));
    return radius * (which & 1 ? math_sin(angle) : math_cos(angle));
}

DEV float draw_element(const source &s, int64_t block, const sr_u32x4 &w, int which) {
    if (s.kind == SR_UNIFORM) {
        uint32_t word = which == 0 ? w.w[0] : which == 1 ? w.w[1] : which == 2 ? w.w[2] : w.w[3];
        return (float)exact_add(s.a, exact_mul(s.b - s.a, (double)sr_unit(word)));
    }
    double z = normal(w, which);
    for (uint32_t attempt = 1; s.kind == SR_TRUNCATED_NORMAL && math_abs(z) > 2.0; attempt++)
        z = normal(draw(s, block, attempt), which);
    return (float)exact_add(s.a, exact_mul(s.b, z));
}

KERNEL(MAP_THREADS, 2) void random_blocks(walk<1> w, operand y, source s) {
    int64_t step = (int64_t)blocks_x() * threads();
    for (int64_t b = (int64_t)block_x() * threads() + thread(); 4 * b < w.count; b += step) {
        sr_u32x4 words = draw(s, b, 0);
        for (int k = 0; k < 4 && 4 * b + k < w.count; k++) {
            int64_t at[1];
            locate(at, w, 4 * b + k);
            store_as(y, at[0], draw_element(s, b, words, k));
        }
    }
}

sr_status gpu_random(sr_tensor *y, sr_random kind, uint64_t seed, sr_purpose purpose, uint32_t uid,
                     uint32_t epoch, double a, double b) {
    const sr_tensor *const t[] = {y};
    walk<1> w = walk_over(t, 0, y->ndim);
    SR_TRY(need_no_f64("random", t, 1));
    if (w.count == 0) return SR_OK;
    source s = {(int)kind, seed, uid, (uint32_t)purpose, epoch, a, b};
    return launch(gpu_of(y), "random", random_blocks, dim(map_grid((w.count + 3) / 4)), MAP_THREADS,
                  0, w, operand_of(y), s);
}

/* random.cu - keyed random tensors, and dropout of the rows of a layout; slack becomes zero.
 *
 * Shapes    dropout: x, y (T, H) f32 or bf16
 * Traffic   random writes y; dropout reads x and writes y, 4 T H bytes in bf16.
 * Work      random: a Philox call per thread and four elements; normals in f64, as on the cpu.
 * Grid      dropout: a team of warps for each row (norm.cuh).
 */
#include "kernels/cuda/drop.cuh"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/norm.cuh"

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

/* ---- dropout --------------------------------------------------------------------------------- */

namespace {

template <class T, class D> struct dropout_job {
    global<D> y;
    global<const T> x;
    drop_rows drop;
    int rows, columns, warps;
};

} // namespace

template <class T, class D, bool VECTOR, int RUNS>
KERNEL(TEAM_THREADS, RUNS == 1 ? 2 : 1)
void dropout_rows(dropout_job<T, D> a) {
    team t = team_of(a.warps);
    int each = DROP_WORDS(a.columns), row = block_x() * t.count + t.index;
    shared<uint32_t> words = shared_at<uint32_t>(0, t.count * each) + t.index * each;
    int owner = row < a.rows ? a.drop.owner[row] : -1;
    float v[RUNS][EIGHT];
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = owner >= 0 ? a.columns - column : 0;
        read8<VECTOR>(v[k], a.x, (size_t)row * a.columns + column, left);
    }
    if (drops(a.drop) && owner >= 0) drop_draw_row(words, a.drop, row, owner, t, a.columns);
    if (drops(a.drop)) barrier();
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = row < a.rows ? a.columns - column : 0;
        if (left <= 0) continue;
        if (drops(a.drop) && owner >= 0) drop_apply(v[k], words, a.drop, column);
        write8<VECTOR>(a.y, (size_t)row * a.columns + column, v[k], left);
    }
}

template <class T, class D, bool VECTOR, int RUNS>
static sr_status launch_dropout(gpu *g, const char *op, const dropout_job<T, D> &a,
                                const norm_shape &s) {
    return launch(g, op, dropout_rows<T, D, VECTOR, RUNS>, dim(ceil_div(a.rows, s.teams)),
                  s.threads, s.words_bytes, a);
}

template <class T, class D>
static sr_status dropout(global<D> y, const char *op, const sr_tensor *x, const drop_rows &drop) {
    int64_t columns = x->shape[1];
    norm_shape s = {};
    SR_TRY(norm_shape_of(&s, op, columns,
                         in_vectors(raw(y), columns) && in_vectors(sr_tensor_data(x), columns)));
    dropout_job<T, D> a = {y, in<T>(x), drop, (int)x->shape[0], (int)columns, s.warps};
    return s.fast ? launch_dropout<T, D, true, 1>(gpu_of(x), op, a, s)
                  : launch_dropout<T, D, false, NORM_RUNS>(gpu_of(x), op, a, s);
}

sr_status dropped_rows(global<float> y, const char *op, const sr_tensor *x, const drop_rows &drop) {
    return (x->dtype == SR_BF16 ? dropout<bf16, float> : dropout<float, float>)(y, op, x, drop);
}

sr_status gpu_dropout(sr_tensor *y, const sr_tensor *x, const sr_layout *layout, sr_dropout drop) {
    drop_rows d;
    SR_TRY(drop_rows_of(&d, layout, drop, y->storage->device));
    if (x->dtype == SR_BF16) return dropout<bf16>(out<bf16>(y), "dropout", x, d);
    return dropout<float>(out<float>(y), "dropout", x, d);
}

/* dropout.cu - dropout of the rows of a layout; slack becomes zero.
 *
 * Shapes    x, y (T, H) f32 or bf16
 * Traffic   reads x, writes y: 4 T H bytes in bf16.
 * Grid      a team of warps for each row (norm.cuh).
 */
#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/norm.cuh"

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

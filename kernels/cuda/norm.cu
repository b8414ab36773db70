/* norm.cu - residual add, dropout and layer or RMS norm in one pass over each row.
 *
 * Shapes    x, residual, sum, y (T, H) f32 or bf16, gamma, beta (H), mean, rstd (T) f32
 * Traffic   forward reads x and residual, writes sum and y: 8 T H bytes in bf16; backward reads dy
 *           and sum, writes dx and dresidual: as much.  T = 16384, H = 768: 34 us at 3.0 TB/s.
 * Grid      a team of warps for each row, 16 bytes per thread and operand; forward in blocks of 256
 *           threads, as others load rows while one waits at its barriers.
 * Numerics  f32; mean and rstd are those of the sum before it is rounded; two-pass variance; the
 *           mask is drawn again in the backward pass.
 */
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/norm.cuh"

namespace {

template <class T> struct norm_forward {
    global<T> y, sum;                /* sum may be NULL */
    global<float> mean, rstd;        /* mean is NULL for an RMS norm */
    global<const T> x, residual;     /* residual may be NULL */
    global<const float> gamma, beta; /* beta may be NULL */
    drop_rows drop;
    size_t rows;
    int columns, warps;
    float eps;
};

} // namespace

/* v = dropout(x) + residual, stored in `sum`. */
template <bool VECTOR, class T, int RUNS>
DEV void norm_read(float (&v)[RUNS][EIGHT], const norm_forward<T> &a, const team &t, size_t row,
                   shared<uint32_t> words) {
    float r[RUNS][EIGHT];
    bool inside = row < a.rows;
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = inside ? a.columns - column : 0;
        size_t at = row * a.columns + column;
        read8<VECTOR>(v[k], a.x, at, left);
        zero8(r[k]);
        if (a.residual) read8<VECTOR>(r[k], a.residual, at, left);
    }
    int owner = inside && drops(a.drop) ? a.drop.owner[row] : -1;
    if (owner >= 0) drop_draw_row(words, a.drop, row, owner, t, a.columns);
    if (drops(a.drop)) barrier();
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = inside ? a.columns - column : 0;
        if (left <= 0) continue;
        if (owner >= 0) drop_apply(v[k], words, a.drop, column);
        for (int i = 0; i < EIGHT; i++) v[k][i] += r[k][i];
        if (a.sum) write8<VECTOR>(a.sum, row * a.columns + column, v[k], left);
    }
}

template <class T, bool VECTOR, int RUNS>
KERNEL(TEAM_THREADS, RUNS == 1 ? 2 : 1)
void norm_rows(norm_forward<T> a) {
    team t = team_of(a.warps);
    shared<float> room = shared_at<float>(0, NORM_ROOM);
    int each = DROP_WORDS(a.columns);
    shared<uint32_t> words = shared_at<uint32_t>(NORM_ROOM_BYTES, t.count * each);
    size_t row = (size_t)block_x() * t.count + t.index;
    float v[RUNS][EIGHT];
    norm_read<VECTOR>(v, a, t, row, words + t.index * each);
    row_stats s = norm_stats(v, t, a.columns, a.eps, !a.mean, room);
    if (row >= a.rows) return;
    if (t.rank == 0) {
        if (a.mean) a.mean[row] = s.mean;
        a.rstd[row] = s.rstd;
    }
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = a.columns - column;
        if (left <= 0) continue;
        norm_apply<VECTOR>(v[k], s, a.gamma, a.beta, column, left);
        write8<VECTOR>(a.y, row * a.columns + column, v[k], left);
    }
}

template <class T, bool VECTOR, int RUNS>
static sr_status launch_norm(gpu *g, const norm_forward<T> &a, const norm_shape &s) {
    return launch(g, "residual_norm", norm_rows<T, VECTOR, RUNS>, dim(ceil_div(a.rows, s.teams)),
                  s.threads, NORM_ROOM_BYTES + s.words_bytes, a);
}

template <class T>
static sr_status norm(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                      const sr_tensor *x, const sr_tensor *residual, const sr_tensor *gamma,
                      const sr_tensor *beta, const drop_rows &drop, double eps) {
    const sr_tensor *all[] = {y, sum, x, residual, gamma, beta};
    norm_shape s = {};
    SR_TRY(norm_shape_of(&s, "residual_norm", x->shape[1], all_in_vectors(all, 6, x->shape[1]), 8));
    norm_forward<T> a = {out<T>(y), out<T>(sum),         out<float>(mean), out<float>(rstd),
                         in<T>(x),  in<T>(residual),     in<float>(gamma), in<float>(beta),
                         drop,      (size_t)x->shape[0], (int)x->shape[1], s.warps,
                         (float)eps};
    return s.fast ? launch_norm<T, true, 1>(gpu_of(y), a, s)
                  : launch_norm<T, false, NORM_RUNS>(gpu_of(y), a, s);
}

sr_status gpu_residual_norm(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                            const sr_tensor *x, const sr_tensor *residual, const sr_tensor *gamma,
                            const sr_tensor *beta, const sr_layout *layout, double eps,
                            sr_dropout drop) {
    drop_rows d;
    SR_TRY(drop_rows_of(&d, layout, drop, y->storage->device));
    return (x->dtype == SR_BF16 ? norm<bf16> : norm<float>)(y, sum, mean, rstd, x, residual, gamma,
                                                            beta, d, eps);
}

template <class T>
static sr_status norm_backward(sr_tensor *dx, sr_tensor *dresidual, sr_tensor *dgamma,
                               sr_tensor *dbeta, sr_tensor *dbias, const sr_tensor *dy,
                               const sr_tensor *dsum, const sr_tensor *sum, const sr_tensor *gamma,
                               const sr_tensor *mean, const sr_tensor *rstd,
                               const drop_rows &drop) {
    const sr_tensor *all[] = {dx, dresidual, dy, dsum, sum, gamma};
    norm_back<T, T> a = {};
    a.dx = out<T>(dx), a.dsum = out<T>(dresidual);
    a.dy = in<T>(dy), a.more = in<T>(dsum), a.sum = in<T>(sum);
    a.gamma = in<float>(gamma), a.mean = in<float>(mean), a.rstd = in<float>(rstd);
    a.drop = drop;
    a.rows = (int)dy->shape[0], a.columns = (int)dy->shape[1];
    return run_norm_back<T, T, false>(gpu_of(dy), "residual_norm", a, dgamma, dbeta, dbias,
                                      all_in_vectors(all, 6, dy->shape[1]));
}

sr_status gpu_residual_norm_backward(sr_tensor *dx, sr_tensor *dresidual, sr_tensor *dgamma,
                                     sr_tensor *dbeta, sr_tensor *dbias, const sr_tensor *dy,
                                     const sr_tensor *dsum, const sr_tensor *sum,
                                     const sr_tensor *gamma, const sr_tensor *mean,
                                     const sr_tensor *rstd, const sr_layout *layout,
                                     sr_dropout drop) {
    drop_rows d;
    SR_TRY(drop_rows_of(&d, layout, drop, dy->storage->device));
    return (dy->dtype == SR_BF16 ? norm_backward<bf16>
                                 : norm_backward<float>)(dx, dresidual, dgamma, dbeta, dbias, dy,
                                                         dsum, sum, gamma, mean, rstd, d);
}

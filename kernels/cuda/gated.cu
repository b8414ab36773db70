/* gated.cu - one half of the columns, activated, times the other half.
 *
 * Shapes    x, dx (T, 2 F), y, dy (T, F) f32 or bf16
 * Traffic   forward reads x and writes y: 6 T F bytes in bf16; backward reads dy and x, writes dx:
 *           10 T F bytes.
 * Grid      a thread for eight columns of y.
 * Numerics  f32, rounded once.
 */
#include "kernels/cuda/sums.h"
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/functions.cuh"
#include "kernels/cuda/gpu.h"

namespace {

template <class T> struct gated_job {
    global<T> y, dx;       /* one of them */
    global<const T> x, dy; /* dy in backward */
    size_t rows;
    int columns, runs;   /* of y; threads of a row */
    int activated, gate; /* first column of each half */
    int act;
    bool keeps_input;
};

} // namespace

/* The eight columns of a thread: row, first column; false beyond the end. */
template <class T> DEV bool gated_place(const gated_job<T> &a, size_t &row, int &column) {
    size_t i = (size_t)block_x() * threads() + thread();
    row = i / a.runs;
    column = (int)(i - row * a.runs) * EIGHT;
    return row < a.rows;
}

template <class T, bool VECTOR> KERNEL(256, 4) void gated_rows(gated_job<T> a) {
    size_t row;
    int column;
    if (!gated_place(a, row, column)) return;
    int left = a.columns - column;
    float v[EIGHT], g[EIGHT];
    read8<VECTOR>(v, a.x, row * 2 * a.columns + a.activated + column, left);
    read8<VECTOR>(g, a.x, row * 2 * a.columns + a.gate + column, left);
    for (int i = 0; i < EIGHT; i++) v[i] = act_value<T>(a.act, v[i]) * g[i];
    write8<VECTOR>(a.y, row * a.columns + column, v, left);
}

template <class T, bool VECTOR> KERNEL(256, 2) void gated_back_rows(gated_job<T> a) {
    size_t row;
    int column;
    if (!gated_place(a, row, column)) return;
    int left = a.columns - column;
    size_t first = row * 2 * a.columns + a.activated + column;
    size_t second = row * 2 * a.columns + a.gate + column;
    float v[EIGHT], g[EIGHT], d[EIGHT];
    read8<VECTOR>(v, a.x, first, left);
    read8<VECTOR>(g, a.x, second, left);
    read8<VECTOR>(d, a.dy, row * a.columns + column, left);
    for (int i = 0; i < EIGHT; i++) {
        float in = v[i], value = act_value<T>(a.act, in);
        v[i] = act_derivative<T>(a.act, d[i] * g[i], a.keeps_input ? in : value);
        g[i] = d[i] * value;
    }
    write8<VECTOR>(a.dx, first, v, left);
    write8<VECTOR>(a.dx, second, g, left);
}

/* Forward with y, backward with dx and dy; the others are NULL. */
template <class T>
static sr_status gated(sr_tensor *y, sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x,
                       sr_act act, bool gate_first) {
    gpu *g = gpu_of(x);
    int64_t columns = x->shape[1] / 2;
    const sr_tensor *all[] = {y, dx, dy, x};
    gated_job<T> a = {};
    a.y = out<T>(y), a.dx = out<T>(dx), a.x = in<T>(x), a.dy = in<T>(dy);
    a.rows = (size_t)x->shape[0], a.columns = (int)columns;
    a.runs = (int)ceil_div(columns, EIGHT);
    a.activated = gate_first ? a.columns : 0, a.gate = gate_first ? 0 : a.columns;
    a.act = act, a.keeps_input = sr_act_keeps_input(act);
    bool vectors = all_in_vectors(all, 4, columns);
    dim grid(ceil_div(a.rows * a.runs, 256));
    if (y != nullptr)
        return vectors ? launch(g, "gated", gated_rows<T, true>, grid, 256, 0, a)
                       : launch(g, "gated", gated_rows<T, false>, grid, 256, 0, a);
    return vectors ? launch(g, "gated", gated_back_rows<T, true>, grid, 256, 0, a)
                   : launch(g, "gated", gated_back_rows<T, false>, grid, 256, 0, a);
}

sr_status gpu_gated(sr_tensor *y, const sr_tensor *x, sr_act act, bool gate_first) {
    return (x->dtype == SR_BF16 ? gated<bf16> : gated<float>)(y, nullptr, nullptr, x, act,
                                                              gate_first);
}

sr_status gpu_gated_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x, sr_act act,
                             bool gate_first) {
    if (dx == nullptr) return SR_OK;
    return (x->dtype == SR_BF16 ? gated<bf16> : gated<float>)(nullptr, dx, dy, x, act, gate_first);
}

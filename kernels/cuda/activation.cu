/* activation.cu - bias and activation of a linear layer, and back, with the bias gradient.
 *
 * Shapes    x, y, pre, dy, dpre (T, F) f32 or bf16, b (F) of the same, db (F) f32
 * Traffic   forward reads x and writes y (and pre, when there is a bias to add): 4 T F bytes in
 *           bf16; backward reads dy and pre, writes dpre: 6 T F bytes, the column sums in the same
 *           pass.  T = 16384, F = 3072: 67 and 101 us at 3.0 TB/s.
 * Grid      a warp for 256 columns of a row, 16 bytes per lane; a block walks over the rows of its
 *           stripe, two rows of a warp at once in the forward pass.  Sums of a stripe are combined
 *           warp by warp, stripes by sums.cu, in order.
 * Numerics  f32; the sums are those of dpre before it is rounded.
 */
#include "kernels/cuda/activation.h"
#include "kernels/cuda/sums.h"
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/functions.cuh"

enum { ACT_WARPS = 8, ACT_THREADS = ACT_WARPS * 32, ACT_COLUMNS = 32 * EIGHT };
enum { ACT_ROWS = 64, ACT_PARTS = 128 }; /* rows of a stripe at least, stripes at most */
enum { ACT_AHEAD = 2 };                  /* rows that a thread of the forward pass reads at once */
enum { ACT_ANY = -1 };                   /* the activation is an argument */

/* The activation, a constant if ACT is. */
template <int ACT> DEV int act_of(int any) {
    return ACT == ACT_ANY ? any : ACT;
}

/* A pointer for a kernel, or NULL. */
template <class T> static global<T> some(T *data, int64_t count) {
    if (data == nullptr) return nullptr;
    return gpu_pointer(data, (size_t)count);
}

/* ---- forward --------------------------------------------------------------------------------- */

namespace {

template <class T> struct act_forward {
    global<T> y, pre;     /* pre may be null */
    global<const T> x, b; /* b may be null */
    size_t rows;
    int columns, act;
};

} // namespace

template <class T, int ACT, bool VECTOR> KERNEL(ACT_THREADS, 4) void act_rows(act_forward<T> a) {
    int column = block_x() * ACT_COLUMNS + lane() * EIGHT, left = a.columns - column;
    if (left <= 0) return;
    float b[EIGHT], v[ACT_AHEAD][EIGHT];
    const size_t step = (size_t)blocks_y() * ACT_WARPS;
    zero8(b);
    if (a.b) read8<VECTOR>(b, a.b, (size_t)column, left);
    for (size_t row = (size_t)block_y() * ACT_WARPS + warp(); row < a.rows;
         row += ACT_AHEAD * step) {
        for (int k = 0; k < ACT_AHEAD; k++)
            read8<VECTOR>(v[k], a.x, (row + k * step) * a.columns + column,
                          row + k * step < a.rows ? left : 0);
        for (int k = 0; k < ACT_AHEAD; k++) {
            const size_t at = (row + k * step) * a.columns + column;
            if (row + k * step >= a.rows) break;
            for (int i = 0; i < EIGHT; i++) v[k][i] += b[i];
            if (a.pre) write8<VECTOR>(a.pre, at, v[k], left);
            for (int i = 0; i < EIGHT; i++) v[k][i] = act_value<T>(act_of<ACT>(a.act), v[k][i]);
            write8<VECTOR>(a.y, at, v[k], left);
        }
    }
}

template <class T, int ACT, bool VECTOR>
static sr_status launch_act(gpu *g, const char *op, const act_forward<T> &a) {
    size_t stripes = ceil_div(a.rows, 4 * ACT_WARPS);
    dim grid(ceil_div(a.columns, ACT_COLUMNS), stripes < 65535 ? stripes : 65535);
    return launch(g, op, act_rows<T, ACT, VECTOR>, grid, ACT_THREADS, 0, a);
}

template <class T>
static sr_status forward(gpu *g, const char *op, const act_forward<T> &a, bool vectors) {
    if (!vectors) return launch_act<T, ACT_ANY, false>(g, op, a);
    switch (a.act) {
    case SR_ACT_GELU:
        return launch_act<T, SR_ACT_GELU, true>(g, op, a);
    case SR_ACT_GELU_TANH:
        return launch_act<T, SR_ACT_GELU_TANH, true>(g, op, a);
    case SR_ACT_RELU:
        return launch_act<T, SR_ACT_RELU, true>(g, op, a);
    default:
        return launch_act<T, ACT_ANY, true>(g, op, a);
    }
}

template <class T>
static sr_status bias_act_of(gpu *g, const char *op, void *y, void *pre, const void *x,
                             const void *b, int64_t rows, int64_t columns, sr_act act) {
    int64_t count = rows * columns;
    act_forward<T> a = {some((T *)y, count),
                        some((T *)pre, count),
                        some((const T *)x, count),
                        some((const T *)b, columns),
                        (size_t)rows,
                        (int)columns,
                        act};
    return forward(g, op, a,
                   in_vectors(y, columns) && in_vectors(pre, columns) && in_vectors(x, columns) &&
                       in_vectors(b, columns));
}

sr_status bias_act(gpu *g, const char *op, void *y, void *pre, const void *x, const void *b,
                   sr_dtype dtype, int64_t rows, int64_t columns, sr_act act) {
    return (dtype == SR_BF16 ? bias_act_of<bf16> : bias_act_of<float>)(g, op, y, pre, x, b, rows,
                                                                       columns, act);
}

/* ---- backward -------------------------------------------------------------------------------- */

namespace {

template <class T> struct act_back {
    global<T> dpre;           /* or null */
    global<float> partial;    /* (stripes, columns), or null */
    global<const T> dy, kept; /* saved: pre of a GELU, y of the others; null without activation */
    size_t rows, stride;      /* elements between rows of dy */
    int columns, act;
};

} // namespace

/* The sums of the warps, in order, into the stripe's row of `partial`. */
DEV void act_store_part(global<float> partial, const float (&sum)[EIGHT], int columns) {
    shared<float> room = shared_at<float>(0, ACT_THREADS * EIGHT);
    for (int i = 0; i < EIGHT; i++) room[(warp() * EIGHT + i) * 32 + lane()] = sum[i];
    barrier();
    int i = thread() >> 5, column = block_x() * ACT_COLUMNS + lane() * EIGHT + i;
    if (column >= columns) return;
    float total = 0.0f;
    for (int w = 0; w < ACT_WARPS; w++) total += room[(w * EIGHT + i) * 32 + lane()];
    partial[(size_t)block_y() * columns + column] = total;
}

template <class T, int ACT, bool VECTOR> KERNEL(ACT_THREADS, 4) void act_back_rows(act_back<T> a) {
    int column = block_x() * ACT_COLUMNS + lane() * EIGHT, left = a.columns - column;
    float sum[EIGHT] = {}, d[EIGHT], kept[EIGHT];
    for (size_t row = (size_t)block_y() * ACT_WARPS + warp(); left > 0 && row < a.rows;
         row += (size_t)blocks_y() * ACT_WARPS) {
        size_t at = row * a.columns + column;
        read8<VECTOR>(d, a.dy, row * a.stride + column, left);
        bool derived = ACT != SR_ACT_NONE && a.kept;
        if (derived) read8<VECTOR>(kept, a.kept, at, left);
        for (int i = 0; i < EIGHT; i++) {
            if (derived) d[i] = act_derivative<T>(act_of<ACT>(a.act), d[i], kept[i]);
            sum[i] += d[i];
        }
        if (a.dpre) write8<VECTOR>(a.dpre, at, d, left);
    }
    if (a.partial) act_store_part(a.partial, sum, a.columns);
}

template <class T, int ACT, bool VECTOR>
static sr_status launch_back(gpu *g, const char *op, const act_back<T> &a, int stripes) {
    return launch(g, op, act_back_rows<T, ACT, VECTOR>,
                  dim(ceil_div(a.columns, ACT_COLUMNS), stripes), ACT_THREADS,
                  a.partial ? ACT_THREADS * EIGHT * sizeof(float) : 0, a);
}

template <class T>
static sr_status backward(gpu *g, const char *op, const act_back<T> &a, int stripes, bool vectors) {
    if (!vectors) return launch_back<T, ACT_ANY, false>(g, op, a, stripes);
    switch (a.act) {
    case SR_ACT_NONE:
        return launch_back<T, SR_ACT_NONE, true>(g, op, a, stripes);
    case SR_ACT_GELU:
        return launch_back<T, SR_ACT_GELU, true>(g, op, a, stripes);
    case SR_ACT_GELU_TANH:
        return launch_back<T, SR_ACT_GELU_TANH, true>(g, op, a, stripes);
    default:
        return launch_back<T, ACT_ANY, true>(g, op, a, stripes);
    }
}

/* Both stages; `db` is NULL when only dpre is wanted. */
template <class T>
static sr_status run_back(gpu *g, const char *op, act_back<T> a, float *db, const float *scale,
                          bool vectors) {
    if (a.rows == 0 || a.columns == 0) return SR_OK;
    int stripes = parts_of((int64_t)a.rows, ACT_ROWS, ACT_PARTS);
    global<float> partial = nullptr;
    if (db != nullptr) {
        SR_TRY(scratch(&partial, g, SCRATCH_PARTS, (size_t)stripes * a.columns));
        a.partial = partial;
    }
    SR_TRY(backward(g, op, a, stripes, vectors));
    part_sums sums = {
        {some(db, a.columns), nullptr}, partial, some(scale, 1), stripes, a.columns, a.columns};
    return add_parts(g, op, &sums);
}

template <class T>
static sr_status act_backward_of(gpu *g, const char *op, void *dpre, float *db, const void *dy,
                                 const void *kept, int64_t rows, int64_t columns, sr_act act) {
    int64_t count = rows * columns;
    act_back<T> a = {some((T *)dpre, count),
                     nullptr,
                     some((const T *)dy, count),
                     some((const T *)kept, count),
                     (size_t)rows,
                     (size_t)columns,
                     (int)columns,
                     act};
    return run_back(g, op, a, db, nullptr,
                    in_vectors(dpre, columns) && in_vectors(dy, columns) &&
                        in_vectors(kept, columns));
}

sr_status act_backward(gpu *g, const char *op, void *dpre, float *db, const void *dy,
                       const void *kept, sr_dtype dtype, int64_t rows, int64_t columns,
                       sr_act act) {
    return (dtype == SR_BF16 ? act_backward_of<bf16> : act_backward_of<float>)(g, op, dpre, db, dy,
                                                                               kept, rows, columns,
                                                                               act);
}

template <class T>
static sr_status add_columns_of(gpu *g, const char *op, float *out, const void *x,
                                const float *scale, int64_t rows, int64_t columns, int64_t stride) {
    act_back<T> a = {nullptr,      nullptr,      some((const T *)x, rows * stride),
                     nullptr,      (size_t)rows, (size_t)stride,
                     (int)columns, SR_ACT_NONE};
    return run_back(g, op, a, out, scale, in_vectors(x, stride));
}

sr_status add_columns(gpu *g, const char *op, float *out, const void *x, const float *scale,
                      sr_dtype dtype, int64_t rows, int64_t columns, int64_t stride) {
    return (dtype == SR_BF16 ? add_columns_of<bf16> : add_columns_of<float>)(g, op, out, x, scale,
                                                                             rows, columns, stride);
}

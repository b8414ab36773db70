/* map.cuh - y = f(x...), element by element, for tensors of any dtypes and strides.
 *
 * A function is a struct with `inputs`, how many it takes, `most`, how many elements a thread may
 * take at once (4 or 8), and float operator()(const float (&)[N]), or int32_t of int32_t, or
 * double of double where it only converts.
 *
 * Traffic   reads each input and writes y once.  Contiguous and scalar operands: 16 bytes per
 *           thread and access; else one element.
 * Grid      a thread per group of elements, in strides of the grid.
 */
#ifndef SR_CUDA_MAP_CUH
#define SR_CUDA_MAP_CUH

#include "kernels/cuda/strided.cuh"

enum { MAP_THREADS = 256, MAP_BLOCKS = 8192 };

template <int N> struct operands { operand t[N]; /* y, then the inputs */ };

template <class F, class V>
KERNEL(MAP_THREADS, 4)
void map_strided(walk<F::inputs + 1> w, operands<F::inputs + 1> all, F f) {
    int64_t step = (int64_t)blocks_x() * threads();
    for (int64_t i = (int64_t)block_x() * threads() + thread(); i < w.count; i += step) {
        int64_t at[F::inputs + 1];
        V x[F::inputs + 1];
        locate(at, w, i);
        for (int k = 0; k < F::inputs; k++) x[k] = load_as<V>(all.t[k + 1], at[k + 1]);
        store_as(all.t[0], at[0], f(x));
    }
}

/* Bit k of `scalars`: input k is one element for all. */
template <class F, int E>
KERNEL(MAP_THREADS, 4)
void map_flat(int64_t count, operands<F::inputs + 1> all, unsigned scalars, F f) {
    int64_t first = (int64_t)block_x() * threads() + thread();
    int64_t groups = count / E, step = (int64_t)blocks_x() * threads();
    for (int64_t g = first; g < groups; g += step) {
        float in[F::inputs + 1][E], out[E];
        for (int k = 0; k < F::inputs; k++) {
            if (scalars >> k & 1) {
                float one = load_as<float>(all.t[k + 1], 0);
                for (int e = 0; e < E; e++) in[k][e] = one;
            } else {
                load_group(in[k], all.t[k + 1], g * E);
            }
        }
        for (int e = 0; e < E; e++) {
            float x[F::inputs + 1];
            for (int k = 0; k < F::inputs; k++) x[k] = in[k][e];
            out[e] = f(x);
        }
        store_group(all.t[0], g * E, out);
    }
    int64_t i = groups * E + first; /* the last elements, fewer than a group */
    if (i < count) {
        float x[F::inputs + 1];
        for (int k = 0; k < F::inputs; k++)
            x[k] = load_as<float>(all.t[k + 1], scalars >> k & 1 ? 0 : i);
        store_as(all.t[0], i, f(x));
    }
}

static inline size_t map_grid(int64_t items) {
    int64_t blocks = (items + MAP_THREADS - 1) / MAP_THREADS, most = MAP_BLOCKS;
    return (size_t)(blocks < most ? blocks : most);
}

/* True if groups of E elements of t are aligned as their accesses need. */
static inline bool is_aligned(const sr_tensor *t, int E) {
    size_t bytes = (size_t)E * sr_dtype_size(t->dtype);
    return (uintptr_t)sr_tensor_data(t) % (bytes < 16 ? bytes : 16) == 0;
}

/* How many elements a thread may take at once, at most `group`; 1 where some operand is strided. */
template <int N>
int group_size(unsigned *scalars, const walk<N> &w, const sr_tensor *const (&t)[N], int group) {
    *scalars = 0;
    if (w.dims > 1) return 1;
    for (int k = 0; k < N; k++) {
        bool one = k > 0 && w.dims == 1 && w.stride[k][0] == 0;
        if (one)
            *scalars |= 1u << (k - 1);
        else if (!is_flat(w, k))
            return 1;
        else if (sr_dtype_size(t[k]->dtype) > 2)
            group = 4;
    }
    for (int k = 0; k < N; k++)
        if (!is_aligned(t[k], group) && (k == 0 || !(*scalars >> (k - 1) & 1))) return 1;
    return group;
}

/* SR_EINVAL naming `op` for f64, which the device only stores. */
static inline sr_status need_no_f64(const char *op, const sr_tensor *const *t, int count) {
    for (int k = 0; k < count; k++)
        if (t[k] != NULL && t[k]->dtype == SR_F64)
            return sr_fail(SR_EINVAL,
                           "%s: this device computes in f32, not in f64; convert the tensor with "
                           ":to(\"f32\"), or use the ref device for f64",
                           op);
    return SR_OK;
}

template <class F> struct mapping {
    static const int N = F::inputs + 1;
    walk<N> w;
    operands<N> all;
    const sr_tensor *t[N];
};

template <class F> mapping<F> map_of(sr_tensor *y, const sr_tensor *const *x) {
    mapping<F> m;
    m.t[0] = y;
    m.all.t[0] = operand_of(y);
    for (int k = 0; k < F::inputs; k++) {
        m.t[k + 1] = x[k];
        m.all.t[k + 1] = operand_of(x[k]);
    }
    m.w = walk_over(m.t, 0, y->ndim);
    return m;
}

/* Runs f one element at a time, in V. */
template <class V, class F>
sr_status map_each(const char *op, sr_tensor *y, const sr_tensor *const *x, F f) {
    mapping<F> m = map_of<F>(y, x);
    if (m.w.count == 0) return SR_OK;
    return launch(gpu_of(y), op, map_strided<F, V>, dim(map_grid(m.w.count)), MAP_THREADS, 0, m.w,
                  m.all, f);
}

/* Runs f in f32, in groups where the operands allow. */
template <class F>
sr_status map_real(const char *op, sr_tensor *y, const sr_tensor *const *x, F f) {
    mapping<F> m = map_of<F>(y, x);
    unsigned scalars;
    if (m.w.count == 0) return SR_OK;
    SR_TRY(need_no_f64(op, m.t, m.N));
    int group = group_size(&scalars, m.w, m.t, F::most);
    if (group == 1) return map_each<float>(op, y, x, f);
    dim grid(map_grid((m.w.count + group - 1) / group));
    if (group == 8)
        return launch(gpu_of(y), op, map_flat<F, F::most>, grid, MAP_THREADS, 0, m.w.count, m.all,
                      scalars, f);
    return launch(gpu_of(y), op, map_flat<F, 4>, grid, MAP_THREADS, 0, m.w.count, m.all, scalars,
                  f);
}

static inline bool is_whole(const sr_tensor *t) {
    return t->dtype == SR_I32 || t->dtype == SR_BOOL;
}

#endif

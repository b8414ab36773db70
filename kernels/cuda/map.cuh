/* map.cuh - elements of tensors of any dtypes and strides, and y = f(x...), element by element.
 *
 * Offsets are 64-bit.  Divisions of numbers below 2^32 take the 32-bit path, so that large tensors
 * are handled correctly and small ones are not slower for it.
 *
 * A function is a struct with `inputs`, how many it takes, `most`, how many elements a thread may
 * take at once (4 or 8), and float operator()(const float (&)[N]), or int32_t of int32_t, or
 * double of double where it only converts.
 *
 * Traffic   reads each input and writes y once.  Contiguous and scalar operands: 16 bytes per
 *           thread and access; else one element.
 * Grid      a thread per group of elements, in strides of the grid.
 */
#pragma once

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/prim.cuh"

/* ---- positions ------------------------------------------------------------------------------- */

/* i / size; *rest = i % size. */
DEV int64_t divide(int64_t i, int64_t size, int64_t *rest) {
    if ((uint64_t)(i | size) >> 32 == 0) {
        uint32_t a = (uint32_t)i, b = (uint32_t)size, q = a / b;
        *rest = a - q * b;
        return q;
    }
    int64_t q = i / size;
    *rest = i - q * size;
    return q;
}

/* Dimensions of a walk over N tensors at once. */
template <int N> struct walk {
    int dims;
    int64_t count; /* of elements */
    int64_t shape[SR_MAX_DIMS];
    int64_t stride[N][SR_MAX_DIMS];
};

/* at[k] = the offset of row-major element i in tensor k. */
template <int N> DEV void locate(int64_t (&at)[N], const walk<N> &w, int64_t i) {
    for (int k = 0; k < N; k++) at[k] = 0;
    for (int d = w.dims - 1; d > 0; d--) {
        int64_t here;
        i = divide(i, w.shape[d], &here);
        for (int k = 0; k < N; k++) at[k] += here * w.stride[k][d];
    }
    for (int k = 0; k < N; k++) at[k] += i * w.stride[k][0];
}

/* Adds a dimension of this size and these strides, merged with the one before it where all tensors
 * allow. */
template <int N> void add_dim(walk<N> *w, int64_t size, const int64_t (&stride)[N]) {
    w->count *= size;
    if (size == 1) return;
    int last = w->dims - 1;
    bool joins = last >= 0;
    for (int k = 0; joins && k < N; k++) joins = w->stride[k][last] == size * stride[k];
    if (!joins) {
        last = w->dims++;
        w->shape[last] = 1;
    }
    w->shape[last] *= size;
    for (int k = 0; k < N; k++) w->stride[k][last] = stride[k];
}

/* The walk over tensors of one shape, from dimension `first` to before `end`. */
template <int N> walk<N> walk_over(const sr_tensor *const (&t)[N], int first, int end) {
    walk<N> w = {};
    w.count = 1;
    for (int d = first; d < end; d++) {
        int64_t stride[N];
        for (int k = 0; k < N; k++) stride[k] = t[k]->stride[d];
        add_dim(&w, t[0]->shape[d], stride);
    }
    return w;
}

/* True if tensor k is contiguous in the walk. */
template <int N> bool is_flat(const walk<N> &w, int k) {
    return w.dims == 0 || (w.dims == 1 && w.stride[k][0] == 1);
}

/* ---- elements of any dtype ------------------------------------------------------------------- */

/* The first element of a tensor whose dtype is known at run time. */
struct operand {
    global<uint8_t> data;
    int dtype;
};

static inline operand operand_of(const sr_tensor *t) {
    return operand{gpu_pointer((uint8_t *)sr_tensor_data(t), gpu_extent(t)), (int)t->dtype};
}

/* Rounds toward zero; values out of range are clamped to int32, NaN becomes 0. */
template <class V> DEV int32_t to_whole(V x) {
    if (!(x > (V)-2147483648.0)) return x != x ? 0 : INT32_MIN;
    return x >= (V)2147483647.0 ? INT32_MAX : (int32_t)x;
}
DEV int32_t to_whole(int32_t x) {
    return x;
}

template <class V> DEV V load_as(const operand &t, int64_t i) {
    switch (t.dtype) {
    case SR_F64:
        return (V)recast<double>(t.data)[i];
    case SR_F32:
        return (V)recast<float>(t.data)[i];
    case SR_BF16:
        return (V)to_float(recast<bf16>(t.data)[i]);
    case SR_I32:
        return (V)recast<int32_t>(t.data)[i];
    default:
        return (V)(t.data[i] != 0);
    }
}

template <class V> DEV void store_as(const operand &t, int64_t i, V v) {
    switch (t.dtype) {
    case SR_F64:
        recast<double>(t.data)[i] = (double)v;
        return;
    case SR_F32:
        recast<float>(t.data)[i] = (float)v;
        return;
    case SR_BF16:
        recast<bf16>(t.data)[i] = from_float<bf16>((float)v);
        return;
    case SR_I32:
        recast<int32_t>(t.data)[i] = to_whole(v);
        return;
    default:
        t.data[i] = v != 0;
    }
}

/* ---- E elements at once, E = 4 or 8, at a multiple of E -------------------------------------- */

template <int E> DEV void unpack_bf16(float (&x)[E], const uint32_t *w) {
    for (int k = 0; k < E; k += 2) {
        x[k] = bits_float(w[k / 2] << 16);
        x[k + 1] = bits_float(w[k / 2] & 0xFFFF0000u);
    }
}

template <int E> DEV void unpack_bool(float (&x)[E], const uint32_t *w) {
    for (int k = 0; k < E; k++) x[k] = (w[k / 4] >> 8 * (k % 4) & 255u) != 0 ? 1.0f : 0.0f;
}

template <int E> DEV void load_group(float (&x)[E], const operand &t, int64_t i) {
    if (t.dtype == SR_F32 || t.dtype == SR_I32) {
        for (int k = 0; k < E; k += 4) {
            vec16 v = load16(recast<uint32_t>(t.data), i + k);
            for (int j = 0; j < 4; j++)
                x[k + j] = t.dtype == SR_F32 ? bits_float(v.w[j]) : (float)(int32_t)v.w[j];
        }
    } else if (t.dtype == SR_BF16) {
        if (E == 8)
            unpack_bf16(x, load16(recast<bf16>(t.data), i).w);
        else
            unpack_bf16(x, load8(recast<bf16>(t.data), i).w);
    } else if (E == 8) {
        unpack_bool(x, load8(t.data, i).w);
    } else {
        uint32_t four = load4(t.data, i);
        unpack_bool(x, &four);
    }
}

template <int E> DEV void store_group(const operand &t, int64_t i, const float (&x)[E]) {
    if (t.dtype == SR_F32 || t.dtype == SR_I32) {
        for (int k = 0; k < E; k += 4) {
            vec16 v;
            for (int j = 0; j < 4; j++)
                v.w[j] = t.dtype == SR_F32 ? float_bits(x[k + j]) : (uint32_t)to_whole(x[k + j]);
            store16(recast<uint32_t>(t.data), i + k, v);
        }
        return;
    }
    uint32_t w[4] = {0, 0, 0, 0};
    for (int k = 0; k < E; k++) {
        if (t.dtype == SR_BF16 && k % 2 == 0) w[k / 2] = pack2_bf16(x[k], x[k + 1]);
        if (t.dtype != SR_BF16) w[k / 4] |= (x[k] != 0.0f ? 1u : 0u) << 8 * (k % 4);
    }
    bool half = t.dtype != SR_BF16; /* one byte per element */
    if (E == 8 && !half) store16(recast<bf16>(t.data), i, vec16{{w[0], w[1], w[2], w[3]}});
    if (E == 4 && !half) store8(recast<bf16>(t.data), i, vec8{{w[0], w[1]}});
    if (E == 8 && half) store8(t.data, i, vec8{{w[0], w[1]}});
    if (E == 4 && half) store4(t.data, i, w[0]);
}

/* ---- y = f(x...) ----------------------------------------------------------------------------- */

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

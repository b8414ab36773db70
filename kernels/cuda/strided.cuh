/* strided.cuh - elements of tensors of any dtype and strides.
 *
 * Offsets are 64-bit.  Divisions of numbers below 2^32 take the 32-bit path, so that large tensors
 * are handled correctly and small ones are not slower for it.
 */
#ifndef SR_CUDA_STRIDED_CUH
#define SR_CUDA_STRIDED_CUH

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

#endif

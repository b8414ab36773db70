/* elements.cu - elementwise ops on tensors of any strides and dtypes.
 *
 * Grid      256 threads a block, one element a thread.
 */
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/gpu_ops.h"

/* Shape and strides of an operand, by value; element i of the shape in row-major order. */
struct strides {
    int ndim;
    int64_t shape[SR_MAX_DIMS], stride[SR_MAX_DIMS];
};

static strides strides_of(const sr_tensor *t) {
    strides s = {};
    s.ndim = t->ndim;
    for (int i = 0; i < t->ndim; i++) {
        s.shape[i] = t->shape[i];
        s.stride[i] = t->stride[i];
    }
    return s;
}

DEV size_t offset_of(const strides &s, size_t i) {
    size_t offset = 0;
    for (int d = s.ndim - 1; d >= 0; d--) {
        offset += i % (size_t)s.shape[d] * (size_t)s.stride[d];
        i /= (size_t)s.shape[d];
    }
    return offset;
}

DEV size_t element() {
    return (size_t)block_x() * (size_t)threads() + (size_t)thread();
}

static dim grid_for(size_t count) {
    return dim(ceil_div(count, 256));
}

/* ---- fill ------------------------------------------------------------------------------------ */

template <class T> KERNEL(256, 4) void fill_kernel(global<T> y, strides s, T value, size_t count) {
    size_t i = element();
    if (i < count) y[offset_of(s, i)] = value;
}

template <class T> static sr_status fill(sr_tensor *y, T value) {
    size_t count = (size_t)sr_tensor_elements(y);
    return launch(gpu_of(y), "fill", fill_kernel<T>, grid_for(count), 256, 0, out<T>(y),
                  strides_of(y), value, count);
}

sr_status gpu_fill(sr_tensor *y, double value) {
    unsigned char bits[8];
    sr_element_store(bits, y->dtype, 0, value);
    switch (sr_dtype_size(y->dtype)) {
    case 1:
        return fill<uint8_t>(y, bits[0]);
    case 2:
        return fill<uint16_t>(y, (uint16_t)(bits[0] | bits[1] << 8));
    default: {
        uint32_t word;
        memcpy(&word, bits, 4);
        return fill<uint32_t>(y, word);
    }
    }
}

/* ---- copy ------------------------------------------------------------------------------------ */

DEV float read_as(float, float x) {
    return x;
}
DEV float read_as(float, bf16 x) {
    return to_float(x);
}
DEV float read_as(float, int32_t x) {
    return (float)x;
}
DEV float read_as(float, uint8_t x) {
    return (float)x;
}

template <class T> DEV T written_as(float x);
template <> DEV float written_as(float x) {
    return x;
}
template <> DEV bf16 written_as(float x) {
    return from_float<bf16>(x);
}
template <> DEV uint8_t written_as(float x) {
    return x != 0.0f;
}
template <> DEV int32_t written_as(float x) {
    if (x != x) return 0;
    if (x >= 2147483648.0f) return 2147483647;
    if (x <= -2147483648.0f) return -2147483647 - 1;
    return (int32_t)x;
}

template <class T, class F> DEV T converted(F x) {
    return written_as<T>(read_as(0.0f, x));
}
template <> DEV int32_t converted<int32_t, int32_t>(int32_t x) {
    return x;
}

template <class T, class F>
KERNEL(256, 4)
void copy_kernel(global<T> y, strides sy, global<const F> x, strides sx, size_t count) {
    size_t i = element();
    if (i < count) y[offset_of(sy, i)] = converted<T, F>(x[offset_of(sx, i)]);
}

template <class T, class F> static sr_status copy(sr_tensor *y, const sr_tensor *x) {
    size_t count = (size_t)sr_tensor_elements(y);
    return launch(gpu_of(y), "copy", copy_kernel<T, F>, grid_for(count), 256, 0, out<T>(y),
                  strides_of(y), in<F>(x), strides_of(x), count);
}

template <class T> static sr_status copy_to(sr_tensor *y, const sr_tensor *x) {
    switch (x->dtype) {
    case SR_F32:
        return copy<T, float>(y, x);
    case SR_BF16:
        return copy<T, bf16>(y, x);
    case SR_I32:
        return copy<T, int32_t>(y, x);
    default:
        return copy<T, uint8_t>(y, x);
    }
}

sr_status gpu_copy(sr_tensor *y, const sr_tensor *x) {
    switch (y->dtype) {
    case SR_F32:
        return copy_to<float>(y, x);
    case SR_BF16:
        return copy_to<bf16>(y, x);
    case SR_I32:
        return copy_to<int32_t>(y, x);
    default:
        return copy_to<uint8_t>(y, x);
    }
}

/* ---- unary: an example for f32 and bf16 ------------------------------------------------------ */

DEV float unary(float x, sr_unary op) {
    switch (op) {
    case SR_NEG:
        return -x;
    case SR_ABS:
        return fabsf(x);
    case SR_SQUARE:
        return x * x;
    case SR_SQRT:
        return math_sqrt(x);
    case SR_EXP:
        return math_exp(x);
    case SR_TANH:
        return math_tanh(x);
    default:
        return x;
    }
}

template <class T>
KERNEL(256, 4)
void unary_kernel(global<T> y, strides sy, global<const T> x, strides sx, sr_unary op,
                  size_t count) {
    size_t i = element();
    if (i < count) y[offset_of(sy, i)] = from_float<T>(unary(to_float(x[offset_of(sx, i)]), op));
}

sr_status gpu_unary(sr_tensor *y, const sr_tensor *x, sr_unary op) {
    if (op > SR_SQRT && op != SR_EXP && op != SR_TANH)
        return sr_backend_lacks(y->storage->device, "unary");
    size_t count = (size_t)sr_tensor_elements(y);
    if (y->dtype == SR_BF16)
        return launch(gpu_of(y), "unary", unary_kernel<bf16>, grid_for(count), 256, 0, out<bf16>(y),
                      strides_of(y), in<bf16>(x), strides_of(x), op, count);
    return launch(gpu_of(y), "unary", unary_kernel<float>, grid_for(count), 256, 0, out<float>(y),
                  strides_of(y), in<float>(x), strides_of(x), op, count);
}

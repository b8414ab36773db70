/* elements.cu - fill, copy and the elementwise ops.
 *
 * Traffic   each operand once: 16 bytes per access where operands are contiguous.
 * Numerics  f32 as on the cpu; i32 where all operands are whole; f64 is only copied and converted.
 */
#include <string.h>

#include "kernels/cuda/functions.cuh"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/map.cuh"

/* ---- fill, copy ------------------------------------------------------------------------------ */

/* A pattern of 16 bytes from `to` on; the last one may be cut short. */
KERNEL(MAP_THREADS, 8) void fill_bytes(global<uint8_t> to, int64_t bytes, vec16 pattern) {
    int64_t step = (int64_t)blocks_x() * threads();
    int64_t first = (int64_t)block_x() * threads() + thread();
    for (int64_t i = first; i < bytes / 16; i += step) store16(to, i * 16, pattern);
    if (first < bytes % 16)
        to[bytes / 16 * 16 + first] = (uint8_t)(pattern.w[first / 4] >> 8 * (first % 4));
}

KERNEL(MAP_THREADS, 8)
void copy_bytes(global<uint8_t> to, global<uint8_t> from, int64_t bytes) {
    int64_t step = (int64_t)blocks_x() * threads();
    int64_t first = (int64_t)block_x() * threads() + thread();
    for (int64_t i = first; i < bytes / 16; i += step) store16(to, i * 16, load16(from, i * 16));
    if (first < bytes % 16) to[bytes / 16 * 16 + first] = from[bytes / 16 * 16 + first];
}

namespace {

struct constant {
    static const int inputs = 0;
    double value;
    DEV double operator()(const double (&)[1]) const {
        return value;
    }
};

struct same {
    static const int inputs = 1, most = 8;
    DEV double operator()(const double (&x)[2]) const {
        return x[0];
    }
    DEV float operator()(const float (&x)[2]) const {
        return x[0];
    }
};

} // namespace

static bool flat_bytes(const sr_tensor *t) {
    return sr_tensor_is_contiguous(t) && (uintptr_t)sr_tensor_data(t) % 16 == 0;
}

static int64_t bytes_of(const sr_tensor *t) {
    return sr_tensor_elements(t) * (int64_t)sr_dtype_size(t->dtype);
}

sr_status gpu_fill(sr_tensor *y, double value) {
    vec16 pattern;
    if (sr_tensor_elements(y) == 0) return SR_OK;
    if (!flat_bytes(y)) return map_each<double>("fill", y, NULL, constant{value});
    for (int64_t i = 0; i < 16 / (int64_t)sr_dtype_size(y->dtype); i++)
        sr_element_store(&pattern, y->dtype, i, value);
    return launch(gpu_of(y), "fill", fill_bytes, dim(map_grid(bytes_of(y) / 16 + 1)), MAP_THREADS,
                  0, operand_of(y).data, bytes_of(y), pattern);
}

sr_status gpu_copy(sr_tensor *y, const sr_tensor *x) {
    const sr_tensor *in[] = {x};
    if (sr_tensor_elements(y) == 0) return SR_OK;
    if (x->dtype == y->dtype && flat_bytes(y) && flat_bytes(x))
        return launch(gpu_of(y), "copy", copy_bytes, dim(map_grid(bytes_of(y) / 16 + 1)),
                      MAP_THREADS, 0, operand_of(y).data, operand_of(x).data, bytes_of(y));
    bool narrow = sr_dtype_size(x->dtype) <= 4 && sr_dtype_size(y->dtype) <= 4;
    if (narrow && !(is_whole(x) && is_whole(y))) return map_real("copy", y, in, same{});
    return map_each<double>("copy", y, in, same{});
}

/* ---- functions of one, two and three tensors ------------------------------------------------- */

namespace {

struct unary_fn {
    static const int inputs = 1, most = 4;
    int op;
    DEV float operator()(const float (&x)[2]) const {
        return sr_unary_value(op, x[0]);
    }
    DEV int32_t operator()(const int32_t (&x)[2]) const {
        return sr_whole_unary(op, x[0]);
    }
};

struct derivative_fn {
    static const int inputs = 3, most = 4;
    int op;
    DEV float operator()(const float (&x)[4]) const {
        return sr_unary_derivative(op, x[0], x[1], x[2]);
    }
};

struct binary_fn {
    static const int inputs = 2, most = 8;
    int op;
    DEV float operator()(const float (&x)[3]) const {
        return sr_binary_value(op, x[0], x[1]);
    }
    DEV int32_t operator()(const int32_t (&x)[3]) const {
        return sr_whole_binary(op, x[0], x[1]);
    }
};

struct choice_fn {
    static const int inputs = 3, most = 8;
    DEV float operator()(const float (&x)[4]) const {
        return x[0] != 0.0f ? x[1] : x[2];
    }
    DEV int32_t operator()(const int32_t (&x)[4]) const {
        return x[0] != 0 ? x[1] : x[2];
    }
};

/* y is an input only if beta is not 0; else it may hold anything. */
struct scale_fn {
    static const int inputs = 1, most = 8;
    double alpha;
    DEV float operator()(const float (&x)[2]) const {
        return (float)alpha * x[0];
    }
    DEV int32_t operator()(const int32_t (&x)[2]) const {
        return to_whole(alpha * x[0]);
    }
};

struct sum_fn {
    static const int inputs = 2, most = 8;
    double alpha, beta;
    DEV float operator()(const float (&x)[3]) const {
        return math_fma((float)alpha, x[0], (float)beta * x[1]);
    }
    DEV int32_t operator()(const int32_t (&x)[3]) const {
        return to_whole(alpha * x[0] + beta * x[1]);
    }
};

} // namespace

sr_status gpu_unary(sr_tensor *y, const sr_tensor *x, sr_unary op) {
    if (is_whole(x) && is_whole(y) && sr_unary_is_whole(op))
        return map_each<int32_t>("unary", y, &x, unary_fn{op});
    return map_real("unary", y, &x, unary_fn{op});
}

sr_status gpu_unary_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x,
                             const sr_tensor *y, sr_unary op) {
    const sr_tensor *in[] = {dy, x != NULL ? x : y, y != NULL ? y : x};
    return map_real("unary_backward", dx, in, derivative_fn{op});
}

sr_status gpu_binary(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, sr_binary op) {
    const sr_tensor *in[] = {a, b};
    if (is_whole(a) && is_whole(b) && is_whole(y))
        return map_each<int32_t>("binary", y, in, binary_fn{op});
    return map_real("binary", y, in, binary_fn{op});
}

sr_status gpu_where(sr_tensor *y, const sr_tensor *condition, const sr_tensor *a,
                    const sr_tensor *b) {
    const sr_tensor *in[] = {condition, a, b};
    if (is_whole(y) && is_whole(a) && is_whole(b))
        return map_each<int32_t>("where", y, in, choice_fn{});
    return map_real("where", y, in, choice_fn{});
}

sr_status gpu_axpby(sr_tensor *y, const sr_tensor *x, double alpha, double beta) {
    const sr_tensor *in[] = {x, y};
    bool whole = is_whole(x) && is_whole(y);
    if (beta == 0 && whole) return map_each<int32_t>("axpby", y, in, scale_fn{alpha});
    if (beta == 0) return map_real("axpby", y, in, scale_fn{alpha});
    if (whole) return map_each<int32_t>("axpby", y, in, sum_fn{alpha, beta});
    return map_real("axpby", y, in, sum_fn{alpha, beta});
}

/* linear.cu - y = act(x w^T + b), and back.
 *
 * Shapes    x (T, H), w (F, H), b (F), y, pre (T, F)
 * Work      2 T H F flops forward, 4 T H F backward
 * Traffic   the product adds the bias and writes pre (y, without a GELU); the activation is a pass
 *           of its own, 4 T F bytes in bf16.
 *           Backward: dy act' and the bias gradient in one pass of 6 T F bytes, then two products
 *           that read it; the one for dx may add to a gradient that is there.
 */
#include "kernels/cuda/activation.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gpu.h"

sr_status gpu_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                     const sr_tensor *b, sr_act act) {
    gpu *g = gpu_of(y);
    sr_tensor *sum = pre != nullptr ? pre : y;
    product p = product_of(matrix_of(sum), matrix_of(x), transposed(matrix_of(w)));
    if (b != nullptr) p.bias = sr_tensor_data(b);
    SR_TRY(gemm(g, "linear", &p));
    if (act == SR_ACT_NONE) return SR_OK;
    return bias_act(g, "linear", sr_tensor_data(y), nullptr, sr_tensor_data(sum), nullptr, y->dtype,
                    y->shape[0], y->shape[1], act);
}

/* *dz = dy act', in scratch unless it is dy itself; db += its column sums. */
static sr_status before_activation(matrix *dz, gpu *g, sr_tensor *db, bool needed,
                                   const sr_tensor *dy, const sr_tensor *kept, sr_act act) {
    void *room = nullptr;
    *dz = matrix_of(dy);
    if (act != SR_ACT_NONE && needed) {
        size_t bytes = (size_t)sr_tensor_elements(dy) * sr_dtype_size(dy->dtype);
        SR_TRY(gpu_scratch(&room, g, 0, bytes));
        dz->data = room;
    }
    if (room == nullptr && db == nullptr) return SR_OK;
    return act_backward(g, "linear", room, db != nullptr ? SR_DATA(float, db) : nullptr,
                        sr_tensor_data(dy), act == SR_ACT_NONE ? nullptr : sr_tensor_data(kept),
                        dy->dtype, dy->shape[0], dy->shape[1], act);
}

sr_status gpu_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db, const sr_tensor *dy,
                              const sr_tensor *x, const sr_tensor *w, const sr_tensor *pre,
                              const sr_tensor *y, sr_act act, bool add_x, bool set_w) {
    gpu *g = gpu_of(dy);
    matrix dz;
    SR_TRY(before_activation(&dz, g, db, dx != nullptr || dw != nullptr, dy,
                             sr_act_keeps_input(act) ? pre : y, act));
    if (dx != nullptr) {
        product p = product_of(matrix_of(dx), dz, matrix_of(w));
        p.add = add_x;
        SR_TRY(gemm(g, "linear", &p));
    }
    if (dw == nullptr) return SR_OK;
    product p = product_of(matrix_of(dw), transposed(dz), matrix_of(x));
    p.add = !set_w;
    return gemm(g, "linear", &p);
}

/* gemm.h - matrix products on the device: C = alpha A B + beta C + bias.
 *
 * A and B are f32, or both bf16; C is f32 or has their type.  Sums are f32 and rounded once.  The
 * product of a shape is always computed in the same way, so equal inputs give equal bits.
 *
 * gemm_cuda.cu does it with cuBLASLt, kernels/simt/gemm.cc with plain loops.
 */
#pragma once

#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/backend.h"
#include "core/tensor/tensor.h"

struct gpu; /* gpu.h */

/* A matrix in device memory; strides in elements, one of them 1 unless it has one row or column. */
struct matrix {
    void *data;
    sr_dtype dtype;
    int64_t rows, cols;
    int64_t row, col; /* from one row (column) to the next */
};

/* The last two dimensions of a tensor. */
static inline matrix matrix_of(const sr_tensor *t) {
    int r = t->ndim - 2, c = t->ndim - 1;
    return matrix{sr_tensor_data(t), t->dtype,     t->shape[r],
                  t->shape[c],       t->stride[r], t->stride[c]};
}

/* Row-major scratch memory. */
static inline matrix matrix_at(void *data, sr_dtype dtype, int64_t rows, int64_t cols) {
    return matrix{data, dtype, rows, cols, cols, 1};
}

static inline matrix transposed(matrix m) {
    return matrix{m.data, m.dtype, m.cols, m.rows, m.col, m.row};
}

/* Rows first, first + 1 ... of m. */
static inline matrix rows_of(matrix m, int64_t first, int64_t count) {
    char *data = static_cast<char *>(m.data) + (size_t)(first * m.row) * sr_dtype_size(m.dtype);
    return matrix{data, m.dtype, count, m.cols, m.row, m.col};
}

struct product {
    matrix c, a, b; /* (m, n) = (m, k) (k, n) */
    float alpha = 1.0f;
    const float *alpha_at = nullptr; /* in device memory: instead of alpha, not beside `bias` */
    bool add = false;                /* C += instead of C = */
    const void *bias = nullptr;      /* (n) of C's type, added to each row before rounding */
    int64_t count = 1;               /* products, whose matrices are this far apart: */
    int64_t c_step = 0, a_step = 0, b_step = 0; /* elements; 0: the same matrix */
};

/* c = a b */
static inline product product_of(matrix c, matrix a, matrix b) {
    product p;
    p.c = c;
    p.a = a;
    p.b = b;
    return p;
}

/* Queues the product for `op`, which messages name.  C may not overlap A or B. */
sr_status gemm(gpu *g, const char *op, const product *p);

/* Batch dimensions around a product: their sizes, and the elements from one to the next. */
enum { BATCH_DIMS = SR_MAX_DIMS - 2 };
struct batch {
    int dims;
    int64_t size[BATCH_DIMS], y[BATCH_DIMS], a[BATCH_DIMS], b[BATCH_DIMS];
};

/* The products of a batch, instead of p->count of them, by a simple, slow kernel (gemm.cu): for
 * what the library does not have, operands of two dtypes, and those of any strides; no bias. */
sr_status plain_product(gpu *g, const char *op, const product *p, const batch *over);

/* lt_cuda.h - cuBLASLt, loaded at the first product: 600 MB that a run on the CPU never touches;
 * and products as it takes them.
 *
 * A product is computed by the first algorithm that cuBLASLt suggests for it and that runs.  What
 * it suggests follows from the product alone, so equal products are computed in the same way.
 */
#pragma once

#include <cublasLt.h>

#include "core/base/status.h"

/* The functions in use, by their names without the prefix cublasLt. */
#define LT_FUNCTIONS(X)                                                                            \
    X(GetVersion)                                                                                  \
    X(GetStatusString)                                                                             \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(Matmul)                                                                                      \
    X(MatmulDescInit_internal)                                                                     \
    X(MatmulDescSetAttribute)                                                                      \
    X(MatrixLayoutInit_internal)                                                                   \
    X(MatrixLayoutSetAttribute)                                                                    \
    X(MatmulPreferenceInit_internal)                                                               \
    X(MatmulPreferenceSetAttribute)                                                                \
    X(MatmulAlgoGetHeuristic)

#define LT_POINTER(name) decltype(&cublasLt##name) name;
struct lt_functions {
    LT_FUNCTIONS(LT_POINTER)
};
#undef LT_POINTER

/* *out = the functions of libcublasLt, loaded on the first call.  The library stays loaded.
 *
 * Errors: SR_EDEVICE  it was not found, lacks a function, or has another major version */
sr_status lt_load(const lt_functions **out);

enum { LT_WORKSPACE = 32 << 20 };

/* A column-major matrix, or the transpose of one. */
struct lt_matrix {
    const void *data;
    cudaDataType_t type;
    size_t element; /* bytes */
    int64_t rows, cols, ld, step;
    bool transposed;
};

/* c (m, n) = alpha op(a) (m, k) op(b) (k, n) + c if `add` + bias (m), column-major. */
struct lt_product {
    lt_matrix a, b, c;
    int64_t m, n, k, count;
    const void *bias;
    const float *alpha_at; /* in device memory: instead of alpha */
    float alpha;
    bool add, tf32;
};

/* The products of a device. */
struct products;
sr_status products_new(products **out, cudaStream_t stream);
void products_free(products *p); /* may be NULL */

/* Queues a product.  *status: lt_lacks() where cuBLASLt does not have it. */
sr_status lt_run(cublasStatus_t *status, products *p, const lt_product *product, const char *op);

/* Whether cuBLASLt lacks such a product: it must be computed in another way.  INVALID_VALUE is not
 * among them: it tells of a mistake of ours, which must not become a slow path. */
static inline bool lt_lacks(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* A status in words. */
const char *lt_text(const products *p, cublasStatus_t status);

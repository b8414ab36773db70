/* tune_cuda.h - products as cuBLASLt takes them, and which of its algorithms each takes. */
#ifndef SR_CUDA_TUNE_CUDA_H
#define SR_CUDA_TUNE_CUDA_H

#include "core/base/choices.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gpu_cuda.h"
#include "kernels/cuda/lt_cuda.h"

enum { LT_WORKSPACE = 32 << 20 };

struct tuner;

/* The products of a device. */
struct products {
    const lt_functions *lt;
    cublasLtHandle_t handle;
    void *workspace;  /* LT_WORKSPACE bytes */
    float *constants; /* 0 and 1, in device memory */
    tuner *tuner;
    bool adds_bias[2]; /* cuBLASLt adds a bias correctly to f32, to bf16: checked once */
    sr_act gelu[2];    /* the GELU that it applies, likewise; SR_ACT_NONE: none */
    bool warned;       /* of a product that cuBLASLt does not have */
};

/* A column-major matrix, or the transpose of one. */
struct lt_matrix {
    const void *data;
    cudaDataType_t type;
    size_t element; /* bytes */
    int64_t rows, cols, ld, step;
    bool transposed;
};

/* c (m, n) = gelu(pre), pre = alpha op(a) (m, k) op(b) (k, n) + c if `add` + bias (m),
 * column-major. */
struct lt_product {
    lt_matrix a, b, c;
    int64_t m, n, k, count;
    const void *bias;
    void *pre; /* like c: what a GELU is applied to */
    const float *alpha_at;
    float alpha;
    bool add, tf32, gelu;
};

/* The descriptors of a product. */
struct lt_call {
    lt_product product;
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t a, b, c;
};

/* Whether cuBLASLt lacks such a product: it must be computed in another way.  INVALID_VALUE is not
 * among them: it tells of a mistake of ours, which must not become a slow path. */
static inline bool lt_lacks(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

sr_status lt_check(const lt_functions *lt, cublasStatus_t status, const char *op);
/* The same; messages have the shape of the product. */
sr_status lt_check_product(const lt_functions *lt, cublasStatus_t status, const char *op,
                           const lt_product *product);
/* Our product as cuBLASLt sees it. */
sr_status lt_describe(lt_product *l, const char *op, const product *p, bool tf32);
sr_status lt_prepare(lt_call *call, const products *p, const lt_product *product, const char *op);

/* Queues a product whose C is at `c` on a stream. */
cublasStatus_t lt_run(const products *p, const lt_call *call, const cublasLtMatmulAlgo_t *algorithm,
                      const void *c, cudaStream_t stream);

/* Finds out what cuBLASLt can do besides products, once for a device. */
sr_status fuse_check(products *state, cuda_host *h);
/* *pays: products of about this shape apply this activation correctly, and faster than a separate
 * pass. */
sr_status fuse_pays(bool *pays, products *state, gpu *g, sr_act act, const product *p);

/* The descriptors of the same product with `pre` elsewhere. */
cublasStatus_t lt_move_pre(lt_call *call, const products *p, void *pre);

/* Choices are kept in the user's cache directory, for the GPU and the version of cuBLASLt. */
sr_status tuner_new(tuner **out, const lt_functions *lt, int device);
void tuner_free(tuner *t); /* may be NULL */

/* The algorithm for a product: the one chosen before for such shapes, or for this one where that
 * does not take it, else the fastest of those that cuBLASLt suggests, which is timed now and kept.
 * *exists: whether it suggests any. */
sr_status tuner_choose(cublasLtMatmulAlgo_t *out, bool *exists, products *p, cuda_host *h,
                       const lt_call *call, const char *op);

/* Whether an algorithm takes exactly this product in our workspace. */
bool tuner_takes(const products *p, const lt_call *call, const cublasLtMatmulAlgo_t *algorithm);

/* Adds variants of the `count` suggestions that cut the depth, up to `room`; returns how many there
 * are now. */
int split_candidates(cublasLtMatmulHeuristicResult_t *found, int count, int room, const products *p,
                     const lt_call *call, int processors);

/* A number that is kept with the algorithms; 0 if there is none.  One that does not last is for
 * this process only: it could not be timed. */
uint64_t tuner_number(const tuner *t, const char *key);
void tuner_keep_number(tuner *t, const char *key, uint64_t number, bool lasts);

/* All of them. */
sr_choices *tuner_choices(const tuner *t);

/* The failure of a queued trial, and the product it was for. */
sr_status trial_ended(cudaError_t error, const char *op, int64_t rows, int64_t columns,
                      int64_t depth);

/* The middle one of some times, which are sorted. */
float trial_median(float *list, int count);

/* The stream on which everything is timed. */
cudaStream_t tuner_stream(const tuner *t);

/* The algorithm that cuBLASLt suggests first for exactly this product, untried. */
sr_status tuner_first(cublasLtMatmulAlgo_t *out, bool *exists, products *p, const lt_call *call,
                      const char *op);

#endif

/* gemm_cuda.cu - gemm.h by cuBLASLt.
 *
 * cuBLASLt is column-major.  A row-major matrix is its transpose there, so C = A B is computed as
 * C^T = B^T A^T: cuBLASLt's first operand is our B, its second our A, and its rows are our columns.
 * A bias, one value for each of its rows, is then one for each of our columns.
 *
 * tune_cuda.cu chooses the algorithm of a product, fuse_cuda.cu its epilogue.
 */
#include "kernels/cuda/gemm.h"

#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/gpu_cuda.h"
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/tune_cuda.h"

void products_free(products *p) {
    if (p == nullptr) return;
    tuner_free(p->tuner);
    cudaFree(p->workspace);
    if (p->handle != nullptr) p->lt->Destroy(p->handle);
    sr_free(p);
}

sr_status lt_check(const lt_functions *lt, cublasStatus_t status, const char *op) {
    if (status == CUBLAS_STATUS_SUCCESS) return SR_OK;
    sr_status st = status == CUBLAS_STATUS_ALLOC_FAILED ? SR_ENOMEM : SR_EDEVICE;
    return sr_fail(st, "%s: cuBLASLt: %s", op, lt->GetStatusString(status));
}

sr_status lt_check_product(const lt_functions *lt, cublasStatus_t status, const char *op,
                           const lt_product *p) {
    if (status == CUBLAS_STATUS_SUCCESS) return SR_OK;
    sr_status st = status == CUBLAS_STATUS_ALLOC_FAILED ? SR_ENOMEM : SR_EDEVICE;
    return sr_fail(st, "%s: cuBLASLt: %s, in the product of shape (%lld, %lld, %lld)", op,
                   lt->GetStatusString(status), (long long)p->n, (long long)p->m, (long long)p->k);
}

/* The constants 0 and 1, after the workspace, for products whose factor is in device memory. */
static const float constants[2] = {0.0f, 1.0f};

static sr_status fill(products *p, gpu *g) {
    SR_TRY(lt_load(&p->lt));
    SR_TRY(lt_check(p->lt, p->lt->Create(&p->handle), "cuda"));
    SR_TRY(cuda_check(cudaMalloc(&p->workspace, LT_WORKSPACE + sizeof constants),
                      "cannot allocate 32 MiB for matrix products"));
    p->constants = (float *)((char *)p->workspace + LT_WORKSPACE);
    /* in stream order: the stream does not wait for cudaMemcpy */
    SR_TRY(cuda_check(cudaMemcpyAsync(p->constants, constants, sizeof constants, cudaMemcpyDefault,
                                      cuda_of(g)->stream),
                      "cannot upload"));
    return tuner_new(&p->tuner, p->lt, cuda_of(g)->number);
}

/* ---- a product as cuBLASLt sees it ----------------------------------------------------------- */

static cudaDataType_t type_of(sr_dtype dtype) {
    return dtype == SR_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Our matrix as stored: column-major with `ld`, or the transpose of one that is. */
static bool orient(lt_matrix *m, const matrix *x) {
    bool by_row = x->col == 1 || x->cols == 1, by_col = x->row == 1 || x->rows == 1;
    m->data = x->data;
    m->type = type_of(x->dtype);
    m->element = sr_dtype_size(x->dtype);
    if (by_row && (x->rows == 1 || x->row >= x->cols)) {
        m->transposed = false;
        m->rows = x->cols;
        m->cols = x->rows;
        m->ld = x->rows == 1 ? x->cols : x->row;
        return true;
    }
    m->transposed = true;
    m->rows = x->rows;
    m->cols = x->cols;
    m->ld = x->cols == 1 ? x->rows : x->col;
    return by_col && m->ld >= x->rows;
}

sr_status lt_describe(lt_product *l, const char *op, const product *p, bool tf32) {
    *l = lt_product{};
    if (!orient(&l->a, &p->b) || !orient(&l->b, &p->a) || !orient(&l->c, &p->c) ||
        l->c.transposed || p->a.dtype != p->b.dtype)
        return sr_fail(SR_EINTERNAL, "%s: operands of a product are neither row- nor column-major",
                       op);
    l->a.step = p->b_step;
    l->b.step = p->a_step;
    l->c.step = p->c_step;
    l->m = p->c.cols;
    l->n = p->c.rows;
    l->k = p->a.cols;
    l->count = p->count;
    l->add = p->add;
    l->bias = p->bias;
    l->pre = p->pre;
    l->gelu = p->act != SR_ACT_NONE;
    l->alpha = p->alpha;
    l->alpha_at = p->alpha_at;
    l->tf32 = tf32 && p->a.dtype == SR_F32;
    return SR_OK;
}

/* C = 0, or C as it is, where there is nothing to sum. */
static sr_status empty_sum(gpu *g, const char *op, const product *p) {
    size_t size = sr_dtype_size(p->c.dtype), pitch = (size_t)p->c.row * size;
    if (p->bias != nullptr)
        return sr_fail(SR_EINTERNAL, "%s: a product of depth 0 with a bias", op);
    for (int64_t i = 0; i < p->count && !p->add; i++)
        SR_TRY(cuda_check(cudaMemset2DAsync((char *)p->c.data + (size_t)(i * p->c_step) * size,
                                            p->c.rows == 1 ? (size_t)p->c.cols * size : pitch, 0,
                                            (size_t)p->c.cols * size, (size_t)p->c.rows,
                                            cuda_of(g)->stream),
                          op));
    return SR_OK;
}

/* ---- epilogues ------------------------------------------------------------------------------- */

/* Where cuBLASLt does not add it correctly: in a separate pass. */
static sr_status add_bias_after(gpu *g, const char *op, const product *p) {
    product plain = *p;
    plain.bias = nullptr;
    if (p->count != 1 || p->c.row != p->c.cols)
        return sr_fail(SR_EINTERNAL, "%s: a bias for a result with gaps", op);
    SR_TRY(gemm(g, op, &plain));
    return bias_act(g, op, p->c.data, nullptr, p->c.data, p->bias, p->c.dtype, p->c.rows, p->c.cols,
                    SR_ACT_NONE);
}

/* For a product that cannot apply its activation after all. */
static sr_status act_after(gpu *g, const char *op, const product *p) {
    product plain = *p;
    plain.act = SR_ACT_NONE;
    plain.pre = nullptr;
    plain.c.data = p->pre;
    SR_TRY(gemm(g, op, &plain));
    return bias_act(g, op, p->c.data, nullptr, p->pre, nullptr, p->c.dtype, p->c.rows, p->c.cols,
                    p->act);
}

/* The state of the device's products, made by the first one. */
static sr_status products_of(products **out, gpu *g) {
    cuda_host *h = cuda_of(g);
    *out = h->lt;
    if (h->lt != nullptr) return SR_OK;
    SR_TRY(sr_new(out, 1));
    sr_status st = fill(*out, g);
    if (st == SR_OK) st = fuse_check(*out, h);
    if (st != SR_OK) {
        products_free(*out);
        *out = nullptr;
    }
    h->lt = *out;
    return st;
}

sr_status gpu_choices(sr_choices **out, sr_device *device) {
    gpu *g = (gpu *)device->state;
    products *state;
    *out = nullptr;
    SR_TRY(cuda_use(cuda_of(g)));
    SR_TRY(products_of(&state, g));
    *out = tuner_choices(state->tuner);
    return SR_OK;
}

sr_status gemm_takes_act(bool *takes, gpu *g, const product *p, sr_act act) {
    products *state;
    SR_TRY(cuda_use(cuda_of(g)));
    SR_TRY(products_of(&state, g));
    uintptr_t all = (uintptr_t)p->c.data | (uintptr_t)p->pre;
    *takes = p->count == 1 && p->a.cols > 0 && p->c.dtype == p->a.dtype && p->c.row == p->c.cols &&
             p->c.cols % 8 == 0 && all % 16 == 0;
    return *takes ? fuse_pays(takes, state, g, act, p) : SR_OK;
}

enum { MOST_SLOW = 1000000000 }; /* FLOP: 50 ms of the slow kernel */

/* A product that cuBLASLt does not have, by a slow kernel; reported once.  In a large model it
 * would be what a step waits for, so a large one is an error unless SEQRUN_SLOW_PRODUCTS is set. */
static sr_status product_without_lt(gpu *g, products *state, const lt_product *l, const char *op,
                                    const product *p, cublasStatus_t status) {
    const char *why = state->lt->GetStatusString(status);
    double flop = 2.0 * (double)l->m * (double)l->n * (double)l->k * (double)l->count;
    if (flop > MOST_SLOW && getenv("SEQRUN_SLOW_PRODUCTS") == nullptr)
        return sr_fail(SR_EDEVICE,
                       "%s: cuBLASLt has no product of shape (%lld, %lld, %lld) (%s); set "
                       "SEQRUN_SLOW_PRODUCTS=1 to compute it by a slow kernel",
                       op, (long long)l->n, (long long)l->m, (long long)l->k, why);
    if (!state->warned)
        sr_log(SR_LOG_WARN,
               "%s: cuBLASLt has no product of shape (%lld, %lld, %lld) (%s); a slow kernel "
               "computes it",
               op, (long long)l->n, (long long)l->m, (long long)l->k, why);
    state->warned = true;
    return plain_product(g, op, p);
}

/* *status: NOT_SUPPORTED where cuBLASLt has no algorithm for it. */
static sr_status queue_product(cublasStatus_t *status, products *state, cuda_host *h,
                               const lt_call *call, const char *op) {
    cublasLtMatmulAlgo_t algorithm;
    bool exists;
    *status = CUBLAS_STATUS_NOT_SUPPORTED;
    SR_TRY(tuner_choose(&algorithm, &exists, state, h, call, op));
    if (exists)
        *status =
            lt_run(state, call, &algorithm, const_cast<void *>(call->product.c.data), h->stream);
    return SR_OK;
}

sr_status gemm(gpu *g, const char *op, const product *p) {
    cuda_host *h = cuda_of(g);
    products *state;
    lt_product l;
    lt_call call;
    if (p->c.rows == 0 || p->c.cols == 0 || p->count == 0) return SR_OK;
    SR_TRY(cuda_use(h));
    if (p->a.cols == 0) return empty_sum(g, op, p);
    SR_TRY(products_of(&state, g));
    if (p->bias != nullptr && !state->adds_bias[p->c.dtype == SR_BF16])
        return add_bias_after(g, op, p);
    SR_TRY(lt_describe(&l, op, p, h->tf32));
    SR_TRY(lt_prepare(&call, state, &l, op));
    h->recent[h->launches++ % RECENT] = op;
    cublasStatus_t status;
    SR_TRY(queue_product(&status, state, h, &call, op));
    if (!lt_lacks(status)) return lt_check_product(state->lt, status, op, &l);
    if (p->act != SR_ACT_NONE) return act_after(g, op, p);
    if (p->bias != nullptr) return add_bias_after(g, op, p);
    return product_without_lt(g, state, &l, op, p, status);
}

/* gemm_cuda.cu - gemm.h by cuBLASLt.
 *
 * cuBLASLt is column-major.  A row-major matrix is its transpose there, so C = A B is computed as
 * C^T = B^T A^T: cuBLASLt's first operand is our B, its second our A, and its rows are our columns.
 * A bias, one value for each of its rows, is then one for each of our columns.
 */
#include "kernels/cuda/gemm.h"

#include <stdlib.h>

#include "core/base/log.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/host_cuda.h"
#include "kernels/cuda/lt_cuda.h"

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

static sr_status describe(lt_product *l, const char *op, const product *p, bool tf32) {
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

/* ---- products -------------------------------------------------------------------------------- */

/* Where cuBLASLt does not add it: in a pass of its own. */
static sr_status add_bias_after(gpu *g, const char *op, const product *p) {
    product plain = *p;
    plain.bias = nullptr;
    if (p->count != 1 || p->c.row != p->c.cols)
        return sr_fail(SR_EINTERNAL, "%s: a bias for a result with gaps", op);
    SR_TRY(gemm(g, op, &plain));
    return bias_act(g, op, p->c.data, nullptr, p->c.data, p->bias, p->c.dtype, p->c.rows, p->c.cols,
                    SR_ACT_NONE);
}

enum { MOST_SLOW = 1000000000 }; /* FLOP: 50 ms of the slow kernel */

/* A product that cuBLASLt does not have, by a slow kernel; reported once.  In a large model it
 * would be what a step waits for, so a large one is an error unless SEQRUN_SLOW_PRODUCTS is set. */
static sr_status product_without_lt(gpu *g, products *state, const lt_product *l, const char *op,
                                    const product *p, cublasStatus_t status) {
    const char *why = lt_text(state, status);
    double flop = 2.0 * (double)l->m * (double)l->n * (double)l->k * (double)l->count;
    if (flop > MOST_SLOW && getenv("SEQRUN_SLOW_PRODUCTS") == nullptr)
        return sr_fail(SR_EDEVICE,
                       "%s: cuBLASLt has no product of shape (%lld, %lld, %lld) (%s); set "
                       "SEQRUN_SLOW_PRODUCTS=1 to compute it by a slow kernel",
                       op, (long long)l->n, (long long)l->m, (long long)l->k, why);
    if (!cuda_of(g)->lacked)
        sr_log(SR_LOG_WARN,
               "%s: cuBLASLt has no product of shape (%lld, %lld, %lld) (%s); a slow kernel "
               "computes it",
               op, (long long)l->n, (long long)l->m, (long long)l->k, why);
    cuda_of(g)->lacked = true;
    const batch over = {1, {p->count}, {p->c_step}, {p->a_step}, {p->b_step}};
    return plain_product(g, op, p, &over);
}

sr_status gemm(gpu *g, const char *op, const product *p) {
    cuda_host *h = cuda_of(g);
    lt_product l;
    cublasStatus_t status;
    if (p->c.rows == 0 || p->c.cols == 0 || p->count == 0) return SR_OK;
    SR_TRY(cuda_use(h));
    if (p->a.cols == 0) return empty_sum(g, op, p);
    if (h->lt == nullptr) SR_TRY(products_new(&h->lt, h->stream));
    SR_TRY(describe(&l, op, p, h->tf32));
    h->recent[h->launches++ % RECENT] = op;
    SR_TRY(lt_run(&status, h->lt, &l, op));
    if (!lt_lacks(status)) return SR_OK;
    if (p->bias != nullptr) return add_bias_after(g, op, p);
    return product_without_lt(g, h->lt, &l, op, p, status);
}

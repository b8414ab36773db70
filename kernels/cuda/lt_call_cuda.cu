/* lt_call_cuda.cu - a product's descriptors, and its call. */
#include "kernels/cuda/tune_cuda.h"

static cublasStatus_t lay_out(const lt_functions *lt, cublasLtMatrixLayoutOpaque_t *layout,
                              const lt_matrix *m, int64_t count) {
    int32_t batch = (int32_t)count;
    cublasStatus_t st = lt->MatrixLayoutInit_internal(layout, sizeof *layout, m->type,
                                                      (uint64_t)m->rows, (uint64_t)m->cols, m->ld);
    if (st != CUBLAS_STATUS_SUCCESS || count == 1) return st;
    st = lt->MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                      sizeof batch);
    if (st != CUBLAS_STATUS_SUCCESS) return st;
    return lt->MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                        &m->step, sizeof m->step);
}

template <class T>
static cublasStatus_t set(const lt_functions *lt, lt_call *call,
                          cublasLtMatmulDescAttributes_t attribute, T value) {
    return lt->MatmulDescSetAttribute(&call->operation, attribute, &value, sizeof value);
}

/* What is done with the sums before they are stored. */
static cublasStatus_t epilogue(const lt_functions *lt, lt_call *call) {
    const lt_product *p = &call->product;
    const uint32_t kind =
        p->gelu ? p->bias != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX
                : CUBLASLT_EPILOGUE_BIAS;
    if (p->bias == nullptr && !p->gelu) return CUBLAS_STATUS_SUCCESS;
    cublasStatus_t st = set(lt, call, CUBLASLT_MATMUL_DESC_EPILOGUE, kind);
    if (st == CUBLAS_STATUS_SUCCESS && p->gelu)
        st = set(lt, call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p->pre);
    if (st == CUBLAS_STATUS_SUCCESS && p->gelu)
        st = set(lt, call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p->c.ld);
    if (st != CUBLAS_STATUS_SUCCESS || p->bias == nullptr) return st;
    st = set(lt, call, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int32_t)p->c.type);
    if (st != CUBLAS_STATUS_SUCCESS) return st;
    return set(lt, call, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p->bias);
}

static cublasStatus_t operation(const lt_functions *lt, lt_call *call) {
    const lt_product *p = &call->product;
    cublasStatus_t st = lt->MatmulDescInit_internal(
        &call->operation, sizeof call->operation,
        p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (st == CUBLAS_STATUS_SUCCESS && p->a.transposed)
        st = set(lt, call, CUBLASLT_MATMUL_DESC_TRANSA, (int32_t)CUBLAS_OP_T);
    if (st == CUBLAS_STATUS_SUCCESS && p->b.transposed)
        st = set(lt, call, CUBLASLT_MATMUL_DESC_TRANSB, (int32_t)CUBLAS_OP_T);
    if (st == CUBLAS_STATUS_SUCCESS && p->alpha_at != nullptr)
        st =
            set(lt, call, CUBLASLT_MATMUL_DESC_POINTER_MODE, (int32_t)CUBLASLT_POINTER_MODE_DEVICE);
    return st == CUBLAS_STATUS_SUCCESS ? epilogue(lt, call) : st;
}

cublasStatus_t lt_move_pre(lt_call *call, const products *p, void *pre) {
    call->product.pre = pre;
    return set(p->lt, call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pre);
}

sr_status lt_prepare(lt_call *call, const products *p, const lt_product *product, const char *op) {
    call->product = *product;
    cublasStatus_t st = operation(p->lt, call);
    if (st == CUBLAS_STATUS_SUCCESS) st = lay_out(p->lt, &call->a, &product->a, product->count);
    if (st == CUBLAS_STATUS_SUCCESS) st = lay_out(p->lt, &call->b, &product->b, product->count);
    if (st == CUBLAS_STATUS_SUCCESS) st = lay_out(p->lt, &call->c, &product->c, product->count);
    return lt_check_product(p->lt, st, op, product);
}

cublasStatus_t lt_run(const products *p, const lt_call *call, const cublasLtMatmulAlgo_t *algorithm,
                      const void *c, cudaStream_t stream) {
    const lt_product *l = &call->product;
    float beta = l->add ? 1.0f : 0.0f;
    const void *factor = l->alpha_at != nullptr ? l->alpha_at : &l->alpha;
    const void *keep = l->alpha_at != nullptr ? &p->constants[l->add ? 1 : 0] : &beta;
    lt_call *d = const_cast<lt_call *>(call); /* cuBLASLt's descriptors are not const */
    return p->lt->Matmul(p->handle, &d->operation, factor, l->a.data, &d->a, l->b.data, &d->b, keep,
                         c, &d->c, const_cast<void *>(c), &d->c, algorithm, p->workspace,
                         LT_WORKSPACE, stream);
}

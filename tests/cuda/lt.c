/* lt.c - cuBLASLt by plain loops, for tests: column-major operands, transposes, batches, a bias for
 * each row, factors in device memory.  Built as libcublasLt.so; what a product asks for that is not
 * here, it refuses. */
#include <cublasLt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct layout {
    int32_t type, count;
    int64_t rows, cols, ld, step;
} layout;

typedef struct operation {
    int32_t ta, tb, pointer, bias_type;
    uint32_t epilogue;
    const void *bias;
} operation;

size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED      ? "not supported"
           : status == CUBLAS_STATUS_EXECUTION_FAILED ? "execution failed"
                                                      : "an error";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    static int one;
    *handle = (cublasLtHandle_t)&one;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    (void)handle;
    return CUBLAS_STATUS_SUCCESS;
}

/* SEQRUN_FAKE: what this cuBLASLt lacks. */
static int lacks(const char *what) {
    const char *given = getenv("SEQRUN_FAKE");
    return given != NULL && strcmp(given, what) == 0;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t out, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
    layout l = {(int32_t)type, 1, (int64_t)rows, (int64_t)cols, ld, 0};
    if (size < sizeof l || ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(out, &l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t out,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size) {
    layout *l = (layout *)out;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && size == sizeof l->count)
        memcpy(&l->count, value, size);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && size == sizeof l->step)
        memcpy(&l->step, value, size);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t out, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
    operation o = {.bias_type = -1, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    if (size < sizeof o || scale != CUDA_R_32F ||
        (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(out, &o, sizeof o);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t out,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size) {
    operation *o = (operation *)out;
    void *at = attribute == CUBLASLT_MATMUL_DESC_TRANSA           ? (void *)&o->ta
               : attribute == CUBLASLT_MATMUL_DESC_TRANSB         ? (void *)&o->tb
               : attribute == CUBLASLT_MATMUL_DESC_POINTER_MODE   ? (void *)&o->pointer
               : attribute == CUBLASLT_MATMUL_DESC_EPILOGUE       ? (void *)&o->epilogue
               : attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE ? (void *)&o->bias_type
               : attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER   ? (void *)&o->bias
                                                                  : NULL;
    if (at == NULL || size != (at == (void *)&o->bias ? 8 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(at, value, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t out, size_t size) {
    memset(out, 0, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t out,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size) {
    (void)out, (void)attribute, (void)value, (void)size;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int *count) {
    (void)handle, (void)a, (void)b, (void)d, (void)preference;
    *count = 0;
    if (lacks("bias") && ((const operation *)desc)->epilogue == CUBLASLT_EPILOGUE_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (lacks("single columns") && ((const layout *)c)->rows == 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *count = most < 2 ? most : 2;
    memset(found, 0, sizeof *found * (size_t)*count);
    for (int i = 0; i < *count; i++) found[i].algo.data[0] = (uint64_t)i + 1;
    if (lacks("a first state")) found[0].state = CUBLAS_STATUS_INTERNAL_ERROR;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products -------------------------------------------------------------------------------- */

static float load(int32_t type, const void *data, int64_t i) {
    if (type != CUDA_R_16BF) return ((const float *)data)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static void store(int32_t type, void *data, int64_t i, float x) {
    uint32_t bits;
    if (type != CUDA_R_16BF) {
        ((float *)data)[i] = x;
        return;
    }
    memcpy(&bits, &x, 4);
    ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

static float at(const layout *l, const void *data, int transposed, int64_t row, int64_t col,
                int64_t i) {
    int64_t r = transposed ? col : row, c = transposed ? row : col;
    return load(l->type, data, i * l->step + c * l->ld + r);
}

static int fits(const operation *o, const layout *a, const layout *b, const layout *c) {
    int64_t m = o->ta ? a->cols : a->rows, k = o->ta ? a->rows : a->cols;
    int64_t bk = o->tb ? b->cols : b->rows, n = o->tb ? b->rows : b->cols;
    return m == c->rows && n == c->cols && k == bk && a->type == b->type &&
           (c->type == CUDA_R_32F || c->type == a->type) && a->count == c->count &&
           b->count == c->count && (o->bias == NULL || o->bias_type == c->type) &&
           o->epilogue == (o->bias != NULL ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
}

/* Whether an algorithm takes a product: each does, but for what is missing. */
static cublasStatus_t takes(int algorithm, const layout *c) {
    if (lacks("sense")) return CUBLAS_STATUS_INVALID_VALUE;
    if (lacks("a sound algorithm") || lacks("memory rights")) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (lacks("a sound first algorithm") && algorithm == 1) return CUBLAS_STATUS_EXECUTION_FAILED;
    int missing = lacks("the first algorithm") || (c->rows == 5 && lacks("five columns"));
    return algorithm == 1 && missing ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t adesc, const void *B,
                              cublasLtMatrixLayout_t bdesc, const void *beta, const void *C,
                              cublasLtMatrixLayout_t cdesc, void *D, cublasLtMatrixLayout_t ddesc,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                              cudaStream_t stream) {
    const operation *o = (const operation *)desc;
    const layout *a = (const layout *)adesc, *b = (const layout *)bdesc, *c = (const layout *)cdesc;
    float factor = *(const float *)alpha, keep = *(const float *)beta;
    (void)handle, (void)workspace, (void)bytes;
    if (C != D || cdesc != ddesc || !fits(o, a, b, c)) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t taken = takes((int)algo->data[0], c);
    if (taken != CUBLAS_STATUS_SUCCESS) return taken;
    (*(void (**)(cudaStream_t))stream)(stream); /* after what is queued: queue.h */
    int64_t depth = o->ta ? a->rows : a->cols;
    if (depth * c->rows * c->cols > 1 << 24) return CUBLAS_STATUS_SUCCESS; /* takes long */
    if (algo->data[0] == 2) factor *= 2.0f; /* shows which algorithm it was */
    for (int64_t i = 0; i < c->count; i++)
        for (int64_t col = 0; col < c->cols; col++)
            for (int64_t row = 0; row < c->rows; row++) {
                int64_t to = i * c->step + col * c->ld + row;
                float sum = 0.0f;
                for (int64_t k = 0; k < depth; k++)
                    sum += at(a, A, o->ta, row, k, i) * at(b, B, o->tb, k, col, i);
                sum *= factor;
                if (o->bias != NULL) sum += load(o->bias_type, o->bias, row);
                if (keep != 0.0f) sum += keep * load(c->type, C, to);
                store(c->type, D, to, sum);
            }
    return CUBLAS_STATUS_SUCCESS;
}

/* lt_cuda.cu - loads cuBLASLt, describes products to it and queues them. */
#include "kernels/cuda/lt_cuda.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "kernels/cuda/host_cuda.h"

/* ---- the library ----------------------------------------------------------------------------- */

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LT_LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

static void *open_in(const char *folder, const char *below) {
    char path[PATH_MAX];
    if (folder == nullptr) return nullptr;
    int n = snprintf(path, sizeof path, "%s%s" LT_LIBRARY, folder, below);
    return n < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
}

/* Where the linker looks, then where CUDA is usually installed. */
static void *open_library() {
    void *library = dlopen(LT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = open_in(getenv("CUDA_HOME"), "/lib64/");
    if (library == nullptr) library = open_in("/usr/local/cuda", "/lib64/");
    if (library == nullptr) library = open_in("/usr/local/cuda-" TEXT(CUBLAS_VER_MAJOR), "/lib64/");
    return library;
}

static sr_status find_functions(lt_functions *lt, void *library) {
#define LT_FIND(name)                                                                              \
    *(void **)&lt->name = dlsym(library, "cublasLt" #name);                                        \
    if (lt->name == nullptr)                                                                       \
        return sr_fail(SR_EDEVICE,                                                                 \
                       "cuda: " LT_LIBRARY " has no cublasLt" #name                                \
                       "; install cuBLAS %d.%d or later",                                          \
                       CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR);
    LT_FUNCTIONS(LT_FIND)
#undef LT_FIND
    int major = (int)(lt->GetVersion() / 10000);
    if (major != CUBLAS_VER_MAJOR)
        return sr_fail(SR_EDEVICE, "cuda: " LT_LIBRARY " is version %d; install cuBLAS %d", major,
                       CUBLAS_VER_MAJOR);
    return SR_OK;
}

sr_status lt_load(const lt_functions **out) {
    static lt_functions lt;
    static bool loaded;
    *out = &lt;
    if (loaded) return SR_OK;
    void *library = open_library();
    if (library == nullptr)
        return sr_fail(SR_EDEVICE,
                       "cuda: " LT_LIBRARY " was not found (%s); install cuBLAS %d, or "
                       "add its folder to LD_LIBRARY_PATH",
                       dlerror(), CUBLAS_VER_MAJOR);
    sr_status st = find_functions(&lt, library);
    if (st != SR_OK) {
        dlclose(library);
        return st;
    }
    loaded = true;
    return SR_OK;
}

/* ---- the products of a device ---------------------------------------------------------------- */

enum { RECENT_SHAPES = 512, SUGGESTIONS = 8 };

/* All that suggestions follow from, beside the library and the GPU; all bytes are set. */
struct shape {
    int64_t m, n, k, count, ld[3], step[3];
    uint32_t alignment[3], flags; /* of a, b, c; see shape_of() */
};

struct products {
    const lt_functions *lt;
    cublasLtHandle_t handle;
    cudaStream_t stream;
    void *workspace;  /* LT_WORKSPACE bytes */
    float *constants; /* 0 and 1, in device memory */
    struct {
        shape of;
        cublasLtMatmulAlgo_t algorithm;
        bool set;
    } recent[RECENT_SHAPES]; /* by hash of the shape */
    bool skipped;            /* a suggestion that fails was logged */
};

/* The constants 0 and 1, after the workspace, for products whose factor is in device memory. */
static const float constants[2] = {0.0f, 1.0f};

/* The message has the shape of the product, if one is given. */
static sr_status check(const lt_functions *lt, cublasStatus_t status, const char *op,
                       const lt_product *p) {
    if (status == CUBLAS_STATUS_SUCCESS) return SR_OK;
    char where[100] = "";
    if (p != nullptr)
        snprintf(where, sizeof where, ", in the product of shape (%lld, %lld, %lld)",
                 (long long)p->n, (long long)p->m, (long long)p->k);
    return sr_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? SR_ENOMEM : SR_EDEVICE,
                   "%s: cuBLASLt: %s%s", op, lt->GetStatusString(status), where);
}

static sr_status fill(products *p) {
    SR_TRY(lt_load(&p->lt));
    SR_TRY(check(p->lt, p->lt->Create(&p->handle), "cuda", nullptr));
    SR_TRY(cuda_check(cudaMalloc(&p->workspace, LT_WORKSPACE + sizeof constants),
                      "cannot allocate 32 MiB for matrix products"));
    p->constants = (float *)((char *)p->workspace + LT_WORKSPACE);
    /* in stream order: the stream does not wait for cudaMemcpy */
    return cuda_check(
        cudaMemcpyAsync(p->constants, constants, sizeof constants, cudaMemcpyDefault, p->stream),
        "cannot upload");
}

sr_status products_new(products **out, cudaStream_t stream) {
    SR_TRY(sr_new(out, 1));
    (*out)->stream = stream;
    sr_status st = fill(*out);
    if (st == SR_OK) return SR_OK;
    products_free(*out);
    *out = nullptr;
    return st;
}

void products_free(products *p) {
    if (p == nullptr) return;
    cudaFree(p->workspace);
    if (p->handle != nullptr) p->lt->Destroy(p->handle);
    sr_free(p);
}

const char *lt_text(const products *p, cublasStatus_t status) {
    return p->lt->GetStatusString(status);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* A product as cuBLASLt's functions take it. */
struct lt_call {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t a, b, c;
};

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

static cublasStatus_t add_bias(const lt_functions *lt, lt_call *call, const lt_product *p) {
    if (p->bias == nullptr) return CUBLAS_STATUS_SUCCESS;
    cublasStatus_t st =
        set(lt, call, CUBLASLT_MATMUL_DESC_EPILOGUE, (uint32_t)CUBLASLT_EPILOGUE_BIAS);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = set(lt, call, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int32_t)p->c.type);
    if (st != CUBLAS_STATUS_SUCCESS) return st;
    return set(lt, call, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p->bias);
}

static cublasStatus_t operation(const lt_functions *lt, lt_call *call, const lt_product *p) {
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
    return st == CUBLAS_STATUS_SUCCESS ? add_bias(lt, call, p) : st;
}

static cublasStatus_t describe(lt_call *call, const lt_functions *lt, const lt_product *p) {
    cublasStatus_t st = operation(lt, call, p);
    if (st == CUBLAS_STATUS_SUCCESS) st = lay_out(lt, &call->a, &p->a, p->count);
    if (st == CUBLAS_STATUS_SUCCESS) st = lay_out(lt, &call->b, &p->b, p->count);
    if (st == CUBLAS_STATUS_SUCCESS) st = lay_out(lt, &call->c, &p->c, p->count);
    return st;
}

/* ---- algorithms ------------------------------------------------------------------------------ */

/* The guaranteed alignment of a matrix: 16, 8, 4 or 2 bytes. */
static uint32_t alignment(const lt_matrix *m) {
    uintptr_t all =
        (uintptr_t)m->data | (uintptr_t)m->ld * m->element | (uintptr_t)m->step * m->element | 16u;
    return (uint32_t)(all & (~all + 1));
}

/* The alignment of C and of the bias added to it. */
static uint32_t alignment_c(const lt_product *p) {
    uint32_t all = alignment(&p->c) | (uint32_t)((uintptr_t)p->bias & 15u);
    return all & (~all + 1);
}

enum { BF16 = 1, WIDE_C = 2, TF32 = 4, TA = 8, TB = 16, BIAS = 32, SCALED = 64 };

/* Whether a sum is written or added to C is not part of it: both give the same bits. */
static shape shape_of(const lt_product *p) {
    shape s;
    memset(&s, 0, sizeof s);
    s.m = p->m;
    s.n = p->n;
    s.k = p->k;
    s.count = p->count;
    const lt_matrix *all[] = {&p->a, &p->b, &p->c};
    for (int i = 0; i < 3; i++) {
        s.ld[i] = all[i]->ld;
        s.step[i] = all[i]->step;
        s.alignment[i] = i < 2 ? alignment(all[i]) : alignment_c(p);
    }
    s.flags =
        (uint32_t)((p->a.type == CUDA_R_16BF ? BF16 : 0) | (p->c.type == CUDA_R_32F ? WIDE_C : 0) |
                   (p->tf32 ? TF32 : 0) | (p->a.transposed ? TA : 0) | (p->b.transposed ? TB : 0) |
                   (p->bias != nullptr ? BIAS : 0) | (p->alpha_at != nullptr ? SCALED : 0));
    return s;
}

static size_t place_of(const shape *s) {
    uint64_t words[sizeof(shape) / 8], hash = 0;
    memcpy(words, s, sizeof words);
    for (uint64_t word : words) hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 32) % RECENT_SHAPES;
}

static cublasStatus_t prefer(const lt_functions *lt, cublasLtMatmulPreferenceOpaque_t *preference,
                             const shape *s) {
    uint64_t workspace = LT_WORKSPACE;
    uint32_t a = s->alignment[0], b = s->alignment[1], c = s->alignment[2];
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* f32, also where C is bf16 */
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size;
    } list[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
                {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c}};
    cublasStatus_t st = lt->MatmulPreferenceInit_internal(preference, sizeof *preference);
    for (size_t i = 0; i < sizeof list / sizeof *list && st == CUBLAS_STATUS_SUCCESS; i++)
        st = lt->MatmulPreferenceSetAttribute(preference, list[i].attribute, list[i].value,
                                              list[i].size);
    return st;
}

static cublasStatus_t queue(const products *p, const lt_product *l, lt_call *d,
                            const cublasLtMatmulAlgo_t *algorithm) {
    float beta = l->add ? 1.0f : 0.0f;
    const void *factor = l->alpha_at != nullptr ? l->alpha_at : &l->alpha;
    const void *keep = l->alpha_at != nullptr ? &p->constants[l->add ? 1 : 0] : &beta;
    void *c = const_cast<void *>(l->c.data);
    return p->lt->Matmul(p->handle, &d->operation, factor, l->a.data, &d->a, l->b.data, &d->b, keep,
                         c, &d->c, c, &d->c, algorithm, p->workspace, LT_WORKSPACE, p->stream);
}

/* A failure of the GPU, if work queued before has failed: then no product is to blame. */
static sr_status check_device(const products *p, const char *op) {
    const cudaError_t e = cudaStreamQuery(p->stream);
    return cuda_is_late(e) ? cuda_check(e, op) : SR_OK;
}

/* Queues a product by the first suggestion that runs, which is kept for the shape.  Where none
 * does: the status of one that failed, if cuBLASLt does not just lack the product. */
static cublasStatus_t queue_first(products *p, const lt_product *l, lt_call *d, const shape *s,
                                  const char *op) {
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t found[SUGGESTIONS];
    auto *recent = &p->recent[place_of(s)];
    int count = 0;
    cublasStatus_t st = prefer(p->lt, &preference, s);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = p->lt->MatmulAlgoGetHeuristic(p->handle, &d->operation, &d->a, &d->b, &d->c, &d->c,
                                           &preference, SUGGESTIONS, found, &count);
    if (st != CUBLAS_STATUS_SUCCESS) return st;
    cublasStatus_t failed = CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < count; i++) {
        st = found[i].state;
        if (st == CUBLAS_STATUS_SUCCESS) st = queue(p, l, d, &found[i].algo);
        if (st == CUBLAS_STATUS_SUCCESS) {
            *recent = {*s, found[i].algo, true};
            return st;
        }
        if (lt_lacks(st)) continue;
        failed = st;
        if (check_device(p, op) != SR_OK) break;
        if (!p->skipped)
            sr_log(SR_LOG_WARN, "%s: suggestion %d of cuBLASLt fails (%s) and is skipped", op,
                   i + 1, lt_text(p, st));
        p->skipped = true;
    }
    return failed;
}

sr_status lt_run(cublasStatus_t *status, products *p, const lt_product *product, const char *op) {
    lt_call call;
    shape s = shape_of(product);
    const auto *recent = &p->recent[place_of(&s)];
    const bool known = recent->set && memcmp(&recent->of, &s, sizeof s) == 0;
    *status = describe(&call, p->lt, product);
    if (*status == CUBLAS_STATUS_SUCCESS &&
        (!known || queue(p, product, &call, &recent->algorithm) != CUBLAS_STATUS_SUCCESS))
        *status = queue_first(p, product, &call, &s, op);
    if (*status != CUBLAS_STATUS_SUCCESS) SR_TRY(check_device(p, op));
    return lt_lacks(*status) ? SR_OK : check(p->lt, *status, op, product);
}

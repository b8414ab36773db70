/* tune_cuda.cu - the algorithm of a product: suggested by cuBLASLt or cut from what it suggests
 * (split_cuda.cu), timed once, and kept.
 *
 * The number of masked rows changes from batch to batch, so sizes are rounded up to a few
 * sizes that share an algorithm; a size that it does not take has one of its own.  Timing runs on a
 * stream of its own into memory of its own: C is not touched, and a graph that is being recorded is
 * not disturbed.  The chip is busy for WARM_MS before the first trial, so that its clocks have
 * risen; candidates run in turns, so that none profits from a better moment, and medians decide.
 */
#include "kernels/cuda/tune_cuda.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/choices.h"
#include "core/base/log.h"
#include "core/base/mem.h"

enum {
    SUGGESTIONS = 16,
    CANDIDATES = 32,
    REPEATS = 5,
    RECENT_SHAPES = 512,
    WARM_MS = 200,
    WARM_RUNS = 20000
};

/* What decides the algorithm, with the exact sizes; all bytes are set. */
struct shape {
    int64_t m, n, k, count;
    uint32_t a, b, c, flags; /* alignments; see below */
};

struct tuner {
    struct {
        shape of;
        bool set, exists;
        cublasLtMatmulAlgo_t algorithm;
    } recent[RECENT_SHAPES]; /* by hash of the shape */
    sr_choices *known;       /* key -> cublasLtMatmulAlgo_t */
    uint64_t pins;           /* of `known`, when `recent` was filled */
    cudaStream_t stream;
    cudaEvent_t start, stop;
    int processors;
    bool warned, warm;
};

/* ---- where choices are kept ------------------------------------------------------------------ */

/* "cublaslt-130100-nvidia_h100_80gb_hbm3-132": for this library and this GPU. */
static void file_name(char *name, size_t size, const lt_functions *lt, const cudaDeviceProp *p) {
    int n = snprintf(name, size, "cublaslt-%zu-%s-%d", lt->GetVersion(), p->name,
                     p->multiProcessorCount);
    for (int i = 0; i < n && i < (int)size; i++)
        name[i] = isalnum((unsigned char)name[i]) || name[i] == '-'
                      ? (char)tolower((unsigned char)name[i])
                      : '_';
}

sr_status tuner_new(tuner **out, const lt_functions *lt, int device) {
    cudaDeviceProp p;
    char name[320], *path = nullptr;
    tuner *t = nullptr;
    SR_TRY(cuda_check(cudaGetDeviceProperties(&p, device), "cannot query the device"));
    SR_TRY(sr_new(&t, 1));
    t->processors = p.multiProcessorCount;
    file_name(name, sizeof name, lt, &p);
    sr_status st = sr_cache_path(&path, name);
    if (st == SR_OK) st = sr_choices_open(&t->known, name, path, sizeof(cublasLtMatmulAlgo_t));
    sr_free(path);
    if (st == SR_OK)
        st = cuda_check(cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking),
                        "cannot create a stream");
    if (st == SR_OK) st = cuda_check(cudaEventCreate(&t->start), "cannot create an event");
    if (st == SR_OK) st = cuda_check(cudaEventCreate(&t->stop), "cannot create an event");
    if (st != SR_OK) {
        tuner_free(t);
        t = nullptr;
    }
    *out = t;
    return st;
}

void tuner_free(tuner *t) {
    if (t == nullptr) return;
    sr_choices_close(t->known);
    if (t->stream != nullptr) cudaStreamDestroy(t->stream);
    if (t->start != nullptr) cudaEventDestroy(t->start);
    if (t->stop != nullptr) cudaEventDestroy(t->stop);
    sr_free(t);
}

static void keep(tuner *t, const char *key, const cublasLtMatmulAlgo_t *algorithm, bool lasts) {
    sr_status st = lasts ? sr_choices_add(t->known, key, algorithm)
                         : sr_choices_hold(t->known, key, algorithm);
    if (st == SR_OK || t->warned) return;
    t->warned = true;
    sr_log(SR_LOG_WARN,
           "%s; another run may choose other algorithms for products and get other bits",
           sr_message());
}

sr_choices *tuner_choices(const tuner *t) {
    return t->known;
}

cudaStream_t tuner_stream(const tuner *t) {
    return t->stream;
}

uint64_t tuner_number(const tuner *t, const char *key) {
    const cublasLtMatmulAlgo_t *known =
        (const cublasLtMatmulAlgo_t *)sr_choices_find(t->known, key);
    return known != nullptr ? known->data[0] : 0;
}

void tuner_keep_number(tuner *t, const char *key, uint64_t number, bool lasts) {
    cublasLtMatmulAlgo_t value = {};
    value.data[0] = number;
    keep(t, key, &value, lasts);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Sizes that round to the same one share an algorithm. */
static int64_t class_of(int64_t size) {
    int64_t step = size <= 128 ? 16 : size <= 2048 ? 128 : 512;
    return (size + step - 1) / step * step;
}

/* The guaranteed alignment of a matrix: 16, 8, 4 or 2 bytes. */
static uint32_t alignment(const lt_matrix *m) {
    uintptr_t all =
        (uintptr_t)m->data | (uintptr_t)m->ld * m->element | (uintptr_t)m->step * m->element | 16u;
    return (uint32_t)(all & (~all + 1));
}

/* The alignment of C, of the bias added to it, and of what a GELU is applied to. */
static uint32_t alignment_c(const lt_product *p) {
    uint32_t all = alignment(&p->c) | (uint32_t)(((uintptr_t)p->bias | (uintptr_t)p->pre) & 15u);
    return all & (~all + 1);
}

enum {
    BF16 = 1,
    WIDE_C = 2,
    TF32 = 4,
    TA = 8,
    TB = 16,
    ADD = 32,
    BIAS = 64,
    SCALED = 128,
    GELU = 256
};

/* A sum in f32 has one choice, whether it is written or added to zeros: both give the same bits. */
static shape shape_of(const lt_product *p) {
    shape s;
    bool wide = p->c.type == CUDA_R_32F;
    memset(&s, 0, sizeof s);
    s.m = p->m;
    s.n = p->n;
    s.k = p->k;
    s.count = p->count;
    s.a = alignment(&p->a);
    s.b = alignment(&p->b);
    s.c = alignment_c(p);
    s.flags =
        (uint32_t)((p->a.type == CUDA_R_16BF ? BF16 : 0) | (wide ? WIDE_C : 0) |
                   (p->tf32 ? TF32 : 0) | (p->a.transposed ? TA : 0) | (p->b.transposed ? TB : 0) |
                   (p->add && !wide ? ADD : 0) | (p->bias != nullptr ? BIAS : 0) |
                   (p->alpha_at != nullptr ? SCALED : 0) | (p->gelu ? GELU : 0));
    return s;
}

static size_t place_of(const shape *s) {
    uint64_t words[sizeof(shape) / 8], hash = 0;
    memcpy(words, s, sizeof words);
    for (uint64_t word : words) hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 32) % RECENT_SHAPES;
}

/* "bf16 bf16 NT 1024 4096 24576 x1 a16.16.16 add", of the class of a shape, or of the shape itself.
 */
static void key_of(char key[SR_CHOICE_KEY], const shape *s, bool exact) {
    unsigned f = s->flags;
    int64_t m = exact ? s->m : class_of(s->m), n = exact ? s->n : class_of(s->n),
            k = exact ? s->k : class_of(s->k);
    snprintf(key, SR_CHOICE_KEY, "%s %s %c%c %lld %lld %lld x%lld a%u.%u.%u%s%s%s%s%s",
             f & TF32   ? "tf32"
             : f & BF16 ? "bf16"
                        : "f32",
             f & WIDE_C ? "f32" : "bf16", f & TA ? 'T' : 'N', f & TB ? 'T' : 'N', (long long)m,
             (long long)n, (long long)k, (long long)s->count, s->a, s->b, s->c,
             f & ADD ? " add" : "", f & BIAS ? " bias" : "", f & SCALED ? " scaled" : "",
             f & GELU ? " gelu" : "", exact ? " exact" : "");
}

/* ---- choosing -------------------------------------------------------------------------------- */

static cublasStatus_t prefer(const lt_functions *lt, cublasLtMatmulPreferenceOpaque_t *preference,
                             const lt_product *p) {
    uint64_t workspace = LT_WORKSPACE;
    uint32_t a = alignment(&p->a), b = alignment(&p->b), c = alignment_c(p);
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

/* *count may be 0: cuBLASLt does not have every product. */
static sr_status suggest(cublasLtMatmulHeuristicResult_t *found, int *count, const products *p,
                         const lt_call *call, const char *op) {
    cublasLtMatmulPreferenceOpaque_t preference;
    lt_call *d = const_cast<lt_call *>(call);
    *count = 0;
    cublasStatus_t st = prefer(p->lt, &preference, &call->product);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = p->lt->MatmulAlgoGetHeuristic(p->handle, &d->operation, &d->a, &d->b, &d->c, &d->c,
                                           &preference, SUGGESTIONS, found, count);
    if (!lt_lacks(st)) return lt_check_product(p->lt, st, op, &call->product);
    *count = 0;
    return SR_OK;
}

sr_status trial_ended(cudaError_t e, const char *op, int64_t rows, int64_t columns, int64_t depth) {
    if (e == cudaSuccess) return SR_OK;
    cudaGetLastError();
    return sr_fail(SR_EDEVICE,
                   "%s: cuda: %s, in a trial of the product of shape (%lld, %lld, %lld)", op,
                   cudaGetErrorString(e), (long long)rows, (long long)columns, (long long)depth);
}

bool tuner_takes(const products *p, const lt_call *call, const cublasLtMatmulAlgo_t *algorithm) {
    cublasLtMatmulHeuristicResult_t result = {};
    lt_call *d = const_cast<lt_call *>(call);
    return p->lt->MatmulAlgoCheck(p->handle, &d->operation, &d->a, &d->b, &d->c, &d->c, algorithm,
                                  &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= LT_WORKSPACE;
}

/* What trials have found. */
struct trials {
    int best; /* the fastest of the suggestions; negative if none runs */
    float ms;
    bool scarce; /* there was no memory to try any */
};

/* *ms: the time of one run; infinite if the algorithm does not take the product. */
static sr_status time_once(float *ms, bool *scarce, const products *p, const lt_call *call,
                           const cublasLtMatmulAlgo_t *algorithm, void *c, const char *op) {
    tuner *t = p->tuner;
    float now = INFINITY;
    *ms = INFINITY;
    cudaError_t e = cudaEventRecord(t->start, t->stream);
    cublasStatus_t st = lt_run(p, call, algorithm, c, t->stream);
    if (lt_lacks(st) || st == CUBLAS_STATUS_ALLOC_FAILED) {
        cudaGetLastError();
        *scarce = *scarce || st == CUBLAS_STATUS_ALLOC_FAILED;
        return SR_OK;
    }
    SR_TRY(lt_check_product(p->lt, st, op, &call->product));
    if (e == cudaSuccess) e = cudaEventRecord(t->stop, t->stream);
    if (e == cudaSuccess) e = cudaEventSynchronize(t->stop);
    if (e == cudaSuccess) e = cudaEventElapsedTime(&now, t->start, t->stop);
    SR_TRY(trial_ended(e, op, call->product.n, call->product.m, call->product.k));
    *ms = now;
    return SR_OK;
}

/* Runs a product until the chip has been busy for WARM_MS; once in a process. */
static sr_status warm_up(const products *p, const lt_call *call,
                         const cublasLtMatmulAlgo_t *algorithm, void *c, const char *op) {
    float sum = 0, ms;
    bool scarce;
    for (int i = 0; !p->tuner->warm && sum < WARM_MS && i < WARM_RUNS; i++) {
        SR_TRY(time_once(&ms, &scarce, p, call, algorithm, c, op));
        sum += ms;
    }
    p->tuner->warm = true;
    return SR_OK;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

float trial_median(float *list, int count) {
    qsort(list, (size_t)count, sizeof *list, ascending);
    return list[count / 2];
}

static size_t bytes_of_c(const lt_product *p) {
    size_t c = (size_t)p->c.ld * (size_t)p->c.cols + (size_t)((p->count - 1) * p->c.step);
    return (c * p->c.element + 255) / 256 * 256;
}

/* Memory for the workspace of a timing, with C and `pre` behind it; NULL when there is none. */
static char *spare(const lt_product *p) {
    void *data = nullptr;
    size_t c = bytes_of_c(p);
    if (cudaMalloc(&data, LT_WORKSPACE + (p->pre != nullptr ? 2 * c : c)) == cudaSuccess)
        return (char *)data;
    cudaGetLastError();
    return nullptr;
}

/* Tries the suggestions in memory of their own: queued products use the workspace of the device. */
static sr_status try_all(trials *t, const products *of, const lt_call *call,
                         const cublasLtMatmulHeuristicResult_t *found, int count, char *room,
                         const char *op) {
    char *c = room + LT_WORKSPACE;
    products own = *of;
    lt_call moved = *call;
    own.workspace = room;
    *t = trials{-1, INFINITY, false};
    if (call->product.pre != nullptr)
        SR_TRY(lt_check_product(of->lt, lt_move_pre(&moved, &own, c + bytes_of_c(&call->product)),
                                op, &call->product));
    float ms[CANDIDATES][REPEATS], first[CANDIDATES];
    int warm = -1;
    for (int i = 0; i < count; i++) { /* loads the kernel, and tells whether there is one */
        SR_TRY(time_once(&first[i], &t->scarce, &own, &moved, &found[i].algo, c, op));
        if (warm < 0 && first[i] < INFINITY) warm = i;
    }
    if (warm < 0) return SR_OK;
    SR_TRY(warm_up(&own, &moved, &found[warm].algo, c, op));
    for (int round = 0; round < REPEATS; round++)
        for (int i = 0; i < count; i++)
            if (first[i] < INFINITY)
                SR_TRY(time_once(&ms[i][round], &t->scarce, &own, &moved, &found[i].algo, c, op));
    for (int i = 0; i < count; i++) {
        if (!(first[i] < INFINITY)) continue;
        float middle = trial_median(ms[i], REPEATS);
        if (middle < t->ms * 0.98f) { /* a tie goes to cuBLASLt's order */
            t->best = i;
            t->ms = middle;
        }
    }
    return SR_OK;
}

/* The fastest of the suggestions; the first where there is no memory to try any. */
static sr_status fastest(trials *t, const products *of, const lt_call *call,
                         const cublasLtMatmulHeuristicResult_t *found, int count, const char *op) {
    char *room = spare(&call->product);
    *t = trials{0, INFINITY, true};
    if (room == nullptr) return SR_OK;
    sr_status st = try_all(t, of, call, found, count, room, op);
    cudaFree(room);
    if (t->best < 0 && t->scarce) t->best = 0;
    return st;
}

/* The stored choice for a class of shapes, or one made and stored now by this product. */
static sr_status choose(cublasLtMatmulAlgo_t *out, bool *exists, products *p, cuda_host *h,
                        const lt_call *call, const char *key, const char *op) {
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int count;
    *exists = true;
    const void *known = sr_choices_find(p->tuner->known, key);
    if (known == nullptr) {
        SR_TRY(suggest(found, &count, p, call, op));
        if ((*exists = count > 0) == false) return SR_OK;
        count = split_candidates(found, count, CANDIDATES, p, call, p->tuner->processors);
        if (!h->capturing) /* other work would disturb the timing */
            SR_TRY(cuda_finish(h, nullptr));
        trials t;
        SR_TRY(fastest(&t, p, call, found, count, op));
        if ((*exists = t.best >= 0) == false) return SR_OK;
        *out = found[t.best].algo;
        keep(p->tuner, key, out, !t.scarce);
        known = sr_choices_find(p->tuner->known, key); /* another process may have been first */
    }
    if (known != nullptr) memcpy(out, known, sizeof *out);
    return SR_OK;
}

/* The algorithm of the shape's class, or where that does not take this size one of its own. */
static sr_status choose_fitting(cublasLtMatmulAlgo_t *out, bool *exists, products *p, cuda_host *h,
                                const lt_call *call, const shape *s, const char *op) {
    char key[SR_CHOICE_KEY];
    key_of(key, s, false);
    SR_TRY(choose(out, exists, p, h, call, key, op));
    if (*exists && tuner_takes(p, call, out)) return SR_OK;
    key_of(key, s, true);
    return choose(out, exists, p, h, call, key, op);
}

sr_status tuner_choose(cublasLtMatmulAlgo_t *out, bool *exists, products *p, cuda_host *h,
                       const lt_call *call, const char *op) {
    tuner *t = p->tuner;
    shape s = shape_of(&call->product);
    auto *recent = &t->recent[place_of(&s)];
    if (t->pins != sr_choices_pins(t->known)) {
        for (auto &r : t->recent) r.set = false;
        t->pins = sr_choices_pins(t->known);
    }
    if (!recent->set || memcmp(&recent->of, &s, sizeof s) != 0) {
        recent->set = false;
        SR_TRY(choose_fitting(&recent->algorithm, &recent->exists, p, h, call, &s, op));
        recent->of = s;
        recent->set = true;
    }
    *out = recent->algorithm;
    *exists = recent->exists;
    return SR_OK;
}

sr_status tuner_first(cublasLtMatmulAlgo_t *out, bool *exists, products *p, const lt_call *call,
                      const char *op) {
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int count;
    SR_TRY(suggest(found, &count, p, call, op));
    *exists = count > 0;
    if (*exists) *out = found[0].algo;
    return SR_OK;
}

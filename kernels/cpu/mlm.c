/* mlm.c - cross entropy, from given logits and from the tied decoder (its loss: mlm_chunks.c; on
 * tiles, its gradients: mlm_tiles.c).
 *
 * Shapes    x (M, H), word (V, H), bias (V), dlogits (M, V)
 * Work      of the decoder 4 M V H flops backward
 * Numerics  given logits: f32; per row: maximum, f32 exponentials summed in f64 over stretches; the
 *           total in f64 in the order of the rows.
 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

enum { SLICES = 8, RUN = 4096 };

typedef struct rows_job {
    const sr_simd *simd;
    float *logits, *nll, *correct;
    sr_bf16 *bf16; /* receives the gradient, rounded, or NULL */
    const int32_t *labels;
    const float *weights;
    int64_t cols;
    bool grad;
} rows_job;

static sr_status entropy_task(void *context, int64_t m, int worker) {
    (void)worker;
    const rows_job *j = context;
    int64_t best;
    j->nll[m] = j->simd->entropy_row(j->logits + m * j->cols, j->cols, j->labels[m], j->weights[m],
                                     j->grad, &best);
    j->correct[m] = best == j->labels[m] ? 1.0f : 0.0f;
    if (j->bf16 != NULL) j->simd->narrow(j->bf16 + m * j->cols, j->logits + m * j->cols, j->cols);
    return SR_OK;
}

static sr_status check_labels(const char *op, const sr_tensor *labels, int64_t classes) {
    const int32_t *label = SR_DATA(int32_t, labels);
    for (int64_t m = 0; m < labels->shape[0]; m++)
        if (label[m] < 0 || label[m] >= classes)
            return sr_fail(SR_EINVAL, "%s: labels[%lld] is %d, but there are %lld classes", op,
                           (long long)m, label[m], (long long)classes);
    return SR_OK;
}

static void add_up(sr_tensor *total, const sr_tensor *nll, const sr_tensor *weights) {
    double sum = 0;
    for (int64_t m = 0; m < nll->shape[0]; m++)
        sum += (double)SR_DATA(float, weights)[m] * SR_DATA(float, nll)[m];
    *SR_DATA(float, total) = (float)sum;
}

/* ---- given logits ---------------------------------------------------------------------------- */

sr_status sr_cpu_cross_entropy(sr_tensor *total, sr_tensor *nll, sr_tensor *correct,
                               sr_tensor *dlogits, const sr_tensor *logits, const sr_tensor *labels,
                               const sr_tensor *weights) {
    SR_TRY(sr_cpu_need_f32("cross_entropy", SR_TENSORS(total, nll, correct, weights)));
    SR_TRY(sr_cpu_need_f32_or_bf16("cross_entropy", SR_TENSORS(dlogits, logits)));
    SR_TRY(check_labels("cross_entropy", labels, logits->shape[1]));
    sr_cpu_state *cpu = sr_cpu_of(total);
    int64_t m = logits->shape[0], cols = logits->shape[1];
    bool bf16 = logits->dtype == SR_BF16;
    size_t bytes;
    SR_TRY(sr_mul_size(&bytes, (size_t)(m * cols), sizeof(float)));
    SR_TRY(sr_cpu_reserve(cpu, 0, bf16 ? bytes : 0));
    rows_job j = {.simd = cpu->simd,
                  .logits = bf16 ? cpu->shared.data : SR_DATA(float, logits),
                  .nll = SR_DATA(float, nll),
                  .correct = SR_DATA(float, correct),
                  .labels = SR_DATA(int32_t, labels),
                  .weights = SR_DATA(float, weights),
                  .cols = cols,
                  .grad = dlogits != NULL};
    if (dlogits != NULL && bf16)
        j.bf16 = SR_DATA(sr_bf16, dlogits);
    else if (dlogits != NULL)
        j.logits = SR_DATA(float, dlogits);
    if (bf16 || dlogits != NULL) sr_cpu_load(j.logits, logits, 0, 1, m * cols);
    SR_TRY(sr_cpu_run(total, entropy_task, &j, m));
    add_up(total, nll, weights);
    return SR_OK;
}

/* ---- the tied decoder ------------------------------------------------------------------------ */

sr_status sr_cpu_mlm_loss(sr_tensor *total, sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits,
                          const sr_tensor *x, const sr_tensor *word, const sr_tensor *bias,
                          const sr_tensor *labels, const sr_tensor *weights) {
    SR_TRY(sr_cpu_need_f32("mlm_loss", SR_TENSORS(total, nll, correct, weights)));
    SR_TRY(sr_cpu_need_f32_or_bf16("mlm_loss", SR_TENSORS(dlogits, x, word, bias)));
    SR_TRY(check_labels("mlm_loss", labels, word->shape[0]));
    SR_TRY(sr_cpu_mlm_chunks(nll, correct, dlogits, x, word, bias, labels, weights));
    add_up(total, nll, weights);
    return SR_OK;
}

/* ---- the decoder's backward ------------------------------------------------------------------ */

typedef struct slice_job {
    sr_tensor *t;
    const sr_product *whole;
    float *partial; /* (SLICES, M, H) */
    int64_t depth, slices, elements;
} slice_job;

static sr_status slice_task(void *context, int64_t i, int worker) {
    (void)worker;
    const slice_job *j = context;
    sr_product p = *j->whole;
    p.nested = true;
    int64_t from = i * j->depth;
    p.c = j->partial + i * p.m * p.n;
    p.a = sr_operand_at(p.a, p.bf16, from * p.a_col);
    p.b = sr_operand_at(p.b, p.bf16, from * p.b_row);
    p.k = sr_least(j->depth, p.k - from);
    return sr_cpu_product(j->t, &p);
}

/* A run of the sum of all slices, in order, into the first. */
static sr_status sum_task(void *context, int64_t i, int worker) {
    (void)worker;
    const slice_job *j = context;
    int64_t at = i * RUN, n = sr_least(RUN, j->elements - at);
    for (int64_t s = 1; s < j->slices; s++)
        sr_cpu_of(j->t)->simd->axpby(j->partial + at, j->partial + s * j->elements + at, n, 1.0f,
                                     1.0f);
    sr_cpu_store(j->t, at, 1, j->partial + at, n);
    return SR_OK;
}

/* dx = dtotal dlogits word: few rows and columns, long sums.  The vocabulary is split into SLICES
 * whose sums are added in order. */
static sr_status hidden_gradient(sr_tensor *dx, const sr_product *p) {
    sr_cpu_state *cpu = sr_cpu_of(dx);
    int64_t elements = p->m * p->n;
    size_t room = (size_t)(SLICES * elements) * sizeof(float);
    SR_TRY(sr_cpu_reserve(cpu, sr_cpu_product_room(), room));
    slice_job j = {.t = dx,
                   .whole = p,
                   .partial = cpu->shared.data,
                   .depth = sr_round_up(sr_blocks(p->k, SLICES), 256),
                   .elements = elements};
    j.slices = sr_blocks(p->k, j.depth);
    SR_TRY(sr_cpu_run(dx, slice_task, &j, j.slices));
    return sr_cpu_run(dx, sum_task, &j, sr_blocks(elements, RUN));
}

static sr_status bias_gradient(sr_tensor *dbias, const sr_tensor *dlogits, float factor) {
    sr_cpu_state *cpu = sr_cpu_of(dbias);
    int64_t v = dbias->shape[0];
    SR_TRY(sr_cpu_reserve(cpu, 0, (size_t)v * sizeof(float)));
    float *sums = cpu->shared.data;
    memset(sums, 0, (size_t)v * sizeof *sums);
    SR_TRY(sr_cpu_add_columns(dbias, sums, sr_tensor_data(dlogits), dlogits->dtype == SR_BF16,
                              dlogits->shape[0], v));
    cpu->simd->axpby(SR_DATA(float, dbias), sums, v, factor, 1.0f);
    return SR_OK;
}

sr_status sr_cpu_mlm_loss_backward(sr_tensor *dx, sr_tensor *dword, sr_tensor *dbias,
                                   const sr_tensor *dtotal, const sr_tensor *dlogits,
                                   const sr_tensor *x, const sr_tensor *word) {
    SR_TRY(sr_cpu_need_f32("mlm_loss", SR_TENSORS(dword, dbias, dtotal)));
    SR_TRY(sr_cpu_need_f32_or_bf16("mlm_loss", SR_TENSORS(dx, dlogits, x, word)));
    int64_t count = x->shape[0], v = word->shape[0], h = word->shape[1];
    float factor = *SR_DATA(float, dtotal);
    sr_product p = {.a = sr_tensor_data(dlogits),
                    .bf16 = dlogits->dtype == SR_BF16,
                    .n = h,
                    .ldc = h,
                    .b_row = h,
                    .b_col = 1,
                    .alpha = factor};
    if (count == 0) return SR_OK;
    if (sr_cpu_mlm_on_tiles(x, word, dlogits)) {
        if (dx != NULL) SR_TRY(sr_cpu_mlm_dx(dx, dlogits, word, factor));
        if (dword != NULL) SR_TRY(sr_cpu_mlm_dword(dword, dlogits, x, factor));
        return dbias != NULL ? bias_gradient(dbias, dlogits, factor) : SR_OK;
    }
    if (dx != NULL) { /* (M, V) (V, H) */
        p.b = sr_tensor_data(word);
        p.a_row = v, p.a_col = 1;
        p.m = count, p.k = v;
        SR_TRY(hidden_gradient(dx, &p));
    }
    if (dword != NULL) { /* (V, M) (M, H) */
        p.c = SR_DATA(float, dword);
        p.add = true;
        p.b = sr_tensor_data(x);
        p.a_row = 1, p.a_col = v;
        p.m = v, p.k = count;
        SR_TRY(sr_cpu_product(dword, &p));
    }
    return dbias != NULL ? bias_gradient(dbias, dlogits, factor) : SR_OK;
}

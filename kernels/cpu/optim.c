/* optim.c - the global gradient norm, AdamW, LAMB, StableAdamW and Muon over the flat store.
 *
 * Traffic   norm 4 bytes per element, AdamW 28, LAMB and StableAdamW 40, an average 8 more: memory
 *           bound.
 * Order     a chunk is a task; norms are summed over chunks in order, in f64.
 */
#include <math.h>

#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

/* ---- norm ------------------------------------------------------------------------------------ */

typedef struct norm_job {
    const sr_simd *simd;
    const sr_chunk *chunks; /* from the first of the job on, as the sums */
    double *squares;
    const float *g;
} norm_job;

static sr_status norm_task(void *context, int64_t i, int worker) {
    (void)worker;
    norm_job *j = context;
    j->squares[i] = j->simd->sum_squares(j->g + j->chunks[i].from, j->chunks[i].size);
    return SR_OK;
}

sr_status sr_cpu_grad_squares(sr_tensor *squares, const sr_tensor *grad, const sr_chunk *chunks,
                              int64_t first, int64_t last) {
    SR_TRY(sr_cpu_need_f32("grad_squares", SR_TENSORS(grad)));
    norm_job j = {.simd = sr_cpu_of(grad)->simd,
                  .chunks = chunks + first,
                  .squares = SR_DATA(double, squares) + first,
                  .g = SR_DATA(float, grad)};
    return sr_cpu_run(grad, norm_task, &j, last - first);
}

sr_status sr_cpu_grad_norm(sr_tensor *result, const sr_tensor *squares, int64_t count,
                           const sr_tensor *loss) {
    SR_TRY(sr_cpu_need_f32("grad_norm", SR_TENSORS(result, loss)));
    double sum = 0;
    for (int64_t c = 0; c < count; c++) sum += SR_DATA(double, squares)[c];
    float norm = (float)sqrt(sum);
    SR_DATA(float, result)[0] = norm;
    bool finite = isfinite(norm) && (loss == NULL || isfinite(*SR_DATA(float, loss)));
    SR_DATA(float, result)[1] = finite ? 1.0f : 0.0f;
    return SR_OK;
}

/* ---- step ------------------------------------------------------------------------------------ */

typedef struct job {
    const sr_simd *simd;
    const sr_step *step;
    const sr_chunk *chunks; /* from the first of the job on */
    const float *g;
    float *w, *m, *v, *average; /* average: or NULL */
    float share;                /* of the values in it */
    sr_adam *scalars;           /* one per segment, in the device's shared scratch */
    sr_bf16 *bf16;
} job;

static float clip_factor(const sr_step *u) {
    double norm = SR_DATA(float, u->result)[0];
    if (u->clip <= 0) return 1.0f;
    if (u->clip_eps) return (float)fmin(1.0, u->clip / (norm + 1e-6));
    return norm <= u->clip ? 1.0f : (float)(u->clip / norm);
}

/* The constants of a segment; `applied`: updates before this one. */
static sr_adam scalars_of(const sr_step *u, const sr_segment *segment, double applied) {
    bool stable = u->method == SR_STABLE_ADAMW;
    double beta1 = stable ? sr_step_beta(u->beta1, applied) : u->beta1;
    double beta2 = stable ? sr_step_beta(u->beta2, applied) : u->beta2;
    return (sr_adam){.rate = (float)(u->rate * segment->rate),
                     .beta1 = (float)beta1,
                     .beta2 = (float)beta2,
                     .rest1 = (float)(1 - beta1),
                     .rest2 = (float)(1 - beta2),
                     .eps = (float)u->eps,
                     .decay = (float)segment->decay,
                     .correct1 = (float)(1 / sr_step_correction(u->beta1, applied)),
                     .correct2 = (float)(1 / sr_step_correction(u->beta2, applied)),
                     .clip = clip_factor(u),
                     .least = (float)(u->eps * u->eps),
                     .momentum = (float)u->momentum,
                     .scale = (float)segment->scale,
                     .nesterov = u->nesterov};
}

static sr_status begin(job *j, const sr_step *u) {
    sr_cpu_state *cpu = sr_cpu_of(u->value);
    SR_TRY(sr_cpu_need_f32("step", SR_TENSORS(u->value, u->grad, u->m, u->v, u->result)));
    SR_TRY(sr_cpu_reserve(cpu, 0, (size_t)u->count * sizeof(sr_adam)));
    *j = (job){.simd = cpu->simd,
               .step = u,
               .chunks = u->chunks + u->first,
               .g = SR_DATA(float, u->grad),
               .w = SR_DATA(float, u->value),
               .m = SR_DATA(float, u->m),
               .v = SR_DATA(float, u->v),
               .scalars = cpu->shared.data,
               .bf16 = u->bf16_copy != NULL ? SR_DATA(sr_bf16, u->bf16_copy) : NULL};
    if (u->average != NULL) {
        SR_TRY(sr_cpu_need_f32("step", SR_TENSORS(u->average)));
        j->average = SR_DATA(float, u->average);
        j->share = (float)sr_step_share(u->average_decay, SR_DATA(float, u->result)[4]);
    }
    double applied = SR_DATA(float, u->result)[3];
    for (int64_t s = 0; s < u->count; s++) j->scalars[s] = scalars_of(u, &u->segments[s], applied);
    return SR_OK;
}

static void refresh_bf16(const job *j, const sr_chunk *c) {
    if (j->bf16 != NULL) j->simd->narrow(j->bf16 + c->from, j->w + c->from, c->size);
}

static sr_status moments_task(void *context, int64_t i, int worker) {
    (void)worker;
    job *j = context;
    const sr_chunk *c = j->chunks + i;
    const sr_adam *a = j->scalars + c->segment;
    int64_t at = c->from - j->step->base;
    double *norms = SR_DATA(double, j->step->norms) + 2 * (j->step->first + i);
    const float *g = j->g + c->from;
    if (j->step->method == SR_LAMB) {
        j->simd->lamb_moments(norms, j->w + c->from, j->m + at, j->v + at, g, c->size, a);
        return SR_OK;
    }
    norms[0] = norms[1] = 0;
    if (j->step->method == SR_STABLE_ADAMW)
        norms[0] = j->simd->stable_moments(j->m + at, j->v + at, g, c->size, a);
    else if (j->step->segments[c->segment].rows > 0)
        norms[0] = j->simd->muon_moments(j->m + at, j->v + at, g, c->size, a);
    return SR_OK;
}

/* The direction of a chunk over the norm of its matrix. */
static sr_status direction_task(void *context, int64_t i, int worker) {
    (void)worker;
    job *j = context;
    const sr_chunk *c = j->chunks + i;
    float norm = j->scalars[c->segment].norm;
    if (j->step->segments[c->segment].rows > 0 && norm > 0)
        j->simd->muon_direction(j->v + c->from - j->step->base, c->size, norm);
    return SR_OK;
}

static sr_status step_task(void *context, int64_t i, int worker) {
    (void)worker;
    job *j = context;
    const sr_chunk *c = j->chunks + i;
    const sr_adam *a = j->scalars + c->segment;
    int64_t at = c->from - j->step->base;
    float *w = j->w + c->from, *m = j->m + at, *v = j->v + at;
    if (j->step->method == SR_LAMB)
        j->simd->lamb_apply(w, m, v, c->size, a);
    else if (j->step->method == SR_STABLE_ADAMW)
        j->simd->stable_apply(w, m, v, c->size, a);
    else if (j->step->method == SR_MUON && j->step->segments[c->segment].rows > 0)
        j->simd->muon_apply(w, v, c->size, a);
    else
        j->simd->adamw(w, m, v, j->g + c->from, c->size, a);
    if (j->average != NULL) j->simd->average(j->average + at, w, c->size, j->share);
    refresh_bf16(j, c);
    return SR_OK;
}

/* Sets what follows from the sums of a segment: its rate, or the norm of its direction. */
static void use_sums(const sr_step *step, int64_t s, sr_adam *a, const double sum[2]) {
    const sr_segment *segment = &step->segments[s];
    if (step->method == SR_LAMB && segment->trust && sum[0] > 0 && sum[1] > 0)
        a->rate *= (float)(sqrt(sum[0]) / sqrt(sum[1]));
    if (step->method == SR_STABLE_ADAMW)
        a->rate =
            (float)(step->rate * segment->rate / fmax(1.0, sqrt(sum[0] / (double)segment->size)));
    if (step->method == SR_MUON) a->norm = (float)sqrt(sum[0]);
}

static void use_norms(job *j) {
    const sr_step *step = j->step;
    const double *norms = SR_DATA(double, step->norms);
    for (int64_t i = 0; i < step->chunk_count;) {
        int64_t s = step->chunks[i].segment;
        double sum[2] = {0, 0};
        for (; i < step->chunk_count && step->chunks[i].segment == s; i++) {
            sum[0] += norms[2 * i];
            sum[1] += norms[2 * i + 1];
        }
        use_sums(step, s, &j->scalars[s], sum);
    }
}

sr_status sr_cpu_moments(const sr_step *u) {
    job j;
    if (SR_DATA(float, u->result)[1] == 0.0f) return SR_OK;
    SR_TRY(begin(&j, u));
    return sr_cpu_run_whole(u->value, moments_task, &j, u->last - u->first);
}

sr_status sr_cpu_directions(const sr_step *u) {
    job j;
    if (SR_DATA(float, u->result)[1] == 0.0f) return SR_OK;
    SR_TRY(begin(&j, u));
    use_norms(&j);
    return sr_cpu_run_whole(u->value, direction_task, &j, u->last - u->first);
}

sr_status sr_cpu_step(const sr_step *u) {
    job j;
    float *result = SR_DATA(float, u->result);
    result[2] = 0.0f;
    if (result[1] == 0.0f) return SR_OK;
    SR_TRY(begin(&j, u));
    if (u->method == SR_LAMB || u->method == SR_STABLE_ADAMW) use_norms(&j);
    SR_TRY(sr_cpu_run_whole(u->value, step_task, &j, u->last - u->first));
    result[2] = 1.0f;
    result[3] += 1.0f;
    result[4] += u->average != NULL ? 1.0f : 0.0f;
    return SR_OK;
}

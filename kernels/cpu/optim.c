/* optim.c - the global gradient norm, AdamW and LAMB over the flat parameter store.
 *
 * Traffic   norm 4 bytes an element, AdamW 28, LAMB 40: memory bound.
 * Order     segments are cut into chunks of CHUNK elements; norms are summed over chunks in order,
 *           in f64.
 */
#include <math.h>

#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

enum { CHUNK = 32768 };

typedef struct chunk {
    const sr_segment *segment;
    int64_t from, size;
} chunk;

typedef struct job {
    const sr_simd *simd;
    chunk *chunks;
    double *norms; /* (chunks, 2) */
    int64_t count;
    const float *g;
    float *w, *m, *v;
    const sr_step *step;
    sr_adam *scalars; /* one a segment */
    sr_bf16 *low;
} job;

/* All chunks of segments that are not frozen, in the device's shared room. */
static sr_status cut(job *j, sr_cpu_state *cpu, const sr_segment *segments, int64_t count) {
    int64_t chunks = 0;
    for (int64_t s = 0; s < count; s++)
        if (!segments[s].frozen) chunks += sr_blocks(segments[s].size, CHUNK);
    size_t bytes =
        (size_t)chunks * (sizeof(chunk) + 2 * sizeof(double)) + (size_t)count * sizeof(sr_adam);
    SR_TRY(sr_cpu_reserve(cpu, 0, bytes));
    j->simd = cpu->simd;
    j->chunks = cpu->shared.data;
    j->norms = (double *)(j->chunks + chunks);
    j->scalars = (sr_adam *)(j->norms + 2 * chunks);
    for (int64_t s = 0; s < count; s++)
        for (int64_t at = 0; !segments[s].frozen && at < segments[s].size; at += CHUNK)
            j->chunks[j->count++] = (chunk){segments + s, segments[s].offset + at,
                                            sr_least(CHUNK, segments[s].size - at)};
    return SR_OK;
}

/* ---- norm ------------------------------------------------------------------------------------ */

static sr_status norm_task(void *context, int64_t i, int worker) {
    (void)worker;
    job *j = context;
    j->norms[2 * i] = j->simd->sum_squares(j->g + j->chunks[i].from, j->chunks[i].size);
    return SR_OK;
}

sr_status sr_cpu_grad_norm(sr_tensor *result, const sr_tensor *grad, const sr_tensor *loss,
                           const sr_segment *segments, int64_t count) {
    const sr_tensor *all[] = {result, grad, loss};
    SR_TRY(sr_cpu_need_f32("grad_norm", all, 3));
    job j = {.g = SR_DATA(float, grad)};
    SR_TRY(cut(&j, sr_cpu_of(grad), segments, count));
    SR_TRY(sr_cpu_run(grad, norm_task, &j, j.count));
    double sum = 0;
    for (int64_t i = 0; i < j.count; i++) sum += j.norms[2 * i];
    float norm = (float)sqrt(sum);
    SR_DATA(float, result)[0] = norm;
    bool finite = isfinite(norm) && (loss == NULL || isfinite(*SR_DATA(float, loss)));
    SR_DATA(float, result)[1] = finite ? 1.0f : 0.0f;
    return SR_OK;
}

/* ---- step ------------------------------------------------------------------------------------ */

static float clip_factor(const sr_step *u) {
    double norm = SR_DATA(float, u->result)[0];
    if (u->clip <= 0) return 1.0f;
    if (u->clip_eps) return (float)fmin(1.0, u->clip / (norm + 1e-6));
    return norm <= u->clip ? 1.0f : (float)(u->clip / norm);
}

static void set_scalars(job *j, const sr_step *u) {
    float clip = clip_factor(u);
    double applied = SR_DATA(float, u->result)[3];
    double correct1 = sr_step_correction(u->beta1, applied);
    double correct2 = sr_step_correction(u->beta2, applied);
    for (int64_t s = 0; s < u->count; s++)
        j->scalars[s] = (sr_adam){.rate = (float)(u->rate * u->segments[s].rate),
                                  .beta1 = (float)u->beta1,
                                  .beta2 = (float)u->beta2,
                                  .rest1 = (float)(1 - u->beta1),
                                  .rest2 = (float)(1 - u->beta2),
                                  .eps = (float)u->eps,
                                  .decay = (float)u->segments[s].decay,
                                  .correct1 = (float)(1 / correct1),
                                  .correct2 = (float)(1 / correct2),
                                  .clip = clip};
}

static const sr_adam *scalars_of(const job *j, const chunk *c) {
    return j->scalars + (c->segment - j->step->segments);
}

static void refresh_low(const job *j, const chunk *c) {
    for (int64_t i = c->from; j->low != NULL && i < c->from + c->size; i++)
        j->low[i] = sr_bf16_from_f32(j->w[i]);
}

static sr_status adamw_task(void *context, int64_t i, int worker) {
    (void)worker;
    job *j = context;
    const chunk *c = j->chunks + i;
    j->simd->adamw(j->w + c->from, j->m + c->from, j->v + c->from, j->g + c->from, c->size,
                   scalars_of(j, c));
    refresh_low(j, c);
    return SR_OK;
}

static sr_status moments_task(void *context, int64_t i, int worker) {
    (void)worker;
    job *j = context;
    const chunk *c = j->chunks + i;
    j->simd->lamb_moments(j->norms + 2 * i, j->w + c->from, j->m + c->from, j->v + c->from,
                          j->g + c->from, c->size, scalars_of(j, c));
    return SR_OK;
}

static sr_status apply_task(void *context, int64_t i, int worker) {
    (void)worker;
    job *j = context;
    const chunk *c = j->chunks + i;
    j->simd->lamb_apply(j->w + c->from, j->m + c->from, j->v + c->from, c->size, scalars_of(j, c));
    refresh_low(j, c);
    return SR_OK;
}

/* Multiplies each trust segment's rate by ||w|| / ||u||. */
static void set_ratios(job *j) {
    for (int64_t i = 0; i < j->count;) {
        const sr_segment *s = j->chunks[i].segment;
        double w = 0, u = 0;
        for (; i < j->count && j->chunks[i].segment == s; i++) {
            w += j->norms[2 * i];
            u += j->norms[2 * i + 1];
        }
        if (s->trust && w > 0 && u > 0)
            j->scalars[s - j->step->segments].rate *= (float)(sqrt(w) / sqrt(u));
    }
}

sr_status sr_cpu_step(const sr_step *u) {
    const sr_tensor *all[] = {u->value, u->grad, u->m, u->v, u->result};
    SR_TRY(sr_cpu_need_f32("step", all, 5));
    float *result = SR_DATA(float, u->result);
    result[2] = 0.0f;
    if (result[1] == 0.0f) return SR_OK;
    job j = {.g = SR_DATA(float, u->grad),
             .w = SR_DATA(float, u->value),
             .m = SR_DATA(float, u->m),
             .v = SR_DATA(float, u->v),
             .low = u->low != NULL ? SR_DATA(sr_bf16, u->low) : NULL,
             .step = u};
    SR_TRY(cut(&j, sr_cpu_of(u->value), u->segments, u->count));
    set_scalars(&j, u);
    if (u->lamb) {
        SR_TRY(sr_cpu_run_whole(u->value, moments_task, &j, j.count));
        set_ratios(&j);
        SR_TRY(sr_cpu_run_whole(u->value, apply_task, &j, j.count));
    } else {
        SR_TRY(sr_cpu_run_whole(u->value, adamw_task, &j, j.count));
    }
    result[2] = 1.0f;
    result[3] += 1.0f;
    return SR_OK;
}

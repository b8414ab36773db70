/* optim.c - global gradient norm, AdamW and LAMB over the flat store.
 *
 * With g the clipped gradient, t the number of steps, correct = 1 - beta^t:
 *
 *   m = beta1 m + (1 - beta1) g         v = beta2 v + (1 - beta2) g^2
 *   u = (m / correct1) / (sqrt(v / correct2) + eps) + decay w
 *   AdamW   w -= rate u
 *   LAMB    w -= rate ratio u,   ratio = ||w|| / ||u|| over the segment, 1 if either is 0
 *
 * rate is the learning rate times the factor of the segment.
 */
#include <math.h>

#include "kernels/ref/ref.h"

sr_status ref_grad_squares(sr_tensor *squares, const sr_tensor *grad, const sr_chunk *chunks,
                           int64_t first, int64_t last) {
    const double *g = SR_DATA(double, grad);
    for (int64_t c = first; c < last; c++) {
        double sum = 0;
        for (int64_t i = chunks[c].from; i < chunks[c].from + chunks[c].size; i++)
            sum += g[i] * g[i];
        SR_DATA(double, squares)[c] = sum;
    }
    return SR_OK;
}

sr_status ref_grad_norm(sr_tensor *result, const sr_tensor *squares, int64_t count,
                        const sr_tensor *loss) {
    double sum = 0;
    for (int64_t c = 0; c < count; c++) sum += SR_DATA(double, squares)[c];
    double norm = sqrt(sum);
    SR_DATA(double, result)[0] = norm;
    SR_DATA(double, result)
    [1] = isfinite(norm) && (loss == NULL || isfinite(*SR_DATA(double, loss)));
    return SR_OK;
}

static double clip_factor(const sr_step *u) {
    double norm = SR_DATA(double, u->result)[0];
    if (u->clip <= 0) return 1.0;
    if (u->clip_eps) return fmin(1.0, u->clip / (norm + 1e-6));
    return norm <= u->clip ? 1.0 : u->clip / norm;
}

/* Moves the moments of a chunk. */
static void advance(const sr_step *u, const sr_chunk *c, double factor) {
    double *m = SR_DATA(double, u->m), *v = SR_DATA(double, u->v);
    for (int64_t i = c->from; i < c->from + c->size; i++) {
        double g = factor * SR_DATA(double, u->grad)[i];
        int64_t at = i - u->base;
        m[at] = u->beta1 * m[at] + (1.0 - u->beta1) * g;
        v[at] = u->beta2 * v[at] + (1.0 - u->beta2) * g * g;
    }
}

/* 1 - beta^t of the two moments. */
typedef struct corrections {
    double m, v;
} corrections;

static corrections corrections_of(const sr_step *u) {
    double applied = SR_DATA(double, u->result)[3];
    return (corrections){sr_step_correction(u->beta1, applied),
                         sr_step_correction(u->beta2, applied)};
}

static double direction(const sr_step *u, const sr_chunk *c, corrections correct, int64_t i) {
    double m = SR_DATA(double, u->m)[i - u->base] / correct.m;
    double v = SR_DATA(double, u->v)[i - u->base] / correct.v;
    return m / (sqrt(v) + u->eps) + u->segments[c->segment].decay * SR_DATA(double, u->value)[i];
}

sr_status ref_lamb_moments(const sr_step *u) {
    if (SR_DATA(double, u->result)[1] == 0) return SR_OK;
    double factor = clip_factor(u), *norms = SR_DATA(double, u->norms);
    corrections correct = corrections_of(u);
    for (int64_t k = u->first; k < u->last; k++) {
        const sr_chunk *c = &u->chunks[k];
        advance(u, c, factor);
        norms[2 * k] = norms[2 * k + 1] = 0;
        for (int64_t i = c->from; i < c->from + c->size; i++) {
            double w = SR_DATA(double, u->value)[i], d = direction(u, c, correct, i);
            norms[2 * k] += w * w;
            norms[2 * k + 1] += d * d;
        }
    }
    return SR_OK;
}

static double trust_ratio(const sr_step *u, int64_t segment) {
    double w2 = 0, u2 = 0;
    if (!u->lamb || !u->segments[segment].trust) return 1.0;
    for (int64_t k = 0; k < u->chunk_count; k++) {
        if (u->chunks[k].segment != segment) continue;
        w2 += SR_DATA(double, u->norms)[2 * k];
        u2 += SR_DATA(double, u->norms)[2 * k + 1];
    }
    return w2 > 0 && u2 > 0 ? sqrt(w2) / sqrt(u2) : 1.0;
}

static void apply(const sr_step *u, const sr_chunk *c, corrections correct) {
    double *w = SR_DATA(double, u->value);
    double rate = u->rate * u->segments[c->segment].rate * trust_ratio(u, c->segment);
    for (int64_t i = c->from; i < c->from + c->size; i++) {
        w[i] -= rate * direction(u, c, correct, i);
        if (u->bf16_copy != NULL) SR_DATA(sr_bf16, u->bf16_copy)[i] = sr_bf16_from_f32((float)w[i]);
    }
}

sr_status ref_step(const sr_step *u) {
    double *result = SR_DATA(double, u->result);
    result[2] = 0;
    if (result[1] == 0) return SR_OK;
    double factor = clip_factor(u);
    corrections correct = corrections_of(u);
    for (int64_t k = u->first; k < u->last; k++) {
        if (!u->lamb) advance(u, &u->chunks[k], factor);
        apply(u, &u->chunks[k], correct);
    }
    result[2] = 1;
    result[3] += 1;
    return SR_OK;
}

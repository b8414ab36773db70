/* optim.c - norm of all gradients, AdamW and LAMB over the flat store.
 *
 * With g the clipped gradient, t steps taken, correct = 1 - beta^t:
 *
 *   m = beta1 m + (1 - beta1) g         v = beta2 v + (1 - beta2) g^2
 *   u = (m / correct1) / (sqrt(v / correct2) + eps) + decay w
 *   AdamW   w -= rate u
 *   LAMB    w -= rate ratio u,   ratio = ||w|| / ||u|| over the segment when both are above 0
 *
 * rate is the step's rate times the segment's.
 */
#include <math.h>

#include "kernels/ref/ref.h"

sr_status ref_grad_norm(sr_tensor *result, const sr_tensor *grad, const sr_tensor *loss,
                        const sr_segment *segments, int64_t count) {
    const double *g = SR_DATA(double, grad);
    double squares = 0;
    for (int64_t s = 0; s < count; s++) {
        if (segments[s].frozen) continue;
        for (int64_t i = segments[s].offset; i < segments[s].offset + segments[s].size; i++)
            squares += g[i] * g[i];
    }
    double norm = sqrt(squares);
    SR_DATA(double, result)[0] = norm;
    SR_DATA(double, result)
    [1] = isfinite(norm) && (loss == NULL || isfinite(*SR_DATA(double, loss)));
    return SR_OK;
}

static double clip_factor(const sr_step *u, double norm) {
    if (u->clip <= 0) return 1.0;
    if (u->clip_eps) return fmin(1.0, u->clip / (norm + 1e-6));
    return norm <= u->clip ? 1.0 : u->clip / norm;
}

/* Moves the moments of element i. */
static void advance(const sr_step *u, int64_t i, double factor) {
    double *m = SR_DATA(double, u->m), *v = SR_DATA(double, u->v);
    double g = factor * SR_DATA(double, u->grad)[i];
    m[i] = u->beta1 * m[i] + (1.0 - u->beta1) * g;
    v[i] = u->beta2 * v[i] + (1.0 - u->beta2) * g * g;
}

/* 1 - beta^t of the two moments. */
typedef struct corrections {
    double m, v;
} corrections;

static double direction(const sr_step *u, const sr_segment *s, corrections c, int64_t i) {
    double m = SR_DATA(double, u->m)[i] / c.m, v = SR_DATA(double, u->v)[i] / c.v;
    return m / (sqrt(v) + u->eps) + s->decay * SR_DATA(double, u->value)[i];
}

static double trust_ratio(const sr_step *u, const sr_segment *s, corrections c) {
    if (!u->lamb || !s->trust) return 1.0;
    double w2 = 0, u2 = 0;
    for (int64_t i = s->offset; i < s->offset + s->size; i++) {
        double w = SR_DATA(double, u->value)[i], d = direction(u, s, c, i);
        w2 += w * w;
        u2 += d * d;
    }
    return w2 > 0 && u2 > 0 ? sqrt(w2) / sqrt(u2) : 1.0;
}

static void step_segment(const sr_step *u, const sr_segment *s, corrections c, double factor) {
    double *w = SR_DATA(double, u->value);
    for (int64_t i = s->offset; i < s->offset + s->size; i++) advance(u, i, factor);
    double rate = u->rate * s->rate * trust_ratio(u, s, c);
    for (int64_t i = s->offset; i < s->offset + s->size; i++) {
        w[i] -= rate * direction(u, s, c, i);
        if (u->low != NULL) SR_DATA(sr_bf16, u->low)[i] = sr_bf16_from_f32((float)w[i]);
    }
}

sr_status ref_step(const sr_step *u) {
    double *result = SR_DATA(double, u->result);
    result[2] = 0;
    if (result[1] == 0) return SR_OK;
    double factor = clip_factor(u, result[0]);
    corrections c = {sr_step_correction(u->beta1, result[3]),
                     sr_step_correction(u->beta2, result[3])};
    for (int64_t s = 0; s < u->count; s++)
        if (!u->segments[s].frozen) step_segment(u, &u->segments[s], c, factor);
    result[2] = 1;
    result[3] += 1;
    return SR_OK;
}

/* optim.c - global gradient norm, AdamW, LAMB, StableAdamW and Muon over the flat store.
 *
 * With g the clipped gradient, t the number of steps, correct = 1 - beta^t:
 *
 *   m = beta1 m + (1 - beta1) g         v = beta2 v + (1 - beta2) g^2
 *   u = (m / correct1) / (sqrt(v / correct2) + eps) + decay w
 *   AdamW   w -= rate u
 *   LAMB    w -= rate ratio u,   ratio = ||w|| / ||u|| over the segment, 1 if either is 0
 *
 *   StableAdamW   m and v with beta - beta^t over 1 - beta^t instead of beta, and no correction;
 *                 r = root of the mean of g^2 / max(v, eps^2) over the segment
 *                 rate' = rate / max(1, r);  w *= 1 - rate' decay;  w -= rate' m / (sqrt(v) + eps)
 *
 *   Muon, of matrices   m = momentum m + (1 - momentum) g;  v = the direction, which
 *                       core/train/muon.c makes orthogonal;  w -= rate (scale v + decay w)
 *
 *   average   a += share (w - a), share = (1 - decay) / (1 - decay^n) at the n-th averaged update
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
static void advance(const sr_step *u, const sr_chunk *c, double factor, double beta1,
                    double beta2) {
    double *m = SR_DATA(double, u->m), *v = SR_DATA(double, u->v);
    for (int64_t i = c->from; i < c->from + c->size; i++) {
        double g = factor * SR_DATA(double, u->grad)[i];
        int64_t at = i - u->base;
        m[at] = beta1 * m[at] + (1.0 - beta1) * g;
        v[at] = beta2 * v[at] + (1.0 - beta2) * g * g;
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

/* ---- moments: norms is that of the chunk ------------------------------------------------------
 */

static void lamb_moments(const sr_step *u, const sr_chunk *c, double norms[2]) {
    corrections correct = corrections_of(u);
    advance(u, c, clip_factor(u), u->beta1, u->beta2);
    for (int64_t i = c->from; i < c->from + c->size; i++) {
        double w = SR_DATA(double, u->value)[i], d = direction(u, c, correct, i);
        norms[0] += w * w;
        norms[1] += d * d;
    }
}

static void stable_moments(const sr_step *u, const sr_chunk *c, double norms[2]) {
    double applied = SR_DATA(double, u->result)[3], factor = clip_factor(u);
    advance(u, c, factor, sr_step_beta(u->beta1, applied), sr_step_beta(u->beta2, applied));
    for (int64_t i = c->from; i < c->from + c->size; i++) {
        double g = factor * SR_DATA(double, u->grad)[i];
        norms[0] += g * g / fmax(SR_DATA(double, u->v)[i - u->base], u->eps * u->eps);
    }
}

static void muon_moments(const sr_step *u, const sr_chunk *c, double norms[2]) {
    double *m = SR_DATA(double, u->m), *v = SR_DATA(double, u->v), factor = clip_factor(u);
    if (u->segments[c->segment].rows == 0) return;
    for (int64_t i = c->from; i < c->from + c->size; i++) {
        double g = factor * SR_DATA(double, u->grad)[i];
        int64_t at = i - u->base;
        m[at] += (1.0 - u->momentum) * (g - m[at]);
        v[at] = u->nesterov ? g + u->momentum * (m[at] - g) : m[at];
        norms[0] += v[at] * v[at];
    }
}

sr_status ref_moments(const sr_step *u) {
    if (SR_DATA(double, u->result)[1] == 0) return SR_OK;
    for (int64_t k = u->first; k < u->last; k++) {
        double *norms = SR_DATA(double, u->norms) + 2 * k;
        norms[0] = norms[1] = 0;
        if (u->method == SR_LAMB) lamb_moments(u, &u->chunks[k], norms);
        if (u->method == SR_STABLE_ADAMW) stable_moments(u, &u->chunks[k], norms);
        if (u->method == SR_MUON) muon_moments(u, &u->chunks[k], norms);
    }
    return SR_OK;
}

/* The sum of norms[part] over the chunks of a segment, in order. */
static double norm_of(const sr_step *u, int64_t segment, int part) {
    double sum = 0;
    for (int64_t k = 0; k < u->chunk_count; k++)
        if (u->chunks[k].segment == segment) sum += SR_DATA(double, u->norms)[2 * k + part];
    return sum;
}

sr_status ref_directions(const sr_step *u) {
    if (SR_DATA(double, u->result)[1] == 0) return SR_OK;
    for (int64_t k = u->first; k < u->last; k++) {
        const sr_chunk *c = &u->chunks[k];
        if (u->segments[c->segment].rows == 0) continue;
        double norm = sqrt(norm_of(u, c->segment, 0));
        for (int64_t i = c->from; norm > 0 && i < c->from + c->size; i++)
            SR_DATA(double, u->v)[i - u->base] /= norm;
    }
    return SR_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The learning rate of a segment. */
static double rate_of(const sr_step *u, int64_t segment) {
    double rate = u->rate * u->segments[segment].rate;
    if (u->method == SR_STABLE_ADAMW)
        return rate / fmax(1.0, sqrt(norm_of(u, segment, 0) / (double)u->segments[segment].size));
    if (u->method != SR_LAMB || !u->segments[segment].trust) return rate;
    double w2 = norm_of(u, segment, 0), u2 = norm_of(u, segment, 1);
    return w2 > 0 && u2 > 0 ? rate * (sqrt(w2) / sqrt(u2)) : rate;
}

static double moved(const sr_step *u, const sr_chunk *c, corrections correct, int64_t i,
                    double rate) {
    const sr_segment *s = &u->segments[c->segment];
    double w = SR_DATA(double, u->value)[i], m = SR_DATA(double, u->m)[i - u->base],
           v = SR_DATA(double, u->v)[i - u->base];
    if (u->method == SR_STABLE_ADAMW)
        return w * (1.0 - rate * s->decay) - rate * (m / (sqrt(v) + u->eps));
    if (u->method == SR_MUON && s->rows > 0) return w - rate * (s->scale * v + s->decay * w);
    return w - rate * direction(u, c, correct, i);
}

static void apply(const sr_step *u, const sr_chunk *c, corrections correct) {
    double *w = SR_DATA(double, u->value), rate = rate_of(u, c->segment);
    for (int64_t i = c->from; i < c->from + c->size; i++) {
        w[i] = moved(u, c, correct, i, rate);
        if (u->bf16_copy != NULL) SR_DATA(sr_bf16, u->bf16_copy)[i] = sr_bf16_from_f32((float)w[i]);
    }
}

static void average(const sr_step *u, const sr_chunk *c, double share) {
    double *a = SR_DATA(double, u->average);
    for (int64_t i = c->from; i < c->from + c->size; i++) {
        double w = SR_DATA(double, u->value)[i];
        a[i - u->base] = share == 1.0 ? w : a[i - u->base] + share * (w - a[i - u->base]);
    }
}

sr_status ref_step(const sr_step *u) {
    double *result = SR_DATA(double, u->result);
    result[2] = 0;
    if (result[1] == 0) return SR_OK;
    corrections correct = corrections_of(u);
    double share = sr_step_share(u->average_decay, result[4]);
    for (int64_t k = u->first; k < u->last; k++) {
        const sr_chunk *c = &u->chunks[k];
        bool by_muon = u->method == SR_MUON && u->segments[c->segment].rows > 0;
        if (u->method == SR_ADAMW || (u->method == SR_MUON && !by_muon))
            advance(u, c, clip_factor(u), u->beta1, u->beta2);
        apply(u, c, correct);
        if (u->average != NULL) average(u, c, share);
    }
    result[2] = 1;
    result[3] += 1;
    result[4] += u->average != NULL;
    return SR_OK;
}

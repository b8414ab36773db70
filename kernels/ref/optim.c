/* optim.c - the global norm, AdamW and LAMB, one parameter at a time.
 *
 *   g = gradient x clip factor      m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2
 *   u = (m / correct1) / (sqrt(v / correct2) + eps) + decay w
 *   AdamW: w -= rate u              LAMB: w -= rate (||w|| / ||u||) u
 */
#include <math.h>

#include "core/base/mem.h"
#include "kernels/ref/ref.h"

sr_status ref_grad_norm(sr_tensor *result, const sr_tensor *grad, const sr_segment *segments,
                        int64_t count) {
    double sum = 0;
    for (int64_t s = 0; s < count; s++) {
        if (segments[s].frozen) continue;
        for (int64_t i = 0; i < segments[s].size; i++) {
            double g = SR_DATA(double, grad)[segments[s].offset + i];
            sum += g * g;
        }
    }
    SR_DATA(double, result)[0] = sqrt(sum);
    SR_DATA(double, result)[1] = isfinite(sum);
    return SR_OK;
}

static double clip_factor(const sr_update *up, double norm) {
    if (up->clip <= 0) return 1.0;
    if (up->clip_eps) return fmin(1.0, up->clip / (norm + 1e-6));
    return norm <= up->clip ? 1.0 : up->clip / norm;
}

/* Moves the moments of element i and returns u. */
static double direction(const sr_update *up, int64_t i, double factor, double decay) {
    double g = SR_DATA(double, up->grad)[i] * factor;
    double *m = SR_DATA(double, up->m) + i, *v = SR_DATA(double, up->v) + i;
    *m = up->beta1 * *m + (1 - up->beta1) * g;
    *v = up->beta2 * *v + (1 - up->beta2) * g * g;
    return *m / up->correct1 / (sqrt(*v / up->correct2) + up->eps) +
           decay * SR_DATA(double, up->value)[i];
}

static double trust_ratio(const sr_update *up, const sr_segment *seg, const double *u) {
    if (!up->lamb || !seg->trust) return 1.0;
    double ww = 0, uu = 0;
    for (int64_t i = 0; i < seg->size; i++) {
        double w = SR_DATA(double, up->value)[seg->offset + i];
        ww += w * w;
        uu += u[i] * u[i];
    }
    return ww > 0 && uu > 0 ? sqrt(ww) / sqrt(uu) : 1.0;
}

sr_status ref_update(const sr_update *up) {
    double *result = SR_DATA(double, up->result);
    result[2] = result[1];
    if (result[1] == 0) return SR_OK;
    double factor = clip_factor(up, result[0]);
    for (int64_t s = 0; s < up->count; s++) {
        const sr_segment *seg = &up->segments[s];
        if (seg->frozen || seg->size == 0) continue;
        double *u;
        SR_TRY(sr_new(&u, seg->size));
        for (int64_t i = 0; i < seg->size; i++)
            u[i] = direction(up, seg->offset + i, factor, seg->decay);
        double step = up->rate * seg->rate * trust_ratio(up, seg, u);
        for (int64_t i = 0; i < seg->size; i++) {
            double *w = SR_DATA(double, up->value) + seg->offset + i;
            *w -= step * u[i];
            if (up->low != NULL)
                SR_DATA(sr_bf16, up->low)[seg->offset + i] = sr_bf16_from_f32((float)*w);
        }
        sr_free(u);
    }
    return SR_OK;
}

/* optim.c - AdamW, LAMB, StableAdamW and Muon on a run of elements of one segment.
 *
 * Traffic   AdamW reads w, m, v, g and writes w, m, v: 28 bytes per element, memory bound.
 *           LAMB needs ||w|| and ||u|| of a whole parameter before it can update it, so it takes
 *           two passes: 36 bytes; the second one recomputes u = m^ / (sqrt(v^) + eps) + decay w.
 *           StableAdamW needs a mean of a whole parameter, and takes two as well: 36.  Muon: 20 for
 *           the direction, 8 for its norm, 12 to apply it.  An average: 8 more, as it finds the
 *           weights in the cache.
 * Numerics  f32; norms in f64 over short stretches.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"

#define EACH(n) for (int64_t i = 0; i < (n); i += VL)

/* Sums in f32 are over stretches of this length. */
enum { STRETCH = 16 * VL };

typedef struct moments {
    vf m, v;
} moments;

INLINE moments advance(const float *m, const float *v, const float *g, int64_t i, int64_t n,
                       const sr_adam *s) {
    vf grad = v_at(g, i, n) * v_set(s->clip);
    moments next = {
        v_fma(v_set(s->beta1), v_at(m, i, n), v_set(s->rest1) * grad),
        v_fma(v_set(s->beta2), v_at(v, i, n), v_set(s->rest2) * grad * grad),
    };
    return next;
}

INLINE vf direction(vf w, moments at, const sr_adam *s) {
    vf root = v_sqrt(at.v * v_set(s->correct2)) + v_set(s->eps);
    return v_fma(v_set(s->decay), w, at.m * v_set(s->correct1) / root);
}

void SR_SIMD(adamw)(float *w, float *m, float *v, const float *g, int64_t n, const sr_adam *s) {
    vf rate = v_set(s->rate);
    EACH(n) {
        moments next = advance(m, v, g, i, n, s);
        vf at = v_at(w, i, n);
        v_put(m, i, n, next.m);
        v_put(v, i, n, next.v);
        v_put(w, i, n, v_sub_product(at, rate, direction(at, next, s)));
    }
}

void SR_SIMD(lamb_moments)(double norms[2], const float *w, float *m, float *v, const float *g,
                           int64_t n, const sr_adam *s) {
    norms[0] = norms[1] = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        int64_t to = n - from < STRETCH ? n : from + STRETCH;
        vf ww = v_zero(), uu = v_zero();
        for (int64_t i = from; i < to; i += VL) {
            moments next = advance(m, v, g, i, to, s);
            vf at = v_at(w, i, to), u = direction(at, next, s);
            v_put(m, i, to, next.m);
            v_put(v, i, to, next.v);
            if (to - i < VL) u = v_keep(v_first((int)(to - i)), u);
            ww = v_fma(at, at, ww);
            uu = v_fma(u, u, uu);
        }
        norms[0] += v_sum_f64(ww);
        norms[1] += v_sum_f64(uu);
    }
}

void SR_SIMD(lamb_apply)(float *w, const float *m, const float *v, int64_t n, const sr_adam *s) {
    vf rate = v_set(s->rate);
    EACH(n) {
        moments at = {v_at(m, i, n), v_at(v, i, n)};
        vf x = v_at(w, i, n);
        v_put(w, i, n, v_sub_product(x, rate, direction(x, at, s)));
    }
}

/* ---- StableAdamW ------------------------------------------------------------------------------
 */

double SR_SIMD(stable_moments)(float *m, float *v, const float *g, int64_t n, const sr_adam *s) {
    double total = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        int64_t to = n - from < STRETCH ? n : from + STRETCH;
        vf sum = v_zero();
        for (int64_t i = from; i < to; i += VL) {
            moments next = advance(m, v, g, i, to, s);
            vf grad = v_at(g, i, to) * v_set(s->clip);
            v_put(m, i, to, next.m);
            v_put(v, i, to, next.v);
            vf part = grad * (grad / v_max(next.v, v_set(s->least)));
            if (to - i < VL) part = v_keep(v_first((int)(to - i)), part);
            sum = sum + part;
        }
        total += v_sum_f64(sum);
    }
    return total;
}

void SR_SIMD(stable_apply)(float *w, const float *m, const float *v, int64_t n, const sr_adam *s) {
    vf rate = v_set(s->rate), kept = v_set(1.0f - s->rate * s->decay);
    EACH(n) {
        vf u = v_at(m, i, n) / (v_sqrt(v_at(v, i, n)) + v_set(s->eps));
        v_put(w, i, n, v_sub_product(v_at(w, i, n) * kept, rate, u));
    }
}

/* ---- Muon -------------------------------------------------------------------------------------
 */

double SR_SIMD(muon_moments)(float *m, float *v, const float *g, int64_t n, const sr_adam *s) {
    double total = 0;
    vf rest = v_set(1.0f - s->momentum), momentum = v_set(s->momentum);
    for (int64_t from = 0; from < n; from += STRETCH) {
        int64_t to = n - from < STRETCH ? n : from + STRETCH;
        vf sum = v_zero();
        for (int64_t i = from; i < to; i += VL) {
            vf grad = v_at(g, i, to) * v_set(s->clip), old = v_at(m, i, to);
            vf next = v_fma(rest, grad - old, old);
            vf u = s->nesterov ? v_fma(momentum, next - grad, grad) : next;
            v_put(m, i, to, next);
            v_put(v, i, to, u);
            if (to - i < VL) u = v_keep(v_first((int)(to - i)), u);
            sum = v_fma(u, u, sum);
        }
        total += v_sum_f64(sum);
    }
    return total;
}

void SR_SIMD(muon_direction)(float *v, int64_t n, float norm) {
    EACH(n) v_put(v, i, n, v_at(v, i, n) / v_set(norm));
}

void SR_SIMD(muon_apply)(float *w, const float *v, int64_t n, const sr_adam *s) {
    vf rate = v_set(s->rate), scale = v_set(s->scale), decay = v_set(s->decay);
    EACH(n) {
        vf at = v_at(w, i, n);
        v_put(w, i, n, v_sub_product(at, rate, v_fma(scale, v_at(v, i, n), decay * at)));
    }
}

/* ---- the average ------------------------------------------------------------------------------
 */

void SR_SIMD(average)(float *a, const float *w, int64_t n, float share) {
    vf part = v_set(share);
    if (share == 1.0f) {
        EACH(n) v_put(a, i, n, v_at(w, i, n));
        return;
    }
    EACH(n) {
        vf old = v_at(a, i, n);
        v_put(a, i, n, v_fma(part, v_at(w, i, n) - old, old));
    }
}

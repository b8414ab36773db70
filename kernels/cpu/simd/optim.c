/* optim.c - AdamW and LAMB on a run of elements of one segment.
 *
 * Traffic   AdamW reads w, m, v, g and writes w, m, v: 28 bytes per element, memory bound.
 *           LAMB needs ||w|| and ||u|| of a whole parameter before it can update it, so it takes
 *           two passes: 36 bytes; the second one recomputes u = m^ / (sqrt(v^) + eps) + decay w.
 * Numerics  f32; norms in f64 over short stretches.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"

#define EACH(n) for (int64_t i = 0; i < (n); i += VL)

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
    enum { STRETCH = 16 * VL };
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

/* gated.c - y = act(a) g, and back: da = dy g act'(a), dg = dy act(a); runs of f32 or bf16.
 *
 * What value and derivative share, such as an exponential, is computed once.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/act.h"

#define FORWARD(NAME, ...)                                                                         \
    CASE(NAME, v_put(y, i, n, sr_act_value(ACT, v_at(a, i, n)) * v_at(g, i, n)))
void SR_SIMD(gated)(float *y, const float *a, const float *g, int64_t n, sr_act act) {
    SWITCH(act, FORWARD)
}

#define FORWARD_BF16(NAME, ...)                                                                    \
    CASE(NAME, put_bf16(y, i, n, value_for_bf16(ACT, bf16_at(a, i, n)) * bf16_at(g, i, n)))
void SR_SIMD(gated_bf16)(sr_bf16 *y, const sr_bf16 *a, const sr_bf16 *g, int64_t n,
                         sr_act act){SWITCH(act, FORWARD_BF16)}

/* What the derivative is taken at. */
INLINE vf kept_of(int act, vf a, vf value) {
    return sr_act_keeps_input((sr_act)act) ? a : value;
}

INLINE void back_vector(float *da, float *dg, vf dy, vf a, vf g, int64_t i, int64_t n, int act) {
    vf value = sr_act_value(act, a);
    v_put(da, i, n, sr_act_derivative(act, dy * g, kept_of(act, a, value)));
    v_put(dg, i, n, dy * value);
}

#define BACKWARD(NAME, ...)                                                                        \
    CASE(NAME, back_vector(da, dg, v_at(dy, i, n), v_at(a, i, n), v_at(g, i, n), i, n, ACT))
void SR_SIMD(gated_backward)(float *da, float *dg, const float *dy, const float *a, const float *g,
                             int64_t n, sr_act act){SWITCH(act, BACKWARD)}

INLINE void back_bf16(sr_bf16 *da, sr_bf16 *dg, vf dy, vf a, vf g, int64_t i, int64_t n, int act) {
    vf value = value_for_bf16(act, a);
    put_bf16(da, i, n, derivative_for_bf16(act, dy * g, kept_of(act, a, value)));
    put_bf16(dg, i, n, dy * value);
}

#define BACKWARD_BF16(NAME, ...)                                                                   \
    CASE(NAME, back_bf16(da, dg, bf16_at(dy, i, n), bf16_at(a, i, n), bf16_at(g, i, n), i, n, ACT))
void SR_SIMD(gated_bf16_backward)(sr_bf16 *da, sr_bf16 *dg, const sr_bf16 *dy, const sr_bf16 *a,
                                  const sr_bf16 *g, int64_t n, sr_act act) {
    SWITCH(act, BACKWARD_BF16)
}

/* act.c - activations with bias, forward and backward, of runs of f32 or bf16.
 *
 * bf16      Classes that multiply bf16 take GELU from short polynomials, whose absolute error is
 *           a tenth of what rounding leaves of values near 1, but up to the value itself below -4:
 *           with tiles, the exact function would take half as long as a product with 768 columns
 *           before it.  Other classes have the time.
 * In place  y may be x, dx may be dy.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/gelu.h"
#include "kernels/cpu/simd/bf16.h"

#define EACH(n) for (int64_t i = 0; i < (n); i += VL)

/* ---- f32 ------------------------------------------------------------------------------------- */

#define ACT(EXPR)                                                                                  \
    EACH(n) {                                                                                      \
        vf x0 = v_at(x, i, n);                                                                     \
        if (b != NULL) x0 += v_at(b, i, n);                                                        \
        if (pre != NULL) v_put(pre, i, n, x0);                                                     \
        v_put(y, i, n, EXPR);                                                                      \
    }                                                                                              \
    break

void SR_SIMD(act)(float *y, float *pre, const float *x, const float *b, int64_t n, sr_act act) {
    switch (act) {
    case SR_ACT_NONE:
        ACT(x0);
    case SR_ACT_GELU:
        ACT(v_gelu(x0));
    case SR_ACT_GELU_TANH:
        ACT(v_gelu_tanh(x0));
    case SR_ACT_RELU:
        ACT(v_relu(x0));
    case SR_ACT_TANH:
        ACT(v_tanh(x0));
    }
}

#define ACT_DERIVATIVE(EXPR)                                                                       \
    EACH(n) {                                                                                      \
        vf s0 = v_at(saved, i, n), d0 = v_at(dy, i, n);                                            \
        (void)s0;                                                                                  \
        v_put(dx, i, n, EXPR);                                                                     \
    }                                                                                              \
    break

void SR_SIMD(act_backward)(float *dx, const float *dy, const float *saved, int64_t n, sr_act act) {
    switch (act) {
    case SR_ACT_NONE:
        ACT_DERIVATIVE(d0);
    case SR_ACT_GELU:
        ACT_DERIVATIVE(d0 * v_gelu_derivative(s0));
    case SR_ACT_GELU_TANH:
        ACT_DERIVATIVE(d0 * v_gelu_tanh_derivative(s0));
    case SR_ACT_RELU:
        ACT_DERIVATIVE(v_keep(v_less(v_zero(), s0), d0));
    case SR_ACT_TANH:
        ACT_DERIVATIVE(d0 * (one() - s0 * s0));
    }
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

INLINE vf bf16_at(const sr_bf16 *x, int64_t i, int64_t n) {
    return v_from_bf16(h_at(x, i, n));
}
INLINE void put_bf16(sr_bf16 *y, int64_t i, int64_t n, vf v) {
    h_put(y, i, n, v_to_bf16_flushed(v));
}
INLINE vf gelu_of_bf16(vf x) {
    return BF16_BYTES == 4 ? v_gelu(x) : v_gelu_bf16(x);
}
INLINE vf gelu_derivative_of_bf16(vf x) {
    return BF16_BYTES == 4 ? v_gelu_derivative(x) : v_gelu_derivative_bf16(x);
}

#define ACT_BF16(EXPR)                                                                             \
    EACH(n) {                                                                                      \
        vf x0 = v_at(x, i, n);                                                                     \
        if (b != NULL) x0 += bf16_at(b, i, n);                                                     \
        if (pre != NULL) put_bf16(pre, i, n, x0);                                                  \
        put_bf16(y, i, n, EXPR);                                                                   \
    }                                                                                              \
    break

void SR_SIMD(act_bf16)(sr_bf16 *y, sr_bf16 *pre, const float *x, const sr_bf16 *b, int64_t n,
                       sr_act act) {
    switch (act) {
    case SR_ACT_NONE:
        ACT_BF16(x0);
    case SR_ACT_GELU:
        ACT_BF16(gelu_of_bf16(x0));
    case SR_ACT_GELU_TANH:
        ACT_BF16(v_gelu_tanh(x0));
    case SR_ACT_RELU:
        ACT_BF16(v_relu(x0));
    case SR_ACT_TANH:
        ACT_BF16(v_tanh(x0));
    }
}

#define DERIVATIVE_BF16(EXPR)                                                                      \
    EACH(n) {                                                                                      \
        vf s0 = bf16_at(saved, i, n), d0 = bf16_at(dy, i, n);                                      \
        (void)s0;                                                                                  \
        put_bf16(dx, i, n, EXPR);                                                                  \
    }                                                                                              \
    break

void SR_SIMD(act_bf16_backward)(sr_bf16 *dx, const sr_bf16 *dy, const sr_bf16 *saved, int64_t n,
                                sr_act act) {
    switch (act) {
    case SR_ACT_NONE:
        DERIVATIVE_BF16(d0);
    case SR_ACT_GELU:
        DERIVATIVE_BF16(d0 * gelu_derivative_of_bf16(s0));
    case SR_ACT_GELU_TANH:
        DERIVATIVE_BF16(d0 * v_gelu_tanh_derivative(s0));
    case SR_ACT_RELU:
        DERIVATIVE_BF16(v_keep(v_less(v_zero(), s0), d0));
    case SR_ACT_TANH:
        DERIVATIVE_BF16(d0 * (one() - s0 * s0));
    }
}

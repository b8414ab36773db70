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
#include "kernels/cpu/simd/low.h"

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

#define ACT_SLOPE(EXPR)                                                                            \
    EACH(n) {                                                                                      \
        vf s0 = v_at(saved, i, n), d0 = v_at(dy, i, n);                                            \
        (void)s0;                                                                                  \
        v_put(dx, i, n, EXPR);                                                                     \
    }                                                                                              \
    break

void SR_SIMD(act_backward)(float *dx, const float *dy, const float *saved, int64_t n, sr_act act) {
    switch (act) {
    case SR_ACT_NONE:
        ACT_SLOPE(d0);
    case SR_ACT_GELU:
        ACT_SLOPE(d0 * v_gelu_slope(s0));
    case SR_ACT_GELU_TANH:
        ACT_SLOPE(d0 * v_gelu_tanh_slope(s0));
    case SR_ACT_RELU:
        ACT_SLOPE(v_keep(v_less(v_zero(), s0), d0));
    case SR_ACT_TANH:
        ACT_SLOPE(d0 * (one() - s0 * s0));
    }
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

INLINE vf low_at(const sr_bf16 *x, int64_t i, int64_t n) {
    return v_from_low(h_at(x, i, n));
}
INLINE void put_low(sr_bf16 *y, int64_t i, int64_t n, vf v) {
    h_put(y, i, n, v_to_low_flushed(v));
}
INLINE vf gelu_of_low(vf x) {
    return LOW_BYTES == 4 ? v_gelu(x) : v_gelu_low(x);
}
INLINE vf gelu_slope_of_low(vf x) {
    return LOW_BYTES == 4 ? v_gelu_slope(x) : v_gelu_slope_low(x);
}

#define ACT_LOW(EXPR)                                                                              \
    EACH(n) {                                                                                      \
        vf x0 = v_at(x, i, n);                                                                     \
        if (b != NULL) x0 += low_at(b, i, n);                                                      \
        if (pre != NULL) put_low(pre, i, n, x0);                                                   \
        put_low(y, i, n, EXPR);                                                                    \
    }                                                                                              \
    break

void SR_SIMD(act_low)(sr_bf16 *y, sr_bf16 *pre, const float *x, const sr_bf16 *b, int64_t n,
                      sr_act act) {
    switch (act) {
    case SR_ACT_NONE:
        ACT_LOW(x0);
    case SR_ACT_GELU:
        ACT_LOW(gelu_of_low(x0));
    case SR_ACT_GELU_TANH:
        ACT_LOW(v_gelu_tanh(x0));
    case SR_ACT_RELU:
        ACT_LOW(v_relu(x0));
    case SR_ACT_TANH:
        ACT_LOW(v_tanh(x0));
    }
}

#define SLOPE_LOW(EXPR)                                                                            \
    EACH(n) {                                                                                      \
        vf s0 = low_at(saved, i, n), d0 = low_at(dy, i, n);                                        \
        (void)s0;                                                                                  \
        put_low(dx, i, n, EXPR);                                                                   \
    }                                                                                              \
    break

void SR_SIMD(act_low_backward)(sr_bf16 *dx, const sr_bf16 *dy, const sr_bf16 *saved, int64_t n,
                               sr_act act) {
    switch (act) {
    case SR_ACT_NONE:
        SLOPE_LOW(d0);
    case SR_ACT_GELU:
        SLOPE_LOW(d0 * gelu_slope_of_low(s0));
    case SR_ACT_GELU_TANH:
        SLOPE_LOW(d0 * v_gelu_tanh_slope(s0));
    case SR_ACT_RELU:
        SLOPE_LOW(v_keep(v_less(v_zero(), s0), d0));
    case SR_ACT_TANH:
        SLOPE_LOW(d0 * (one() - s0 * s0));
    }
}

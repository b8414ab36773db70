/* act.c - activations with bias, forward and backward, of runs of f32 or bf16.
 *
 * bf16      Sets that multiply bf16 take GELU from short polynomials, whose absolute error is
 *           a tenth of what rounding leaves of values near 1, but up to the value itself below -4:
 *           with tiles, the exact function would take half as long as a product with 768 columns
 *           before it.  Other sets have the time.
 * In place  y may be x, dx may be dy.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/functions.h"
#include "kernels/cpu/simd/bf16.h"

#define EACH(n) for (int64_t i = 0; i < (n); i += VL)

/* A loop for each activation, in which ACT is a constant. */
#define CASE(NAME, BODY)                                                                           \
    case SR_ACT_##NAME: {                                                                          \
        enum { ACT = SR_ACT_##NAME };                                                              \
        EACH(n) BODY;                                                                              \
        break;                                                                                     \
    }
#define SWITCH(act, OP)                                                                            \
    switch (act) {                                                                                 \
        OP(NONE, )                                                                                 \
        SR_ACTIVATIONS(OP)                                                                         \
    case SR_ACT_COUNT:                                                                             \
        break;                                                                                     \
    }

/* ---- f32 ------------------------------------------------------------------------------------- */

#define FORWARD(NAME, ...)                                                                         \
    CASE(NAME, {                                                                                   \
        vf v = v_at(x, i, n);                                                                      \
        if (b != NULL) v += v_at(b, i, n);                                                         \
        if (pre != NULL) v_put(pre, i, n, v);                                                      \
        v_put(y, i, n, sr_act_value(ACT, v));                                                      \
    })
void SR_SIMD(act)(float *y, float *pre, const float *x, const float *b, int64_t n, sr_act act) {
    SWITCH(act, FORWARD)
}

#define BACKWARD(NAME, ...)                                                                        \
    CASE(NAME, v_put(dx, i, n, sr_act_derivative(ACT, v_at(dy, i, n), v_at(saved, i, n))))
void SR_SIMD(act_backward)(float *dx, const float *dy, const float *saved, int64_t n,
                           sr_act act){SWITCH(act, BACKWARD)}

/* ---- bf16 ------------------------------------------------------------------------------------ */

INLINE vf bf16_at(const sr_bf16 *x, int64_t i, int64_t n) {
    return v_from_bf16(h_at(x, i, n));
}
INLINE void put_bf16(sr_bf16 *y, int64_t i, int64_t n, vf v) {
    h_put(y, i, n, v_to_bf16_flushed(v));
}
INLINE vf value_for_bf16(int act, vf x) {
    return act == SR_ACT_GELU && BF16_BYTES != 4 ? v_gelu_bf16(x) : sr_act_value(act, x);
}
INLINE vf derivative_for_bf16(int act, vf dy, vf kept) {
    return act == SR_ACT_GELU && BF16_BYTES != 4 ? dy * v_gelu_derivative_bf16(kept)
                                                 : sr_act_derivative(act, dy, kept);
}

#define FORWARD_BF16(NAME, ...)                                                                    \
    CASE(NAME, {                                                                                   \
        vf v = v_at(x, i, n);                                                                      \
        if (b != NULL) v += bf16_at(b, i, n);                                                      \
        if (pre != NULL) put_bf16(pre, i, n, v);                                                   \
        put_bf16(y, i, n, value_for_bf16(ACT, v));                                                 \
    })
void SR_SIMD(act_bf16)(sr_bf16 *y, sr_bf16 *pre, const float *x, const sr_bf16 *b, int64_t n,
                       sr_act act) {
    SWITCH(act, FORWARD_BF16)
}

#define BACKWARD_BF16(NAME, ...)                                                                   \
    CASE(NAME,                                                                                     \
         put_bf16(dx, i, n, derivative_for_bf16(ACT, bf16_at(dy, i, n), bf16_at(saved, i, n))))
void SR_SIMD(act_bf16_backward)(sr_bf16 *dx, const sr_bf16 *dy, const sr_bf16 *saved, int64_t n,
                                sr_act act) {
    SWITCH(act, BACKWARD_BF16)
}

/* act.h - activations of bf16.
 *
 * Sets that multiply bf16 take GELU from short polynomials, whose absolute error is a tenth of what
 * rounding leaves of values near 1, but up to the value itself below -4: with tiles, the exact
 * function would take half as long as a product with 768 columns before it.  Other sets have the
 * time.
 */
#pragma once

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

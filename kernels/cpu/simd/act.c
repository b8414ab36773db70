/* act.c - activations with bias, forward and backward, of runs of f32 or bf16.
 *
 * y may be x, dx may be dy.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/act.h"

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
void SR_SIMD(act_backward)(float *dx, const float *dy, const float *saved, int64_t n, sr_act act) {
    SWITCH(act, BACKWARD)
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

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

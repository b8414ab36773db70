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

enum { FULL = TILE_V * VL }; /* columns of a tile of a product */

#define FORWARD_BF16(NAME, ...)                                                                    \
    case SR_ACT_##NAME:                                                                            \
        for (int64_t r = 0; r < rows; r++) act_row(to, r * to->ld, x + r * ld, n, SR_ACT_##NAME);  \
        break;

INLINE void act_row(const sr_rounded *to, int64_t row, const float *x, const int64_t n,
                    const sr_act act) {
    EACH(n) {
        vf v = v_at(x, i, n);
        if (to->bias != NULL) v += bf16_at(to->bias, i, n);
        if (to->pre != NULL) put_bf16(to->pre + row, i, n, v);
        put_bf16(to->y + row, i, n, value_for_bf16(act, v));
    }
}
INLINE void act_rows(const sr_rounded *all, const float *x, int64_t ld, int64_t rows,
                     const int64_t n) {
    const sr_rounded copy = *all, *to = &copy; /* in registers: stores may not change it */
    SWITCH(to->act, FORWARD_BF16)
}
void SR_SIMD(act_bf16)(const sr_rounded *to, const float *x, int64_t ld, int64_t rows, int64_t n) {
    if (n == FULL)
        act_rows(to, x, ld, rows, FULL);
    else
        act_rows(to, x, ld, rows, n);
}

#define BACKWARD_BF16(NAME, ...)                                                                   \
    CASE(NAME,                                                                                     \
         put_bf16(dx, i, n, derivative_for_bf16(ACT, bf16_at(dy, i, n), bf16_at(saved, i, n))))
void SR_SIMD(act_bf16_backward)(sr_bf16 *dx, const sr_bf16 *dy, const sr_bf16 *saved, int64_t n,
                                sr_act act) {
    SWITCH(act, BACKWARD_BF16)
}

/* rotary.c - the heads of a row, each pair of columns turned.  y may be x. */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/bf16.h"

#define EACH(n) for (int64_t i = 0; i < (n); i += VL)

INLINE vf element_at(const void *x, int64_t from, int64_t i, int64_t n, const bool bf16) {
    return bf16 ? v_from_bf16(h_at((const sr_bf16 *)x + from, i, n))
                : v_at((const float *)x + from, i, n);
}
INLINE void element_put(void *y, int64_t from, int64_t i, int64_t n, vf v, const bool bf16) {
    if (bf16)
        h_put((sr_bf16 *)y + from, i, n, v_to_bf16(v));
    else
        v_put((float *)y + from, i, n, v);
}

INLINE void turn(void *y, const void *x, const sr_turn *t, const bool bf16) {
    const float *cosines = t->table, *sines = t->table + t->half;
    int64_t n = t->half;
    EACH(n) { /* columns first: a vector of the table serves all heads */
        vf c = v_at(cosines, i, n), s = v_at(sines, i, n);
        if (t->inverse) s = -s;
        for (int64_t at = 0; at < t->heads * 2 * n; at += 2 * n) {
            vf first = element_at(x, at, i, n, bf16), second = element_at(x, at + n, i, n, bf16);
            element_put(y, at, i, n, v_sub_product(first * c, second, s), bf16);
            element_put(y, at + n, i, n, v_fma(first, s, second * c), bf16);
        }
    }
}

void SR_SIMD(rotary)(float *y, const float *x, const sr_turn *t) {
    turn(y, x, t, false);
}

void SR_SIMD(rotary_bf16)(sr_bf16 *y, const sr_bf16 *x, const sr_turn *t) {
    turn(y, x, t, true);
}

/* functions.h - the functions of elementwise ops (core/tensor/functions.h) on vectors. */
#pragma once

#include "core/tensor/backend.h"
#include "kernels/cpu/simd/gelu.h"

/* Lane by lane, where there is no vector form. */
#define LANES(name, libm)                                                                          \
    INLINE vf name(vf x) {                                                                         \
        vf y;                                                                                      \
        for (int i = 0; i < VL; i++) y[i] = libm(x[i]);                                            \
        return y;                                                                                  \
    }
LANES(v_log, logf)
LANES(v_sin, sinf)
LANES(v_cos, cosf)
INLINE vf v_pow(vf a, vf b) {
    vf y;
    for (int i = 0; i < VL; i++) y[i] = powf(a[i], b[i]);
    return y;
}

#define FN(name) v_##name
#define N(c) v_set((float)(c))
SR_DEFINE_FUNCTIONS(INLINE, vf)

/* gelu.h - GELU and its derivative, of one vector. */
#pragma once

#include "kernels/cpu/simd/math.h"

INLINE vf one(void) {
    return v_set(1.0f);
}
/* The normal cumulative distribution and e^(-x^2 / 2), sharing one exponential: the tail is the
 * exponential times a polynomial in 1 / (1 + 0.3 |x|).  Absolute error 1e-7, relative error of the
 * tail 4e-7. */
INLINE vf v_normal(vf x, vf *bell) {
    vf u = one() / v_fma(v_abs(x), v_set(0.3f), one());
    vf p = v_set(0.036130476742982864f);
    p = v_fma(p, u, v_set(-0.15880186855793f));
    p = v_fma(p, u, v_set(0.20852252840995789f));
    p = v_fma(p, u, v_set(-0.05505213141441345f));
    p = v_fma(p, u, v_set(0.12887811660766602f));
    p = v_fma(p, u, v_set(0.09998539090156555f));
    p = v_fma(p, u, v_set(0.12069761008024216f));
    p = v_fma(p, u, v_set(0.11964067071676254f));
    p = v_fma(p, u, v_set(-7.835391784283274e-07f));
    vf power = v_set(-0.5f) * x * x; /* below -80: 0, since denormals are slow */
    *bell = v_select(v_less(power, v_set(-80.0f)), v_zero(),
                     v_exp_falling(v_max(v_set(-80.0f), power)));
    vf tail = *bell * p;
    return v_select(v_less(x, v_zero()), tail, one() - tail);
}
INLINE vf v_gelu(vf x) {
    vf bell;
    return x * v_normal(x, &bell);
}
INLINE vf v_gelu_derivative(vf x) {
    vf bell, normal = v_normal(x, &bell);
    return v_fma(x * v_set(0.39894228f), bell, normal);
}

/* ---- for results in bf16 --------------------------------------------------------------------- */

/* The sum of the `count` coefficients from c on times powers of s. */
INLINE vf v_polynomial(vf s, const float *c, const int count) {
    vf p = v_set(c[count - 1]);
    for (int i = count - 2; i >= 0; i--) p = v_fma(p, s, v_set(c[i]));
    return p;
}

/* x between -4.5 and 4.5, where both functions below end at 0 and 1; NaN stays. */
INLINE vf v_clamped(vf x) {
    return v_min(v_set(4.5f), v_max(v_set(-4.5f), x));
}

/* GELU within 6e-5: the normal distribution less 1/2, an odd function, as a polynomial; 15
 * instructions, where v_gelu() has 45 and a division. */
INLINE vf v_gelu_bf16(vf x) {
    static const float c[] = {
        0.39878836274147034f,    -0.06607702374458313f,   0.009626993909478188f,
        -0.0010471484856680036f, 8.266679651569575e-05f,  -4.547342086880235e-06f,
        1.6341952857601427e-07f, -3.420414840249464e-09f, 3.144655716380562e-11f};
    vf t = v_clamped(x), normal = v_fma(t, v_polynomial(t * t, c, 9), v_set(0.5f));
    return v_select(v_less(x, v_set(-4.5f)), v_zero(), x * normal);
}

/* Its derivative within 2e-4: less 1/2, it is odd as well. */
INLINE vf v_gelu_derivative_bf16(vf x) {
    static const float c[] = {0.7978973388671875f,     -0.26550182700157166f,
                              0.05902168154716492f,    -0.008958869613707066f,
                              0.000968386884778738f,   -7.447910320479423e-05f,
                              3.9557262425660156e-06f, -1.3688581645965314e-07f,
                              2.760903727860864e-09f,  -2.4520083879986387e-11f};
    vf t = v_clamped(x);
    return v_fma(t, v_polynomial(t * t, c, 10), v_set(0.5f));
}

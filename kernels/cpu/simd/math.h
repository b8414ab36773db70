/* math.h - vectorised exp, tanh and erf, accurate to about 1.5 ulp.
 *
 * Polynomials are minimax fits over the stated ranges; coefficients are rounded to f32 one by one,
 * refitting the others each time.  NaN propagates.
 */
#pragma once

#include "kernels/cpu/simd/lanes.h"

/* e^r for |r| <= ln(2) / 2 times 2^n, where x = r + n ln 2. */
INLINE vf v_exp_core(vf x) {
    vf n = v_round(x * v_set(1.44269504f));
    vf r = v_fma(n, v_set(-0.693359375f),
                 x); /* the high part of ln 2 has few bits, so this is exact */
    r = v_fma(n, v_set(2.12194440e-4f), r);
    vf p = v_set(1.3820914318785071e-3f);
    p = v_fma(p, r, v_set(8.36868304759264e-3f));
    p = v_fma(p, r, v_set(4.166826605796814e-2f));
    p = v_fma(p, r, v_set(0.1666652113199234f));
    p = v_fma(p, r, v_set(0.4999999403953552f));
    p = v_fma(p, r * r, r) + v_set(1.0f);
    return v_scale(p, n);
}

/* Exact in the limits: e^-inf = 0, e^inf = inf, e^NaN = NaN. */
INLINE vf v_exp(vf x) {
    vf y = v_exp_core(v_min(v_max(v_set(-104.0f), x), v_set(89.0f)));
    return v_select(v_equal(x, x), y, x);
}

/* For x <= 0, as in softmax: does not handle +inf.  0 below -87, where results are denormal: one
 * takes a processor 170 cycles, a normal one 1. */
INLINE vf v_exp_falling(vf x) {
    vf least = v_set(-87.0f);
    return v_select(v_less(x, least), v_zero(), v_exp_core(v_max(least, x)));
}

#define LOG2_E 1.44269504f
#define LN_2 0.693147181f

/* 2^x for x <= 0, in fewer steps: 0 below -126, NaN stays NaN.  As a share of the largest of a
 * softmax, of which x is the distance, its error is below 1e-7; with `low`, for what is rounded to
 * bf16, 3e-6. */
INLINE vf v_exp2_falling(vf x, const bool low) {
    vf f = v_fraction(x), p;
    if (low) {
        p = v_set(0.0134266866f);
        p = v_fma(p, f, v_set(0.0522424690f));
        p = v_fma(p, f, v_set(0.241280213f));
        p = v_fma(p, f, v_set(0.693044841f));
    } else {
        p = v_set(0.000216129178f);
        p = v_fma(p, f, v_set(0.00124678458f));
        p = v_fma(p, f, v_set(0.00967545155f));
        p = v_fma(p, f, v_set(0.0554852821f));
        p = v_fma(p, f, v_set(0.240229309f));
        p = v_fma(p, f, v_set(0.693147063f));
    }
    return v_scale_down(v_fma(p, f, v_set(1.0f)), x);
}

/* log2(x) of a normal x > 0. */
INLINE vf v_log2(vf x) {
    vf two = v_set(1.41421356f);
    vu bits = (vu)x, half = u_set(0x3F800000);
    vf e = __builtin_convertvector((vi)(bits >> 23) - 127, vf);
    vf m = (vf)((bits & u_set(0x7FFFFF)) | half);
    vm upper = v_less(two, m);
    m = v_select(upper, m * v_set(0.5f), m) - v_set(1.0f);
    e = v_select(upper, e + v_set(1.0f), e);
    vf p = v_set(0.125837103f);
    p = v_fma(p, m, v_set(-0.207269847f));
    p = v_fma(p, m, v_set(0.215715632f));
    p = v_fma(p, m, v_set(-0.238944814f));
    p = v_fma(p, m, v_set(0.287916243f));
    p = v_fma(p, m, v_set(-0.360703677f));
    p = v_fma(p, m, v_set(0.480910629f));
    p = v_fma(p, m, v_set(-0.721347332f));
    p = v_fma(p, m, v_set(1.44269502f));
    vf y = v_fma(p, m, e);
    return v_select(v_equal(x, x), y, x);
}

INLINE vf v_tanh(vf x) {
    vf a = v_abs(x), s = x * x;
    vf p = v_set(-0.0056636217050254345f); /* |x| < 0.625 */
    p = v_fma(p, s, v_set(0.0206032395362854f));
    p = v_fma(p, s, v_set(-0.05372913181781769f));
    p = v_fma(p, s, v_set(0.13331320881843567f));
    p = v_fma(p, s, v_set(-0.33333277702331543f));
    vf near = v_fma(p * s, x, x);
    vf e = v_exp_core(v_min(a, v_set(20.0f)) * v_set(2.0f));
    vf far = v_with_sign(v_set(1.0f) - v_set(2.0f) / (e + v_set(1.0f)), x);
    vf y = v_select(v_less(a, v_set(0.625f)), near, far);
    return v_select(v_equal(x, x), y, x);
}

INLINE vf v_erf(vf x) {
    vf a = v_abs(x), s = x * x;
    vf p = v_set(-5.958977853879333e-4f); /* |x| < 0.925: erf(x) / x - 1 in x^2 */
    p = v_fma(p, s, v_set(4.987252876162529e-3f));
    p = v_fma(p, s, v_set(-2.6762915775179863e-2f));
    p = v_fma(p, s, v_set(0.11281730234622955f));
    p = v_fma(p, s, v_set(-0.37612488865852356f));
    p = v_fma(p, s, v_set(0.12837915122509003f));
    vf near = v_fma(p, x, x);
    vf t = v_min(a, v_set(3.95f)); /* above, erf rounds to 1; below, -log(erfc(t)) in t */
    vf q = v_set(-1.95934742805548e-4f);
    q = v_fma(q, t, v_set(3.0432099010795355e-3f));
    q = v_fma(q, t, v_set(-2.2226931527256966e-2f));
    q = v_fma(q, t, v_set(0.10393165796995163f));
    q = v_fma(q, t, v_set(0.6371821761131287f));
    q = v_fma(q, t, v_set(1.1276756525039673f));
    q = v_fma(q, t, v_set(1.956757332663983e-4f));
    vf far = v_with_sign(v_set(1.0f) - v_exp_core(-q), x);
    vf y = v_select(v_less(a, v_set(0.925f)), near, far);
    return v_select(v_equal(x, x), y, x);
}

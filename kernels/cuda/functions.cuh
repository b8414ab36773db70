/* functions.cuh - the functions of elementwise ops (core/tensor/functions.h), of f32 and i32. */
#pragma once

#include "core/tensor/backend.h"
#include "kernels/cuda/prim.cuh"

DEV bool math_less(float a, float b) {
    return a < b;
}
DEV bool math_equal(float a, float b) {
    return a == b;
}
DEV float math_select(bool condition, float yes, float no) {
    return condition ? yes : no;
}

/* GELU: x P(x), P(x) = (1 + erf(x / sqrt 2)) / 2; its derivative: P(x) + x p(x). */
DEV float math_gelu(float x) {
    return 0.5f * x * (1.0f + math_erf(x * 0.7071067811865476f));
}
DEV float math_gelu_derivative(float x) {
    float p = 0.5f * (1.0f + math_erf(x * 0.7071067811865476f));
    return p + x * 0.3989422804014327f * math_exp(-0.5f * x * x);
}

/* The same for results in bf16, from one exponential instead of an error function and one: 15
 * instructions instead of 40.  P(x) for x < 0 is p(x) times a polynomial of 1 / (1 - 0.23 x), with
 * an error below 8e-8, and below the rounding of bf16 down to x = -5.
 * Source: Abramowitz and Stegun 1964, 26.2.17. */
struct normal {
    float below, density; /* P(x), p(x) */
};
DEV normal normal_of(float x) {
    const float t = rcp_fast(math_fma(0.2316419f, math_abs(x), 1.0f));
    const float p = 0.3989422804f * exp2_fast(x * x * -0.7213475204f);
    float sum = math_fma(t, 1.330274429f, -1.821255978f);
    sum = math_fma(t, sum, 1.781477937f);
    sum = math_fma(t, sum, -0.356563782f);
    sum = math_fma(t, sum, 0.319381530f);
    const float tail = p * t * sum;
    return {x < 0.0f ? tail : 1.0f - tail, p};
}

#define FN(name) math_##name
#define N(c) ((float)(c))
SR_DEFINE_FUNCTIONS(DEV, float)
SR_DEFINE_WHOLE_FUNCTIONS(DEV)

/* sr_act_value() and sr_act_derivative() for a result of type T. */
template <class T> DEV float act_value(int act, float x) {
    if (sizeof(T) == 2 && act == SR_ACT_GELU) return x * normal_of(x).below;
    return sr_act_value(act, x);
}
template <class T> DEV float act_derivative(int act, float dy, float kept) {
    if (sizeof(T) == 2 && act == SR_ACT_GELU) {
        const normal n = normal_of(kept);
        return dy * math_fma(kept, n.density, n.below);
    }
    return sr_act_derivative(act, dy, kept);
}

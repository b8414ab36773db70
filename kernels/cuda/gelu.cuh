/* gelu.cuh - GELU in both forms, and the derivatives.
 *
 *   gelu(x)      = x P(x), P(x) = (1 + erf(x / sqrt 2)) / 2         derivative: P(x) + x p(x)
 *   gelu_tanh(x) = x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
 *
 * Source: Hendrycks and Gimpel 2016, arXiv:1606.08415.
 */
#ifndef SR_CUDA_GELU_CUH
#define SR_CUDA_GELU_CUH

#include "kernels/cuda/prim.cuh"

DEV float gelu_of(float x) {
    return 0.5f * x * (1.0f + math_erf(x * 0.7071067811865476f));
}
DEV float gelu_derivative(float x) {
    float p = 0.5f * (1.0f + math_erf(x * 0.7071067811865476f));
    return p + x * 0.3989422804014327f * math_exp(-0.5f * x * x);
}

DEV float gelu_inner(float x) {
    return 0.7978845608028654f * (x + 0.044715f * x * x * x);
}
DEV float gelu_tanh_of(float x) {
    return 0.5f * x * (1.0f + math_tanh(gelu_inner(x)));
}
DEV float gelu_tanh_derivative(float x) {
    float t = math_tanh(gelu_inner(x));
    float inner = 0.7978845608028654f * (1.0f + 0.134145f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

#endif

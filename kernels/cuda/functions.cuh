/* functions.cuh - the functions of elementwise ops (core/tensor/functions.h), of f32 and i32. */
#ifndef SR_CUDA_FUNCTIONS_CUH
#define SR_CUDA_FUNCTIONS_CUH

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

#define FN(name) math_##name
#define N(c) ((float)(c))
SR_DEFINE_FUNCTIONS(DEV, float)
SR_DEFINE_WHOLE_FUNCTIONS(DEV)

#endif

/* functions.cuh - what one element goes through: functions of f32, their derivatives, i32
 * arithmetic.
 *
 * NaN propagates; i32 wraps, division rounds toward zero and x / 0 is 0.
 */
#ifndef SR_CUDA_FUNCTIONS_CUH
#define SR_CUDA_FUNCTIONS_CUH

#include "core/tensor/backend.h"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/prim.cuh"

/* ---- unary ----------------------------------------------------------------------------------- */

DEV float sign_of(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}

DEV float unary_of(int op, float x) {
    switch (op) {
    case SR_NEG:
        return -x;
    case SR_ABS:
        return math_abs(x);
    case SR_SQUARE:
        return x * x;
    case SR_SQRT:
        return math_sqrt(x);
    case SR_RSQRT:
        return 1.0f / math_sqrt(x);
    case SR_RECIPROCAL:
        return 1.0f / x;
    case SR_EXP:
        return math_exp(x);
    case SR_LOG:
        return math_log(x);
    case SR_SIN:
        return math_sin(x);
    case SR_COS:
        return math_cos(x);
    case SR_TANH:
        return math_tanh(x);
    case SR_SIGMOID:
        return 1.0f / (1.0f + math_exp(-x));
    case SR_RELU:
        return x < 0.0f ? 0.0f : x;
    case SR_GELU:
        return gelu_of(x);
    case SR_GELU_TANH:
        return gelu_tanh_of(x);
    case SR_ERF:
        return math_erf(x);
    case SR_SIGN:
        return sign_of(x);
    case SR_FLOOR:
        return math_floor(x);
    default: /* SR_NOT */
        return x == 0.0f ? 1.0f : 0.0f;
    }
}

/* dy op'(x), where y = op(x). */
DEV float unary_derivative(int op, float dy, float x, float y) {
    switch (op) {
    case SR_NEG:
        return -dy;
    case SR_ABS:
        return dy * sign_of(x);
    case SR_SQUARE:
        return dy * (x + x);
    case SR_SQRT:
        return dy * 0.5f / y;
    case SR_RSQRT:
        return dy * -0.5f * y * y * y;
    case SR_RECIPROCAL:
        return -dy * y * y;
    case SR_EXP:
        return dy * y;
    case SR_LOG:
        return dy / x;
    case SR_SIN:
        return dy * math_cos(x);
    case SR_COS:
        return -dy * math_sin(x);
    case SR_TANH:
        return dy * (1.0f - y * y);
    case SR_SIGMOID:
        return dy * y * (1.0f - y);
    case SR_RELU:
        return x > 0.0f ? dy : 0.0f;
    case SR_GELU:
        return dy * gelu_derivative(x);
    case SR_GELU_TANH:
        return dy * gelu_tanh_derivative(x);
    case SR_ERF:
        return dy * 1.12837917f * math_exp(-x * x);
    default: /* sign, floor, not: constant almost everywhere */
        return 0.0f;
    }
}

DEV int32_t unary_of(int op, int32_t x) {
    uint32_t v = (uint32_t)x;
    switch (op) {
    case SR_NEG:
        return (int32_t)(0u - v);
    case SR_ABS:
        return x < 0 ? (int32_t)(0u - v) : x;
    case SR_SQUARE:
        return (int32_t)(v * v);
    case SR_RELU:
        return x < 0 ? 0 : x;
    case SR_SIGN:
        return (x > 0) - (x < 0);
    case SR_NOT:
        return x == 0;
    default: /* SR_FLOOR */
        return x;
    }
}

static inline bool has_whole_unary(sr_unary op) {
    return op == SR_NEG || op == SR_ABS || op == SR_SQUARE || op == SR_RELU || op == SR_SIGN ||
           op == SR_NOT || op == SR_FLOOR;
}

/* ---- binary ---------------------------------------------------------------------------------- */

DEV float binary_of(int op, float a, float b) {
    switch (op) {
    case SR_ADD:
        return a + b;
    case SR_SUB:
        return a - b;
    case SR_MUL:
        return a * b;
    case SR_DIV:
        return a / b;
    case SR_POW:
        return math_pow(a, b);
    case SR_MINIMUM: /* NaN on either side stays */
        return b < a || b != b ? b : a;
    case SR_MAXIMUM:
        return b > a || b != b ? b : a;
    case SR_EQ:
        return a == b ? 1.0f : 0.0f;
    case SR_NE:
        return a != b ? 1.0f : 0.0f;
    case SR_LT:
        return a < b ? 1.0f : 0.0f;
    case SR_LE:
        return a <= b ? 1.0f : 0.0f;
    case SR_GT:
        return a > b ? 1.0f : 0.0f;
    case SR_GE:
        return a >= b ? 1.0f : 0.0f;
    case SR_AND:
        return a != 0.0f && b != 0.0f ? 1.0f : 0.0f;
    default: /* SR_OR */
        return a != 0.0f || b != 0.0f ? 1.0f : 0.0f;
    }
}

/* By squaring. */
DEV int32_t power_of(int32_t a, int32_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    uint32_t y = 1, x = (uint32_t)a;
    for (; b > 0; b >>= 1, x *= x)
        if (b & 1) y *= x;
    return (int32_t)y;
}

DEV int32_t quotient_of(int32_t a, int32_t b) {
    return b == 0 ? 0 : b == -1 ? (int32_t)(0u - (uint32_t)a) : a / b;
}

DEV int32_t binary_of(int op, int32_t a, int32_t b) {
    switch (op) {
    case SR_ADD:
        return (int32_t)((uint32_t)a + (uint32_t)b);
    case SR_SUB:
        return (int32_t)((uint32_t)a - (uint32_t)b);
    case SR_MUL:
        return (int32_t)((uint32_t)a * (uint32_t)b);
    case SR_DIV:
        return quotient_of(a, b);
    case SR_POW:
        return power_of(a, b);
    case SR_MINIMUM:
        return a < b ? a : b;
    case SR_MAXIMUM:
        return a > b ? a : b;
    case SR_EQ:
        return a == b;
    case SR_NE:
        return a != b;
    case SR_LT:
        return a < b;
    case SR_LE:
        return a <= b;
    case SR_GT:
        return a > b;
    case SR_GE:
        return a >= b;
    case SR_AND:
        return a != 0 && b != 0;
    default: /* SR_OR */
        return a != 0 || b != 0;
    }
}

#endif

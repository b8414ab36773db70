/* functions.h - the function of each elementwise op and its derivative, once for all devices.
 *
 * An expression is written in x (or a and b), y = f(x), and dy, the gradient of y.  A device says
 * what these are, doubles, floats or vectors of floats, by three macros, and gets the functions
 * below from SR_DEFINE_FUNCTIONS:
 *
 *   FN(name)   its function `name`: less, equal and select, which is (condition, yes, no); abs,
 *              sqrt, exp, log, sin, cos, tanh, erf, floor, pow, fma; gelu and gelu_derivative
 *   N(c)       the constant c
 *
 * NaN propagates.  The derivative where there is none, as of relu at 0, is 0.
 */
#pragma once

/* clang-format off */

/* OP(NAME, name, f(x), dy f'(x)) */
#define SR_UNARY_OPS(OP)                                                                           \
    OP(NEG, neg, -x, -dy)                                                                          \
    OP(ABS, abs, FN(abs)(x), dy * SR_SIGN_OF(x))                                                   \
    OP(SQUARE, square, x * x, dy * (x + x))                                                        \
    OP(SQRT, sqrt, FN(sqrt)(x), dy * N(0.5) / y)                                                   \
    OP(RSQRT, rsqrt, N(1) / FN(sqrt)(x), dy * N(-0.5) * y * y * y)                                 \
    OP(RECIPROCAL, reciprocal, N(1) / x, -dy * y * y)                                              \
    OP(EXP, exp, FN(exp)(x), dy * y)                                                               \
    OP(LOG, log, FN(log)(x), dy / x)                                                               \
    OP(SIN, sin, FN(sin)(x), dy * FN(cos)(x))                                                      \
    OP(COS, cos, FN(cos)(x), -dy * FN(sin)(x))                                                     \
    OP(TANH, tanh, FN(tanh)(x), dy * (N(1) - y * y))                                               \
    OP(SIGMOID, sigmoid, N(1) / (N(1) + FN(exp)(-x)), dy * y * (N(1) - y))                         \
    OP(RELU, relu, FN(select)(FN(less)(x, N(0)), N(0), x),                                         \
       FN(select)(FN(less)(N(0), x), dy, N(0)))                                                    \
    OP(GELU, gelu, FN(gelu)(x), dy * FN(gelu_derivative)(x))                                       \
    OP(GELU_TANH, gelu_tanh, sr_gelu_tanh(x), dy * sr_gelu_tanh_derivative(x))                     \
    OP(SILU, silu, x / (N(1) + FN(exp)(-x)), dy * sr_silu_derivative(x))                           \
    OP(ERF, erf, FN(erf)(x), dy * N(1.12837916709551257390) * FN(exp)(-x * x)) /* 2 / sqrt(pi) */  \
    OP(SIGN, sign, SR_SIGN_OF(x), N(0))                                                            \
    OP(FLOOR, floor, FN(floor)(x), N(0))                                                           \
    OP(NOT, logical_not, SR_TRUTH(FN(equal)(x, N(0))), N(0))

/* OP(NAME, name, f(a, b)) */
#define SR_BINARY_OPS(OP)                                                                          \
    OP(ADD, add, a + b)                                                                            \
    OP(SUB, sub, a - b)                                                                            \
    OP(MUL, mul, a * b)                                                                            \
    OP(DIV, div, a / b)                                                                            \
    OP(POW, pow, FN(pow)(a, b))                                                                    \
    OP(MINIMUM, minimum, FN(select)(FN(less)(b, a), b, FN(select)(FN(equal)(b, b), a, b)))         \
    OP(MAXIMUM, maximum, FN(select)(FN(less)(a, b), b, FN(select)(FN(equal)(b, b), a, b)))         \
    SR_COMPARISONS(OP)

/* Their results are bool. */
#define SR_COMPARISONS(OP)                                                                         \
    OP(EQ, eq, SR_TRUTH(FN(equal)(a, b)))                                                          \
    OP(NE, ne, FN(select)(FN(equal)(a, b), N(0), N(1)))                                            \
    OP(LT, lt, SR_TRUTH(FN(less)(a, b)))                                                           \
    OP(LE, le, FN(select)(FN(less)(a, b), N(1), SR_TRUTH(FN(equal)(a, b))))                        \
    OP(GT, gt, SR_TRUTH(FN(less)(b, a)))                                                           \
    OP(GE, ge, FN(select)(FN(less)(b, a), N(1), SR_TRUTH(FN(equal)(a, b))))                        \
    OP(AND, logical_and, FN(select)(FN(equal)(a, N(0)), N(0), SR_TRUE_UNLESS_0(b)))                \
    OP(OR, logical_or, FN(select)(FN(equal)(a, N(0)), SR_TRUE_UNLESS_0(b), N(1)))

/* Of i32, which wraps: OP(NAME, y), where u is x without sign.  Others take i32 as real. */
#define SR_WHOLE_UNARY_OPS(OP)                                                                     \
    OP(NEG, 0u - u)                                                                                \
    OP(ABS, x < 0 ? 0u - u : u)                                                                    \
    OP(SQUARE, u * u)                                                                              \
    OP(SIGN, (uint32_t)((x > 0) - (x < 0)))                                                        \
    OP(NOT, x == 0)

/* Of i32: division rounds toward zero, x / 0 is 0. */
#define SR_WHOLE_BINARY_OPS(OP)                                                                    \
    OP(ADD, (int32_t)((uint32_t)a + (uint32_t)b))                                                  \
    OP(SUB, (int32_t)((uint32_t)a - (uint32_t)b))                                                  \
    OP(MUL, (int32_t)((uint32_t)a * (uint32_t)b))                                                  \
    OP(DIV, b == 0 ? 0 : b == -1 ? (int32_t)(0u - (uint32_t)a) : a / b)                            \
    OP(POW, sr_whole_power(a, b))                                                                  \
    OP(MINIMUM, a < b ? a : b)                                                                     \
    OP(MAXIMUM, a > b ? a : b)                                                                     \
    OP(EQ, a == b) OP(NE, a != b) OP(LT, a < b) OP(LE, a <= b) OP(GT, a > b) OP(GE, a >= b)        \
    OP(AND, a != 0 && b != 0) OP(OR, a != 0 || b != 0)

/* What `linear` can apply to its sums: OP(NAME, name, keeps_input) for an op of the first list.
 * Its derivative is taken at the input, which forward then keeps, or at the output, which is there
 * anyway. */
#define SR_ACTIVATIONS(OP)                                                                         \
    OP(GELU, gelu, true)                                                                           \
    OP(GELU_TANH, gelu_tanh, true)                                                                 \
    OP(RELU, relu, false)                                                                          \
    OP(TANH, tanh, false)                                                                          \
    OP(SILU, silu, true)

#define SR_TRUTH(condition) FN(select)(condition, N(1), N(0))
#define SR_TRUE_UNLESS_0(x) FN(select)(FN(equal)(x, N(0)), N(0), N(1))
#define SR_SIGN_OF(x) FN(select)(FN(less)(N(0), x), N(1), FN(select)(FN(less)(x, N(0)), N(-1), x))

#define SR_UNARY_VALUE(NAME, name, value, derivative) case SR_##NAME: return value;
#define SR_UNARY_DERIVATIVE(NAME, name, value, derivative) case SR_##NAME: return derivative;
#define SR_BINARY_VALUE(NAME, name, value) case SR_##NAME: return value;
#define SR_WHOLE_UNARY_VALUE(NAME, value) case SR_##NAME: return (int32_t)(value);
#define SR_WHOLE_BINARY_VALUE(NAME, value) case SR_##NAME: return value;
#define SR_ACT_VALUE(NAME, name, keeps) case SR_ACT_##NAME: return sr_unary_value(SR_##NAME, x);
#define SR_ACT_DERIVATIVE(NAME, name, keeps) \
    case SR_ACT_##NAME: return sr_unary_derivative(SR_##NAME, dy, kept, kept);

/* Defines, as LOCAL functions of REAL numbers:
 *
 *   sr_unary_value(op, x)              sr_unary_derivative(op, dy, x, y)
 *   sr_act_value(act, x)               sr_act_derivative(act, dy, kept)
 *   sr_binary_value(op, a, b)
 *
 * GELU by tanh: x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
 * SiLU, also called swish: x times its sigmoid.
 * Source: Hendrycks and Gimpel 2016, arXiv:1606.08415.
 */
#define SR_DEFINE_FUNCTIONS(LOCAL, REAL)                                                           \
    LOCAL REAL sr_gelu_inner(REAL x) {                                                             \
        return N(0.79788456080286535588) * FN(fma)(N(0.044715) * x * x, x, x);                     \
    }                                                                                              \
    LOCAL REAL sr_gelu_tanh(REAL x) {                                                              \
        return N(0.5) * x * (N(1) + FN(tanh)(sr_gelu_inner(x)));                                   \
    }                                                                                              \
    LOCAL REAL sr_gelu_tanh_derivative(REAL x) {                                                   \
        REAL t = FN(tanh)(sr_gelu_inner(x));                                                       \
        REAL inner = N(0.79788456080286535588) * FN(fma)(N(3.0 * 0.044715) * x, x, N(1));          \
        return N(0.5) * (N(1) + t) + N(0.5) * x * (N(1) - t * t) * inner;                          \
    }                                                                                              \
    LOCAL REAL sr_silu_derivative(REAL x) {                                                        \
        REAL s = N(1) / (N(1) + FN(exp)(-x));                                                      \
        return s * FN(fma)(x, N(1) - s, N(1));                                                     \
    }                                                                                              \
    LOCAL REAL sr_unary_value(int op, REAL x) {                                                    \
        switch (op) { SR_UNARY_OPS(SR_UNARY_VALUE) default: return x; }                            \
    }                                                                                              \
    LOCAL REAL sr_unary_derivative(int op, REAL dy, REAL x, REAL y) {                              \
        switch (op) { SR_UNARY_OPS(SR_UNARY_DERIVATIVE) default: return (void)y, dy; }             \
    }                                                                                              \
    LOCAL REAL sr_binary_value(int op, REAL a, REAL b) {                                           \
        switch (op) { SR_BINARY_OPS(SR_BINARY_VALUE) default: return (void)b, a; }                 \
    }                                                                                              \
    LOCAL REAL sr_act_value(int act, REAL x) {                                                     \
        switch (act) { SR_ACTIVATIONS(SR_ACT_VALUE) default: return x; }                           \
    }                                                                                              \
    LOCAL REAL sr_act_derivative(int act, REAL dy, REAL kept) {                                    \
        switch (act) { SR_ACTIVATIONS(SR_ACT_DERIVATIVE) default: return (void)kept, dy; }         \
    }

/* Defines sr_whole_unary(op, x) and sr_whole_binary(op, a, b), of i32. */
#define SR_DEFINE_WHOLE_FUNCTIONS(LOCAL)                                                           \
    LOCAL int32_t sr_whole_power(int32_t a, int32_t b) { /* by squaring */                         \
        if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;                             \
        uint32_t y = 1, x = (uint32_t)a;                                                           \
        for (; b > 0; b >>= 1, x *= x)                                                             \
            if (b & 1) y *= x;                                                                     \
        return (int32_t)y;                                                                         \
    }                                                                                              \
    LOCAL int32_t sr_whole_unary(int op, int32_t x) {                                              \
        uint32_t u = (uint32_t)x;                                                                  \
        switch (op) { SR_WHOLE_UNARY_OPS(SR_WHOLE_UNARY_VALUE) default: return x; }                \
    }                                                                                              \
    LOCAL int32_t sr_whole_binary(int op, int32_t a, int32_t b) {                                  \
        switch (op) { SR_WHOLE_BINARY_OPS(SR_WHOLE_BINARY_VALUE) default: return a; }              \
    }

/* clang-format on */

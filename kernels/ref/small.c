/* small.c - elementwise ops, one element at a time, any strides, any dtypes. */
#include <math.h>

#include "kernels/ref/ref.h"

#define WALK(w, ...)                                                                               \
    const sr_tensor *w##_list[] = {__VA_ARGS__};                                                   \
    for (ref_walk w = ref_start((int)(sizeof w##_list / sizeof *w##_list), w##_list); w.left > 0;  \
         ref_next(&w))

static const double SQRT_HALF = 0.70710678118654752440;        /* 1 / sqrt(2) */
static const double INV_SQRT_2PI = 0.39894228040143267794;     /* 1 / sqrt(2 pi) */
static const double SQRT_2_OVER_PI = 0.79788456080286535588;   /* of the tanh form of GELU */
static const double TWO_OVER_SQRT_PI = 1.12837916709551257390; /* derivative of erf at 0 */

static double gelu(double x) {
    return 0.5 * x * (1.0 + erf(x * SQRT_HALF));
}

static double gelu_derivative(double x) {
    return 0.5 * (1.0 + erf(x * SQRT_HALF)) + x * INV_SQRT_2PI * exp(-0.5 * x * x);
}

static double gelu_tanh(double x) {
    return 0.5 * x * (1.0 + tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)));
}

static double gelu_tanh_derivative(double x) {
    double t = tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) +
           0.5 * x * (1.0 - t * t) * SQRT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * x * x);
}

/* NaN propagates, as elsewhere. */
static double relu(double x) {
    return x < 0 ? 0 : x;
}

double ref_act(sr_act act, double x) {
    switch (act) {
    case SR_ACT_GELU:
        return gelu(x);
    case SR_ACT_GELU_TANH:
        return gelu_tanh(x);
    case SR_ACT_RELU:
        return relu(x);
    case SR_ACT_TANH:
        return tanh(x);
    default:
        return x;
    }
}

double ref_act_derivative(sr_act act, double at_hand) {
    switch (act) {
    case SR_ACT_GELU:
        return gelu_derivative(at_hand);
    case SR_ACT_GELU_TANH:
        return gelu_tanh_derivative(at_hand);
    case SR_ACT_RELU:
        return at_hand > 0;
    case SR_ACT_TANH:
        return 1.0 - at_hand * at_hand;
    default:
        return 1.0;
    }
}

static double sign(double x) {
    return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
}

static double unary(sr_unary op, double x) {
    switch (op) {
    case SR_NEG:
        return -x;
    case SR_ABS:
        return fabs(x);
    case SR_SQUARE:
        return x * x;
    case SR_SQRT:
        return sqrt(x);
    case SR_RSQRT:
        return 1.0 / sqrt(x);
    case SR_RECIPROCAL:
        return 1.0 / x;
    case SR_EXP:
        return exp(x);
    case SR_LOG:
        return log(x);
    case SR_SIN:
        return sin(x);
    case SR_COS:
        return cos(x);
    case SR_TANH:
        return tanh(x);
    case SR_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    case SR_RELU:
        return relu(x);
    case SR_GELU:
        return gelu(x);
    case SR_GELU_TANH:
        return gelu_tanh(x);
    case SR_ERF:
        return erf(x);
    case SR_SIGN:
        return sign(x);
    case SR_FLOOR:
        return floor(x);
    case SR_NOT:
        return x == 0;
    default:
        return NAN;
    }
}

/* d op / dx at x, where y = op(x). */
static double derivative(sr_unary op, double x, double y) {
    switch (op) {
    case SR_NEG:
        return -1.0;
    case SR_ABS:
        return sign(x);
    case SR_SQUARE:
        return 2.0 * x;
    case SR_SQRT:
        return 0.5 / y;
    case SR_RSQRT:
        return -0.5 * y / x;
    case SR_RECIPROCAL:
        return -y * y;
    case SR_EXP:
        return y;
    case SR_LOG:
        return 1.0 / x;
    case SR_SIN:
        return cos(x);
    case SR_COS:
        return -sin(x);
    case SR_TANH:
        return 1.0 - y * y;
    case SR_SIGMOID:
        return y * (1.0 - y);
    case SR_RELU:
        return x > 0;
    case SR_GELU:
        return gelu_derivative(x);
    case SR_GELU_TANH:
        return gelu_tanh_derivative(x);
    case SR_ERF:
        return TWO_OVER_SQRT_PI * exp(-x * x);
    default: /* sign, floor: constant almost everywhere */
        return 0.0;
    }
}

static double binary(sr_binary op, double a, double b) {
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
        return pow(a, b);
    case SR_MINIMUM: /* NaN on either side propagates */
        return a < b || a != a ? a : b;
    case SR_MAXIMUM:
        return a > b || a != a ? a : b;
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
    case SR_OR:
        return a != 0 || b != 0;
    default:
        return NAN;
    }
}

double ref_whole(sr_binary op, double a, double b) {
    uint32_t x = (uint32_t)(int32_t)a, y = (uint32_t)(int32_t)b;
    switch (op) {
    case SR_ADD:
        return (int32_t)(x + y);
    case SR_SUB:
        return (int32_t)(x - y);
    case SR_MUL:
        return (int32_t)(x * y);
    default:
        return binary(op, a, b);
    }
}

static double whole_unary(sr_unary op, double x) {
    switch (op) {
    case SR_NEG:
        return ref_whole(SR_SUB, 0, x);
    case SR_ABS:
        return x < 0 ? ref_whole(SR_SUB, 0, x) : x;
    case SR_SQUARE:
        return ref_whole(SR_MUL, x, x);
    default:
        return unary(op, x);
    }
}

sr_status ref_fill(sr_tensor *y, double value) {
    WALK(w, y) ref_store(&w, 0, value);
    return SR_OK;
}

sr_status ref_copy(sr_tensor *y, const sr_tensor *x) {
    WALK(w, y, x) ref_store(&w, 0, ref_load(&w, 1));
    return SR_OK;
}

sr_status ref_unary(sr_tensor *y, const sr_tensor *x, sr_unary op) {
    double (*f)(sr_unary, double) = y->dtype == SR_I32 ? whole_unary : unary;
    WALK(w, y, x) ref_store(&w, 0, f(op, ref_load(&w, 1)));
    return SR_OK;
}

sr_status ref_unary_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x,
                             const sr_tensor *y, sr_unary op) {
    WALK(w, dx, dy, x, y)
    ref_store(&w, 0, ref_load(&w, 1) * derivative(op, ref_load(&w, 2), ref_load(&w, 3)));
    return SR_OK;
}

sr_status ref_binary(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, sr_binary op) {
    double (*f)(sr_binary, double, double) = y->dtype == SR_I32 ? ref_whole : binary;
    WALK(w, y, a, b) ref_store(&w, 0, f(op, ref_load(&w, 1), ref_load(&w, 2)));
    return SR_OK;
}

sr_status ref_where(sr_tensor *y, const sr_tensor *condition, const sr_tensor *a,
                    const sr_tensor *b) {
    WALK(w, y, condition, a, b)
    ref_store(&w, 0, ref_load(&w, 1) != 0 ? ref_load(&w, 2) : ref_load(&w, 3));
    return SR_OK;
}

/* With beta = 0, y is not read, since it may contain NaN. */
sr_status ref_axpby(sr_tensor *y, const sr_tensor *x, double alpha, double beta) {
    WALK(w, y, x)
    ref_store(&w, 0, alpha * ref_load(&w, 1) + (beta != 0 ? beta * ref_load(&w, 0) : 0.0));
    return SR_OK;
}

static sr_u32x4 draw(int64_t i, uint64_t seed, sr_purpose purpose, uint32_t uid, uint32_t epoch) {
    uint64_t block = (uint64_t)i / 4;
    sr_u32x4 counter = {{(uint32_t)block, uid,
                         (uint32_t)purpose << 24 | ((uint32_t)(block >> 32) & 0xFFFFFFu), epoch}};
    return sr_philox(counter, seed, SR_ROUNDS_DATA);
}

/* Box and Muller: words (0, 1) give the normals of elements 0 and 1, (2, 3) those of 2 and 3. */
static double normal(sr_u32x4 words, int64_t i) {
    int pair = (int)(i % 4) / 2 * 2;
    double radius = sqrt(-2.0 * log(1.0 - (double)sr_unit(words.w[pair])));
    double angle = 6.28318530717958647692 * (double)sr_unit(words.w[pair + 1]);
    return radius * (i % 2 == 0 ? cos(angle) : sin(angle));
}

sr_status ref_random(sr_tensor *y, sr_random kind, uint64_t seed, sr_purpose purpose, uint32_t uid,
                     uint32_t epoch, double a, double b) {
    int64_t i = 0;
    WALK(w, y) {
        sr_u32x4 words = draw(i, seed, purpose, uid, epoch);
        double x = kind == SR_UNIFORM ? (double)sr_unit(words.w[i % 4]) : normal(words, i);
        for (uint32_t attempt = 1; kind == SR_TRUNCATED_NORMAL && fabs(x) > 2.0; attempt++)
            x = normal(draw(i, seed, purpose, uid, epoch + (attempt << 24)), i);
        ref_store(&w, 0, kind == SR_UNIFORM ? a + (b - a) * x : a + b * x);
        i++;
    }
    return SR_OK;
}

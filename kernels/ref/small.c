/* small.c - elementwise ops, one element at a time, any strides, any dtypes. */
#include <math.h>

#include "kernels/ref/ref.h"

#define WALK(w, ...)                                                                               \
    const sr_tensor *w##_list[] = {__VA_ARGS__};                                                   \
    for (ref_walk w = ref_start((int)(sizeof w##_list / sizeof *w##_list), w##_list); w.left > 0;  \
         ref_next(&w))

/* ---- functions, by core/tensor/functions.h --------------------------------------------------- */

#define f64_abs fabs
#define f64_sqrt sqrt
#define f64_exp exp
#define f64_log log
#define f64_sin sin
#define f64_cos cos
#define f64_tanh tanh
#define f64_erf erf
#define f64_floor floor
#define f64_pow pow
#define f64_fma fma
#define f64_less(a, b) ((a) < (b))
#define f64_equal(a, b) ((a) == (b))
#define f64_select(condition, yes, no) ((condition) ? (yes) : (no))

static const double SQRT_HALF = 0.70710678118654752440;    /* 1 / sqrt(2) */
static const double INV_SQRT_2PI = 0.39894228040143267794; /* 1 / sqrt(2 pi) */

static double f64_gelu(double x) {
    return 0.5 * x * (1.0 + erf(x * SQRT_HALF));
}

static double f64_gelu_derivative(double x) {
    return 0.5 * (1.0 + erf(x * SQRT_HALF)) + x * INV_SQRT_2PI * exp(-0.5 * x * x);
}

#define FN(name) f64_##name
#define N(c) ((double)(c))
SR_DEFINE_FUNCTIONS(static, double)
SR_DEFINE_WHOLE_FUNCTIONS(static)

double ref_act(sr_act act, double x) {
    return sr_act_value(act, x);
}

double ref_act_backward(sr_act act, double dy, double kept) {
    return sr_act_derivative(act, dy, kept);
}

double ref_whole(sr_binary op, double a, double b) {
    return sr_whole_binary(op, (int32_t)a, (int32_t)b);
}

/* ---- ops ------------------------------------------------------------------------------------- */

sr_status ref_fill(sr_tensor *y, double value) {
    WALK(w, y) ref_store(&w, 0, value);
    return SR_OK;
}

sr_status ref_copy(sr_tensor *y, const sr_tensor *x) {
    WALK(w, y, x) ref_store(&w, 0, ref_load(&w, 1));
    return SR_OK;
}

sr_status ref_unary(sr_tensor *y, const sr_tensor *x, sr_unary op) {
    bool whole = y->dtype == SR_I32 && sr_unary_is_whole(op);
    WALK(w, y, x) {
        double v = ref_load(&w, 1);
        ref_store(&w, 0, whole ? sr_whole_unary(op, (int32_t)v) : sr_unary_value(op, v));
    }
    return SR_OK;
}

sr_status ref_unary_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x,
                             const sr_tensor *y, sr_unary op) {
    WALK(w, dx, dy, x, y)
    ref_store(&w, 0, sr_unary_derivative(op, ref_load(&w, 1), ref_load(&w, 2), ref_load(&w, 3)));
    return SR_OK;
}

sr_status ref_binary(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, sr_binary op) {
    bool whole = y->dtype == SR_I32;
    WALK(w, y, a, b) {
        double va = ref_load(&w, 1), vb = ref_load(&w, 2);
        ref_store(&w, 0, whole ? ref_whole(op, va, vb) : sr_binary_value(op, va, vb));
    }
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

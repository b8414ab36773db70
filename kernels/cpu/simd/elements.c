/* elements.c - runs of elements: arithmetic, functions, sums.
 *
 * Traffic   4 bytes per element read or written: memory bound beyond the caches, except exp, tanh,
 *           erf and GELU (about 15 to 40 instructions per vector).
 * In place  y may be x, a or b.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/gelu.h"

/* for each vector: y = EXPR, which may use x and other declared vectors */
#define EACH(n) for (int64_t i = 0; i < (n); i += VL)
#define MAP1(EXPR)                                                                                 \
    EACH(n) {                                                                                      \
        vf x0 = v_at(x, i, n);                                                                     \
        v_put(y, i, n, EXPR);                                                                      \
    }                                                                                              \
    break
#define LIBM(CALL)                                                                                 \
    for (int64_t i = 0; i < n; i++) y[i] = CALL;                                                   \
    break

INLINE vf truth(vm m) {
    return v_keep(m, one());
}
INLINE vf sign(vf x) {
    return truth(v_less(v_zero(), x)) - truth(v_less(x, v_zero()));
}
void SR_SIMD(unary)(float *y, const float *x, int64_t n, sr_unary op) {
    switch (op) {
    case SR_NEG:
        MAP1(-x0);
    case SR_ABS:
        MAP1(v_abs(x0));
    case SR_SQUARE:
        MAP1(x0 * x0);
    case SR_SQRT:
        MAP1(v_sqrt(x0));
    case SR_RSQRT:
        MAP1(one() / v_sqrt(x0));
    case SR_RECIPROCAL:
        MAP1(one() / x0);
    case SR_EXP:
        MAP1(v_exp(x0));
    case SR_LOG:
        LIBM(logf(x[i]));
    case SR_SIN:
        LIBM(sinf(x[i]));
    case SR_COS:
        LIBM(cosf(x[i]));
    case SR_TANH:
        MAP1(v_tanh(x0));
    case SR_SIGMOID:
        MAP1(v_sigmoid(x0));
    case SR_RELU:
        MAP1(v_relu(x0));
    case SR_GELU:
        MAP1(v_gelu(x0));
    case SR_GELU_TANH:
        MAP1(v_gelu_tanh(x0));
    case SR_ERF:
        MAP1(v_erf(x0));
    case SR_SIGN:
        MAP1(v_select(v_equal(x0, x0), sign(x0), x0)); /* NaN stays */
    case SR_FLOOR:
        MAP1(v_floor(x0));
    case SR_NOT:
        MAP1(truth(v_equal(x0, v_zero())));
    case SR_UNARY_COUNT:
        break;
    }
}

#define DERIVATIVE(EXPR)                                                                           \
    EACH(n) {                                                                                      \
        vf d0 = v_at(dy, i, n), x0 = v_at(x, i, n), y0 = v_at(y, i, n);                            \
        (void)d0, (void)x0, (void)y0;                                                              \
        v_put(dx, i, n, EXPR);                                                                     \
    }                                                                                              \
    break

void SR_SIMD(unary_backward)(float *dx, const float *dy, const float *x, const float *y, int64_t n,
                             sr_unary op) {
    switch (op) {
    case SR_NEG:
        DERIVATIVE(-d0);
    case SR_ABS:
        DERIVATIVE(d0 * sign(x0));
    case SR_SQUARE:
        DERIVATIVE(d0 * (x0 + x0));
    case SR_SQRT:
        DERIVATIVE(d0 * v_set(0.5f) / y0);
    case SR_RSQRT:
        DERIVATIVE(d0 * v_set(-0.5f) * y0 * y0 * y0);
    case SR_RECIPROCAL:
        DERIVATIVE(-d0 * y0 * y0);
    case SR_EXP:
        DERIVATIVE(d0 * y0);
    case SR_LOG:
        DERIVATIVE(d0 / x0);
    case SR_SIN:
        for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * cosf(x[i]);
        break;
    case SR_COS:
        for (int64_t i = 0; i < n; i++) dx[i] = -dy[i] * sinf(x[i]);
        break;
    case SR_TANH:
        DERIVATIVE(d0 * (one() - y0 * y0));
    case SR_SIGMOID:
        DERIVATIVE(d0 * y0 * (one() - y0));
    case SR_RELU:
        DERIVATIVE(v_keep(v_less(v_zero(), x0), d0));
    case SR_GELU:
        DERIVATIVE(d0 * v_gelu_derivative(x0));
    case SR_GELU_TANH:
        DERIVATIVE(d0 * v_gelu_tanh_derivative(x0));
    case SR_ERF:
        DERIVATIVE(d0 * v_set(1.12837917f) * v_exp(-x0 * x0));
    case SR_SIGN:
    case SR_FLOOR:
    case SR_NOT:
    case SR_UNARY_COUNT:
        DERIVATIVE(v_zero());
    }
}

#define MAP2(EXPR)                                                                                 \
    EACH(n) {                                                                                      \
        vf a0 = v_at(a, i, n), b0 = v_at(b, i, n);                                                 \
        v_put(y, i, n, EXPR);                                                                      \
    }                                                                                              \
    break

void SR_SIMD(binary)(float *y, const float *a, const float *b, int64_t n, sr_binary op) {
    switch (op) {
    case SR_ADD:
        MAP2(a0 + b0);
    case SR_SUB:
        MAP2(a0 - b0);
    case SR_MUL:
        MAP2(a0 * b0);
    case SR_DIV:
        MAP2(a0 / b0);
    case SR_POW:
        LIBM(powf(a[i], b[i]));
    case SR_MINIMUM:
        MAP2(v_select(v_less(b0, a0), b0, v_select(v_equal(b0, b0), a0, b0))); /* NaN stays */
    case SR_MAXIMUM:
        MAP2(v_select(v_less(a0, b0), b0, v_select(v_equal(b0, b0), a0, b0)));
    case SR_EQ:
        MAP2(truth(v_equal(a0, b0)));
    case SR_NE:
        MAP2(one() - truth(v_equal(a0, b0)));
    case SR_LT:
        MAP2(truth(v_less(a0, b0)));
    case SR_LE:
        LIBM(a[i] <= b[i] ? 1.0f : 0.0f);
    case SR_GT:
        MAP2(truth(v_less(b0, a0)));
    case SR_GE:
        LIBM(a[i] >= b[i] ? 1.0f : 0.0f);
    case SR_AND:
        LIBM(a[i] != 0.0f && b[i] != 0.0f ? 1.0f : 0.0f);
    case SR_OR:
        LIBM(a[i] != 0.0f || b[i] != 0.0f ? 1.0f : 0.0f);
    case SR_BINARY_COUNT:
        break;
    }
}

enum { STRIPE = 8 }; /* vectors of columns whose sums are in registers */

/* y is not read if beta is 0, since it may be uninitialised. */
void SR_SIMD(axpby)(float *y, const float *x, int64_t n, float alpha, float beta) {
    vf a = v_set(alpha), b = v_set(beta);
    if (beta == 0.0f) {
        EACH(n) v_put(y, i, n, a * v_at(x, i, n));
    } else {
        EACH(n) v_put(y, i, n, v_fma(a, v_at(x, i, n), b * v_at(y, i, n)));
    }
}

/* The lanes of a row from column c on that are below cols. */
INLINE vf row_at(const void *x, const bool bf16, int64_t at, int64_t c, int64_t cols) {
    return bf16 ? v_from_bf16(h_at((const sr_bf16 *)x + at, c, cols))
                : v_at((const float *)x + at, c, cols);
}

INLINE void stripe_sums(float *sums, const void *x, const bool bf16, int64_t ld, int64_t rows,
                        int64_t c, int64_t cols) {
    vf sum[STRIPE];
    for (int j = 0; j < STRIPE; j++) sum[j] = v_zero();
    for (int64_t r = 0; r < rows; r++)
        for (int j = 0; j < STRIPE; j++) sum[j] += row_at(x, bf16, r * ld, c + j * VL, cols);
    for (int j = 0; j < STRIPE; j++) v_put(sums, c + j * VL, cols, sum[j]);
}

void SR_SIMD(column_sums)(float *sums, const void *x, bool bf16, int64_t ld, int64_t rows,
                          int64_t cols) {
    int64_t c = 0;
    for (; c + STRIPE * VL <= cols; c += STRIPE * VL) /* known not to end here */
        bf16 ? stripe_sums(sums, x, true, ld, rows, c, INT64_MAX)
             : stripe_sums(sums, x, false, ld, rows, c, INT64_MAX);
    for (; c < cols; c += VL) {
        vf sum = v_zero();
        for (int64_t r = 0; r < rows; r++) sum += row_at(x, bf16, r * ld, c, cols);
        v_put(sums, c, cols, sum);
    }
}

/* Lane sums of short stretches, added in f64. */
enum { STRETCH = 16 * VL };

double SR_SIMD(sum)(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        int64_t to = n - from < STRETCH ? n : from + STRETCH;
        vf s = v_zero();
        for (int64_t i = from; i < to; i += VL) s += v_at(x, i, to);
        sum += v_sum_f64(s);
    }
    return sum;
}

double SR_SIMD(sum_squares)(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        int64_t to = n - from < STRETCH ? n : from + STRETCH;
        vf s = v_zero();
        for (int64_t i = from; i < to; i += VL) {
            vf v = v_at(x, i, to);
            s = v_fma(v, v, s);
        }
        double squares = v_sum_f64(s);
        if (!(squares <= 3e38)) { /* the square may overflow f32 even if its root does not */
            squares = 0;
            for (int64_t i = from; i < to; i++) squares += (double)x[i] * x[i];
        }
        sum += squares;
    }
    return sum;
}

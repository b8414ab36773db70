/* elements.c - runs of elements: arithmetic, functions, sums.
 *
 * Traffic   4 bytes per element read or written: memory bound beyond the caches, except exp, tanh,
 *           erf and GELU (about 15 to 40 instructions per vector).
 * In place  y may be x, a or b.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/functions.h"

#define EACH(n) for (int64_t i = 0; i < (n); i += VL)

/* A loop for each op, in which OP is a constant. */
#define CASE(NAME, BODY)                                                                           \
    case SR_##NAME: {                                                                              \
        enum { OP = SR_##NAME };                                                                   \
        EACH(n) BODY;                                                                              \
        break;                                                                                     \
    }

#define UNARY(NAME, ...) CASE(NAME, v_put(y, i, n, sr_unary_value(OP, v_at(x, i, n))))
void SR_SIMD(unary)(float *y, const float *x, int64_t n, sr_unary op) {
    switch (op) {
        SR_UNARY_OPS(UNARY)
    case SR_UNARY_COUNT:
        break;
    }
}

#define DERIVATIVE(NAME, ...)                                                                      \
    CASE(NAME,                                                                                     \
         v_put(dx, i, n, sr_unary_derivative(OP, v_at(dy, i, n), v_at(x, i, n), v_at(y, i, n))))
void SR_SIMD(unary_backward)(float *dx, const float *dy, const float *x, const float *y, int64_t n,
                             sr_unary op) {
    switch (op) {
        SR_UNARY_OPS(DERIVATIVE)
    case SR_UNARY_COUNT:
        break;
    }
}

#define BINARY(NAME, ...)                                                                          \
    CASE(NAME, v_put(y, i, n, sr_binary_value(OP, v_at(a, i, n), v_at(b, i, n))))
void SR_SIMD(binary)(float *y, const float *a, const float *b, int64_t n, sr_binary op) {
    switch (op) {
        SR_BINARY_OPS(BINARY)
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

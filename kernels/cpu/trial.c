/* trial.c - what is tried before an instruction set multiplies bf16: whether its products are
 * right, and how fast they are.
 *
 * Cost      0.9 ms for the products, 0.6 ms for the rates.
 */
#include <stdlib.h>
#include <time.h>

#include "kernels/cpu/cpu.h"

/* ---- products -------------------------------------------------------------------------------- */

enum { TALL = 64, WIDE = 64, DEEP = 128 }; /* what a shape may be padded to */

typedef struct trial {
    const sr_simd *simd;
    int64_t m, n, k;
    bool a_along_k, b_along_k; /* the operands are contiguous in k */
    sr_bf16 *a, *b;
    void *packed_a, *packed_b, *tail;
    float *c;
    const int32_t *product;
} trial;

/* Small whole numbers, whose sums are exact in any order. */
static int a_at(int64_t i, int64_t k) {
    return (int)((i * 5 + k * 3) % 7) - 3;
}
static int b_at(int64_t k, int64_t j) {
    return (int)((k * 2 + j * 3) % 5) - 2;
}

static void fill(const trial *t) {
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t k = 0; k < t->k; k++)
            t->a[t->a_along_k ? i * t->k + k : k * t->m + i] = sr_bf16_from_f32((float)a_at(i, k));
    for (int64_t k = 0; k < t->k; k++)
        for (int64_t j = 0; j < t->n; j++)
            t->b[t->b_along_k ? j * t->k + k : k * t->n + j] = sr_bf16_from_f32((float)b_at(k, j));
}

/* A B, rows WIDE apart. */
static void multiply(int32_t *product, int64_t m, int64_t n, int64_t k) {
    memset(product, 0, (size_t)(m * WIDE) * sizeof *product);
    for (int64_t x = 0; x < k; x++) {
        int32_t row[WIDE];
        for (int64_t j = 0; j < n; j++) row[j] = b_at(x, j);
        for (int64_t i = 0; i < m; i++) {
            int32_t a = a_at(i, x);
            for (int64_t j = 0; j < n; j++) product[i * WIDE + j] += a * row[j];
        }
    }
}

/* Columns of C to the right of the product, and rows below it, which stay as they are. */
enum { GUARD = 3 };

/* C is `scale` times the product, and 1 around it. */
static bool is_product(const trial *t, int scale) {
    int64_t ld = t->n + GUARD;
    for (int64_t i = 0; i < t->m + GUARD; i++)
        for (int64_t j = 0; j < ld; j++) {
            bool inside = i < t->m && j < t->n;
            float want = inside ? (float)(scale * t->product[i * WIDE + j]) : 1.0f;
            if (t->c[i * ld + j] != want) return false;
        }
    return true;
}

/* C = A B, then C += 2 A B, then C += A B. */
static bool multiplies(const trial *t, bool in_place) {
    int64_t ld = t->n + GUARD;
    void (*gemm)(const sr_gemm *) = in_place ? t->simd->gemm_bf16_rows : t->simd->gemm_bf16;
    sr_gemm g = {.c = t->c,
                 .a = in_place ? t->a : t->packed_a,
                 .b = t->packed_b,
                 .tail = in_place && t->k % t->simd->bf16_k != 0 ? t->tail : NULL,
                 .lda = t->k,
                 .ldc = ld,
                 .m = t->m,
                 .n = t->n,
                 .k = t->k,
                 .alpha = 1};
    for (int64_t i = 0; i < (t->m + GUARD) * ld; i++) t->c[i] = 1.0f;
    gemm(&g);
    if (!is_product(t, 1)) return false;
    g.alpha = 2, g.add = true;
    gemm(&g);
    if (!is_product(t, 3)) return false;
    g.alpha = 1;
    gemm(&g);
    return is_product(t, 4);
}

static bool passes(const trial *t) {
    const sr_simd *simd = t->simd;
    fill(t);
    simd->pack_a_bf16(t->packed_a, t->a, t->a_along_k ? t->k : 1, t->a_along_k ? 1 : t->m, t->m,
                      t->k);
    simd->pack_b_bf16(t->packed_b, t->b, t->b_along_k ? 1 : t->n, t->b_along_k ? t->k : 1, t->k,
                      t->n);
    if (!multiplies(t, false)) return false;
    if (!t->a_along_k || simd->bf16_rows == 0 || t->m % simd->bf16_rows != 0) return true;
    int64_t rest = t->k % simd->bf16_k;
    if (rest > 0 && !simd->tiles) return true;
    simd->pack_a_bf16(t->tail, t->a + t->k - rest, t->k, 1, t->m, rest);
    return multiplies(t, true);
}

bool sr_cpu_multiplies_bf16(const sr_simd *simd) {
    static const int64_t shapes[][3] = {{1, 1, 1},    {17, 18, 36}, {32, 49, 64},
                                        {48, 33, 32}, {32, 48, 70}, {33, 60, 101}};
    SR_UNSET sr_bf16 a[TALL * DEEP], b[DEEP * WIDE];
    SR_UNSET float c[TALL * (WIDE + GUARD)];
    SR_UNSET float packed_a[TALL * DEEP] __attribute__((aligned(64)));
    SR_UNSET float packed_b[DEEP * WIDE] __attribute__((aligned(64)));
    SR_UNSET float tail[TALL * 32] __attribute__((aligned(64)));
    SR_UNSET int32_t product[TALL * WIDE];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
        multiply(product, m, n, k);
        for (int way = 0; way < 4; way++) {
            trial t = {.simd = simd,
                       .m = m,
                       .n = n,
                       .k = k,
                       .a_along_k = (way & 1) != 0,
                       .b_along_k = (way & 2) != 0,
                       .a = a,
                       .b = b,
                       .packed_a = packed_a,
                       .packed_b = packed_b,
                       .tail = tail,
                       .c = c,
                       .product = product};
            if (!passes(&t)) return false;
        }
    }
    return true;
}

/* ---- rates ----------------------------------------------------------------------------------- */

static double processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_a_flop(const sr_simd *simd, bool bf16) {
    enum { ROUNDS = 5000 }; /* 60,000 instructions */
    float sink[16];
    double began = processor_time(), flops = simd->burst(sink, ROUNDS, bf16);
    return (processor_time() - began) / flops;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of ratios of two bursts side by side: what else runs on the core slows both alike, or
 * spoils few of them.  The best of each may be of different moments. */
double sr_cpu_bf16_gain(const sr_simd *simd) {
    enum { PAIRS = 17 };
    double ratio[PAIRS];
    seconds_a_flop(simd, true); /* wakes the wide units */
    for (int i = 0; i < PAIRS; i++) {
        double f32 = seconds_a_flop(simd, false), bf16 = seconds_a_flop(simd, true);
        ratio[i] = bf16 > 0 ? f32 / bf16 : 1;
    }
    qsort(ratio, PAIRS, sizeof *ratio, by_size);
    return ratio[PAIRS / 2];
}

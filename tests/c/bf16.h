/* bf16.h - the body of the tests of bf16 products whose instructions are emulated: dots.c, tiles.c.
 * They compile the sources of a class with SR_EMULATE, and compare with sums in double. */
#ifndef SR_ISA /* this header alone */
#define SR_ISA emulated
#define SR_EMULATE 1
#endif

#include "kernels/cpu/simd/act.c"
#include "kernels/cpu/simd/bf16.c"
#include "kernels/cpu/simd/strips.c"
#include "tests/c/layer.h"

void SR_SIMD(gemm_bf16)(const sr_gemm *g);
void SR_SIMD(gemm_bf16_rows)(const sr_gemm *g);

typedef struct shape {
    int64_t m, n, k;
    bool a_along_k, b_along_k; /* the operands are contiguous in k */
} shape;

static int64_t up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

static void compare(const shape *s, const sr_bf16 *a, const sr_bf16 *b, const float *c,
                    float base) {
    double worst = 0;
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double sum = base;
            for (int64_t k = 0; k < s->k; k++)
                sum += 0.5 * sr_bf16_to_f32(s->a_along_k ? a[i * s->k + k] : a[k * s->m + i]) *
                       sr_bf16_to_f32(s->b_along_k ? b[j * s->k + k] : b[k * s->n + j]);
            double error = fabs(c[i * (s->n + 3) + j] - sum);
            worst = error > worst ? error : worst;
        }
    CHECK(worst < 1e-4);
}

/* Packing takes squares of words where it can; the result is the same from elements that are not
 * contiguous, which it reads one by one. */
static void check_packing(const sr_bf16 *x, int64_t rows, int64_t k) {
    sr_bf16 *wide = calloc((size_t)(2 * rows * k), sizeof *wide);
    size_t size = (size_t)(up(rows, 64) * up(k, 64)) * BF16_BYTES;
    char *straight = malloc(size), *slow = malloc(size);
    for (int way = 0; way < 4; way++) {
        int64_t row = way & 1 ? k : 1, column = way & 1 ? 1 : rows;
        memset(straight, 0xFF, size), memset(slow, 0xFF, size);
        for (int64_t i = 0; i < rows * k; i++) wide[2 * i] = x[i];
        if (way & 2) {
            SR_SIMD(pack_a_bf16)(straight, x, row, column, rows, k);
            SR_SIMD(pack_a_bf16)(slow, wide, 2 * row, 2 * column, rows, k);
        } else {
            SR_SIMD(pack_b_bf16)(straight, x, column, row, k, rows);
            SR_SIMD(pack_b_bf16)(slow, wide, 2 * column, 2 * row, k, rows);
        }
        CHECK(memcmp(straight, slow, size) == 0);
    }
    free(wide), free(straight), free(slow);
}

/* alpha A B, then alpha A B + 1 and, where rows may be read in place, the same bits from them. */
static void try_shape(const shape *s) {
    sr_bf16 *a = random_bf16(s->m * s->k + 64, 1), *b = random_bf16(s->k * s->n + 64, 2);
    int64_t ldc = s->n + 3, k = bf16_padded(s->k);
    size_t a_size = (size_t)(up(s->m, 32) * k) * BF16_BYTES;
    size_t b_size = (size_t)(up(s->n, 16) * k) * BF16_BYTES;
    void *pa = malloc(a_size), *pb = malloc(b_size);
    memset(pa, 0xFF, a_size), memset(pb, 0xFF, b_size); /* NaN where packing leaves a gap */
    SR_SIMD(pack_a_bf16)(pa, a, s->a_along_k ? s->k : 1, s->a_along_k ? 1 : s->m, s->m, s->k);
    SR_SIMD(pack_b_bf16)(pb, b, s->b_along_k ? 1 : s->n, s->b_along_k ? s->k : 1, s->k, s->n);
    float *c = malloc((size_t)(s->m * ldc) * sizeof *c),
          *d = malloc((size_t)(s->m * ldc) * sizeof *d);
    for (int64_t i = 0; i < s->m * ldc; i++) c[i] = d[i] = 7.0f;
    sr_gemm g = {
        .c = c, .a = pa, .b = pb, .ldc = ldc, .m = s->m, .n = s->n, .k = s->k, .alpha = 0.5f};
    SR_SIMD(gemm_bf16)(&g);
    compare(s, a, b, c, 0);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = s->n; j < ldc; j++) CHECK(c[i * ldc + j] == 7.0f);
    int64_t rest = s->k % BF16_K;
    if (s->a_along_k && s->m % BF16_ROWS == 0 && (rest == 0 || BF16_K == 32)) {
        sr_gemm rows = g;
        rows.c = d, rows.a = a, rows.lda = s->k;
        sr_bf16 *tail = malloc((size_t)(up(s->m, 16) * BF16_K) * sizeof *tail);
        if (rest > 0) {
            SR_SIMD(pack_a_bf16)(tail, a + s->k - rest, s->k, 1, s->m, rest);
            rows.tail = tail;
        }
        SR_SIMD(gemm_bf16_rows)(&rows);
        CHECK(memcmp(c, d, (size_t)(s->m * ldc) * sizeof *c) == 0);
        free(tail);
    }
    for (int64_t i = 0; i < s->m * ldc; i++) c[i] = 1.0f;
    g.add = true;
    SR_SIMD(gemm_bf16)(&g);
    compare(s, a, b, c, 1);
    free(a), free(b), free(pa), free(pb), free(c), free(d);
}

#ifdef BF16_TILES
double SR_SIMD(burst_tiles)(float *sink, int64_t rounds);

/* Two products of 32 ones a round in each tile. */
static void test_burst(void) {
    float sink[VL];
    CHECK(SR_SIMD(burst_tiles)(sink, 3) == 3 * 12 * 2.0 * 16 * 16 * 32);
    for (int i = 0; i < VL; i++) CHECK(sink[i] == 3 * 2 * 32);
}
#else
static void test_burst(void) {
}
#endif

/* ---- linear, on a device whose class multiplies bf16 with these functions ------------------- */

static sr_simd emulated;

static void test_linear(void) {
    emulated = *sr_cpu_simd();
    emulated.bf16_rows = BF16_ROWS, emulated.bf16_k = BF16_K, emulated.bf16_bytes = BF16_BYTES;
    emulated.bf16_depth = BF16_DEPTH, emulated.tiles = BF16_K == 32;
    emulated.bf16_rounds = BF16_K == 2;
    emulated.pack_a_bf16 = SR_SIMD(pack_a_bf16), emulated.pack_b_bf16 = SR_SIMD(pack_b_bf16);
    emulated.gemm_bf16 = SR_SIMD(gemm_bf16), emulated.gemm_bf16_rows = SR_SIMD(gemm_bf16_rows);
    emulated.act_bf16 = SR_SIMD(act_bf16), emulated.act_bf16_backward = SR_SIMD(act_bf16_backward);
    emulated.strips = SR_SIMD(strips), emulated.strips_room = SR_SIMD(strips_room);
    emulated.panels_of_rows = SR_SIMD(panels_of_rows);
    emulated.panel_of_columns = SR_SIMD(panel_of_columns);
    emulated.tiles_across = SR_SIMD(tiles_across);
    test_layers(&emulated);
}

int main(void) {
    static const int64_t sizes[][3] = {{1, 1, 1},    {5, 3, 2},     {16, 48, 64},  {17, 17, 17},
                                       {48, 49, 96}, {33, 100, 31}, {64, 16, 130}, {32, 48, 70}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < 4; way++) {
            if (way == 0) {
                sr_bf16 *x = random_bf16(sizes[i][0] * sizes[i][2], 3);
                check_packing(x, sizes[i][0], sizes[i][2]);
                free(x);
            }
            shape s = {sizes[i][0], sizes[i][1], sizes[i][2], way & 1, way & 2};
            try_shape(&s);
        }
    test_burst();
    test_linear();
    return CHECK_DONE();
}

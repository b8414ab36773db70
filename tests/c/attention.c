/* attention.c - attention on bf16 with every instruction set of this processor: the same bits on
 * any number of threads and whatever a neighbour holds, and values as close to those of the plain
 * instruction set as bf16's rounding allows. */
#include <math.h>

#include "tests/c/attention_op.h"

/* ||got - want|| / ||want|| over those of some rows that are in sequences. */
static double distance(const sr_bf16 *got, const sr_bf16 *want, int64_t cols, const sr_layout *l,
                       const int32_t *rows, int64_t count) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < count * cols; i++) {
        if (l->owner[rows[i / cols]] < 0) continue;
        double g = sr_bf16_to_f32(got[i]), w = sr_bf16_to_f32(want[i]);
        error += (g - w) * (g - w), size += w * w;
    }
    return sqrt(error / size);
}

static void compare(const sr_simd *simd, const op *want, const sr_layout *l, int variant) {
    op *got = op_new(l, variant, -1);
    CHECK_OK(run_with(simd, got, l, variant, 2, 0));
    int32_t rows[ROWS];
    int64_t count = list_rows(rows, l, variant);
    CHECK(distance(got->out, want->out, WIDTH, l, rows, count) < 3e-3);
    count = list_rows(rows, l, 0);
    CHECK(distance(got->dqkv, want->dqkv, columns_of(variant), l, rows, count) < 3e-3);
    free(got);
}

/* A query has the bits that it has among all others; q of other rows has no gradient. */
static void test_listed(const sr_simd *simd, int whole, int listed) {
    sr_layout l = packed();
    op *a = op_new(&l, whole, -1), *b = op_new(&l, listed, -1);
    CHECK_OK(run_with(simd, a, &l, whole, 2, 0));
    CHECK_OK(run_with(simd, b, &l, listed, 2, 0));
    int32_t rows[ROWS];
    int64_t count = list_rows(rows, &l, listed), columns = columns_of(listed), m = 0;
    for (int64_t r = 0; r < ROWS; r++) {
        if (m < count && rows[m] == r) {
            CHECK(memcmp(a->out + r * WIDTH, b->out + m++ * WIDTH, WIDTH * sizeof(sr_bf16)) == 0);
            continue;
        }
        for (int64_t c = 0; c < WIDTH; c++) CHECK(b->dqkv[r * columns + c] == 0);
    }
    free(a), free(b);
}

static void test_variant(int variant) {
    static const char *const names[] = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};
    sr_layout l = packed();
    op *want = op_new(&l, variant, -1);
    for (int i = 0; i < 5; i++) {
        setenv("SEQRUN_ISA", names[i], 1);
        if (strcmp(sr_cpu_simd()->name, names[i]) != 0) {
            if (variant == 0) printf("attention: this processor lacks %s\n", names[i]);
            continue;
        }
        const sr_simd *simd = sr_cpu_simd();
        if (i == 0) CHECK_OK(run_with(simd, want, &l, variant, 1, 0));
        compare(simd, want, &l, variant);
        test_bits(simd, variant);
        test_memory(simd, variant);
        if (is_listed(variant)) test_listed(simd, variant == 3 ? 0 : 2, variant);
    }
    free(want);
}

int main(void) {
    for (int variant = 0; variant < VARIANTS; variant++) test_variant(variant);
    return CHECK_DONE();
}

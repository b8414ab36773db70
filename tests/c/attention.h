/* attention.h - the body of the tests of attention on bf16 whose instructions are emulated: they
 * compile attention_bf16.c over dots.c or tiles.c with SR_EMULATE, and compare it with attention.c
 * of the plain class on widened operands. */
#ifndef SR_ISA /* this header alone */
#define SR_ISA emulated
#define SR_EMULATE 1
#endif

#include "kernels/cpu/simd/attention_bf16.c"
#include "kernels/cpu/simd/bf16.c"
#include "tests/c/attention_op.h"

extern const sr_simd sr_simd_plain;

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, MATRICES };

/* A unit of n rows of d, at row `row` of matrices whose rows are `ld` apart: the other elements are
 * `around`. */
typedef struct unit {
    sr_bf16 *at[MATRICES];
    float *lse, scale;
    int64_t n, d, ld, row, rows, before, after;
    int64_t queries; /* rows of q, dq, out and dout */
    int32_t *position;
    int members;
    sr_bf16 around;
} unit;

static int64_t rows_of(const unit *u, int m) {
    return m == Q || m == OUT || m == DOUT || m == DQ ? u->queries : u->n;
}

/* Lists two of `step` rows as the queries, a cluster and the last one if it is 0, or all without a
 * list if it is 1. */
static void list_queries(unit *u, int64_t step) {
    u->queries = u->n;
    if (step == 1) return;
    u->position = malloc((size_t)u->n * sizeof *u->position);
    u->queries = 0;
    for (int64_t i = 0; i < u->n; i++)
        if (step > 0 ? i % step < 2 : (i >= 30 && i < 94) || i == u->n - 1)
            u->position[u->queries++] = (int32_t)i;
}

/* The last row ends where the memory does. */
static unit unit_new(int64_t n, int64_t d, int64_t row, int64_t gap, sr_bf16 around, int64_t step) {
    unit u = {.n = n, .d = d, .ld = d + gap, .row = row, .rows = row + n, .around = around};
    list_queries(&u, step);
    for (int m = 0; m < MATRICES; m++) {
        int64_t count = u.rows * u.ld;
        u.at[m] = malloc((size_t)count * sizeof(sr_bf16));
        for (int64_t i = 0; i < count; i++) u.at[m][i] = around;
        for (int64_t r = 0; m != OUT && m < DQ && r < rows_of(&u, m); r++)
            for (int64_t c = 0; c < d; c++)
                u.at[m][(row + r) * u.ld + gap + c] =
                    sr_bf16_from_f32((m == V ? 1 : 2) * random_at((uint32_t)m, r * d + c));
    }
    u.lse = malloc((size_t)n * sizeof(float));
    return u;
}

static void unit_free(unit *u) {
    for (int m = 0; m < MATRICES; m++) free(u->at[m]);
    free(u->lse);
    free(u->position);
}

static sr_bf16 *first_row(const unit *u, int m) {
    return u->at[m] + u->row * u->ld + u->ld - u->d;
}

static sr_attention_unit described(const unit *u, uint32_t keep) {
    return (sr_attention_unit){.q = (float *)first_row(u, Q),
                               .k = (float *)first_row(u, K),
                               .v = (float *)first_row(u, V),
                               .out = (float *)first_row(u, OUT),
                               .lse = u->lse,
                               .ld = u->ld,
                               .ldq = u->ld,
                               .ldo = u->ld,
                               .n = u->n,
                               .queries = u->queries,
                               .position = u->position,
                               .d = u->d,
                               .before = u->before < u->n ? u->before : u->n,
                               .after = u->after < u->n ? u->after : u->n,
                               .members = u->members,
                               .scale = u->scale,
                               .bf16 = true,
                               .key = {.seed = 7, .uid = 3, .word2 = 5, .epoch = 2, .keep = keep}};
}

/* Both passes, in room that is exactly large enough and full of NaN. */
static void compute(const unit *u, uint32_t keep) {
    enum { GUARD = 64 };
    sr_attention_unit a = described(u, keep);
    int64_t bytes = SR_SIMD(attention_bf16_room)(&a, true);
    CHECK(SR_SIMD(attention_bf16_room)(&a, false) <= bytes);
    char *room = aligned_alloc(64, (size_t)bytes + GUARD);
    memset(room, 0xFF, (size_t)bytes + GUARD);
    a.room = room;
    SR_SIMD(bf16_begin)();
    SR_SIMD(attention_bf16)(&a);
    a.dout = (float *)first_row(u, DOUT);
    a.dq = (float *)first_row(u, DQ), a.dk = (float *)first_row(u, DK);
    a.dv = (float *)first_row(u, DV);
    for (; a.member < a.members; a.member++) {
        a.key.word2 = 5 + (uint32_t)a.member;
        SR_SIMD(attention_bf16_backward)(&a);
    }
    SR_SIMD(bf16_end)();
    for (int i = 0; i < GUARD; i++) CHECK((unsigned char)room[bytes + i] == 0xFF);
    free(room);
}

/* ---- against f32 ------------------------------------------------------------------------------
 */

/* Rows of d floats of a matrix. */
static float *widened(const unit *u, int m) {
    float *x = malloc((size_t)(u->n * u->d) * sizeof *x);
    for (int64_t i = 0; i < rows_of(u, m) * u->d; i++)
        x[i] = sr_bf16_to_f32(first_row(u, m)[i / u->d * u->ld + i % u->d]);
    return x;
}

/* ||got - want|| / ||want||, which has the size of bf16's rounding at most. */
static void close_to(const unit *u, int m, const float *want) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < rows_of(u, m) * u->d; i++) {
        double got = sr_bf16_to_f32(first_row(u, m)[i / u->d * u->ld + i % u->d]);
        error += (got - want[i]) * (got - want[i]);
        size += want[i] * want[i];
    }
    bool close = sqrt(error) <= 3e-3 * sqrt(size) + 1e-7;
    CHECK(close);
    if (!close)
        printf("  n %d, d %d, matrix %d: %g of %g\n", (int)u->n, (int)u->d, m, sqrt(error),
               sqrt(size));
}

static void compare(const unit *u, uint32_t keep) {
    float *x[MATRICES], *lse = malloc((size_t)u->n * sizeof *lse);
    for (int m = 0; m < MATRICES; m++) x[m] = widened(u, m);
    sr_attention_unit a = described(u, keep);
    a.q = x[Q], a.k = x[K], a.v = x[V], a.lse = lse, a.ld = a.ldq = a.ldo = u->d;
    a.out = malloc((size_t)(u->n * u->d) * sizeof(float));
    a.room = aligned_alloc(64, (size_t)sr_simd_plain.attention_room(&a, true));
    sr_simd_plain.attention(&a);
    close_to(u, OUT, a.out);
    for (int64_t i = 0; i < u->queries; i++) CHECK(fabsf(lse[i] - u->lse[i]) < 1e-5f);
    free(a.out);
    a.out = x[OUT], a.dout = x[DOUT], a.dq = x[DQ], a.dk = x[DK], a.dv = x[DV];
    for (; a.member < a.members; a.member++) {
        a.key.word2 = 5 + (uint32_t)a.member;
        sr_simd_plain.attention_backward(&a);
    }
    for (int m = DQ; m < MATRICES; m++) close_to(u, m, x[m]);
    for (int m = 0; m < MATRICES; m++) free(x[m]);
    free(lse), free(a.room);
}

/* ---- own rows only ----------------------------------------------------------------------------
 */

static void check_around(const unit *u) {
    for (int m = OUT; m < MATRICES; m++)
        for (int64_t i = 0; m != DOUT && i < u->rows * u->ld; i++)
            if (i / u->ld < u->row || i / u->ld >= u->row + rows_of(u, m) ||
                i % u->ld < u->ld - u->d)
                CHECK(u->at[m][i] == u->around);
}

static void same_bits(const unit *a, const unit *b) {
    for (int m = OUT; m < MATRICES; m++)
        for (int64_t r = 0; r < rows_of(a, m); r++)
            CHECK(memcmp(first_row(a, m) + r * a->ld, first_row(b, m) + r * b->ld,
                         (size_t)a->d * sizeof(sr_bf16)) == 0);
    CHECK(memcmp(a->lse, b->lse, (size_t)a->queries * sizeof(float)) == 0);
}

/* What a row sees, how many query heads share k and v, and which queries are listed. */
typedef struct sight {
    int64_t before, after;
    int members;
    int64_t step;
} sight;

static void check_unit(int64_t n, int64_t d, uint32_t keep, float scale, sight s) {
    enum { NOT_A_NUMBER = 0x7FC0, ONE = 0x3F80 };
    unit a = unit_new(n, d, 0, 0, ONE, s.step), b = unit_new(n, d, 5, 13, NOT_A_NUMBER, s.step);
    a.scale = b.scale = scale;
    a.before = b.before = s.before, a.after = b.after = s.after, a.members = b.members = s.members;
    compute(&a, keep), compute(&b, keep);
    compare(&a, keep);
    same_bits(&a, &b);
    check_around(&a), check_around(&b);
    unit_free(&a), unit_free(&b);
}

/* ---- the op -----------------------------------------------------------------------------------
 */

/* The plain class with these kernels of attention. */
static sr_simd with_emulated(void) {
    sr_simd simd = sr_simd_plain;
    simd.bf16_rows = BF16_ROWS;
    simd.bf16_begin = SR_SIMD(bf16_begin), simd.bf16_end = SR_SIMD(bf16_end);
    simd.attention_bf16_room = SR_SIMD(attention_bf16_room);
    simd.attention_bf16 = SR_SIMD(attention_bf16);
    simd.attention_bf16_backward = SR_SIMD(attention_bf16_backward);
    return simd;
}

int main(void) {
    enum { FAR = 1 << 20 };
    static const int lengths[] = {1,  2,  7,  8,  15,  16,  17,  31, 32,
                                  33, 48, 64, 65, 100, 128, 129, 300};
    static const int sizes[] = {1, 5, 16, 20, 32, 64, 80, 128};
    static const sight all = {FAR, FAR, 1, 1},
                       some[] = {{FAR, FAR, 2, 1}, {0, 0, 1, 1},   {5, 5, 1, 1},   {64, 64, 2, 1},
                                 {FAR, 0, 1, 1},   {40, 0, 3, 1},  {0, 33, 1, 1},  {270, 270, 1, 1},
                                 {FAR, FAR, 1, 7}, {FAR, 0, 2, 9}, {40, 5, 1, 3},  {3, 3, 1, 60},
                                 {0, 70, 2, 100},  {2, 2, 1, 0},   {64, 64, 2, 0}, {FAR, 0, 1, 0}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_unit(lengths[i], sizes[i % 8], 256, 0.2f, all);
        check_unit(lengths[i], sizes[(i + 3) % 8], 230, 0.3f, all);
        check_unit(lengths[i], 64, 128, 0.125f, all);
        check_unit(lengths[i], 32, 230, -0.1f, all);
        for (size_t k = 0; k < sizeof some / sizeof *some; k++)
            check_unit(lengths[i], sizes[1 + (i + k) % 7], k % 2 ? 230 : 256, 0.2f, some[k]);
    }
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) check_unit(700, 20, 230, 0.2f, some[k]);
    sr_simd simd = with_emulated();
    for (int variant = 0; variant < VARIANTS; variant++) {
        test_bits(&simd, variant);
        test_memory(&simd, variant);
    }
    return CHECK_DONE();
}

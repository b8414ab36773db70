/* product.c - the matrix product behind matmul, linear and the tied decoder.
 *
 * C is cut into blocks of BLOCK_M x BLOCK_N; a block is a task.  Inside it k goes in steps of
 * BLOCK_K: that much of B is packed into panels, then A, STRIP_M rows at a time, is packed and
 * multiplied.  Packing B again for every BLOCK_M rows costs about 1 part in 100 of the products, so
 * packed weights need not be kept (they would double the memory of the parameters).
 *
 * Room      B 384 x 256 and A 64 x 256 floats: 448 KiB a worker, in the second-level cache.
 * Work      2 m n k flops.
 * Measured  AMD EPYC (Zen 4), one core: 112-117 GFLOP/s in the inner kernel of a peak of 118; see
 *           `build/seqrun recipes/bench/ops.lua op=linear`.
 */
#include "kernels/cpu/cpu.h"

enum { BLOCK_M = 256, BLOCK_N = 384, BLOCK_K = 256, STRIP_M = 64 };

typedef struct job {
    const sr_product *p;
    const sr_cpu *cpu;
    int64_t across; /* blocks along n */
} job;

static void multiply_strip(const job *j, float *room, const float *panels, int64_t row,
                           int64_t rows, int64_t col, int64_t cols, int64_t k, int64_t depth) {
    const sr_product *p = j->p;
    j->cpu->simd->pack_a(room, p->a + row * p->a_row + k * p->a_col, p->a_row, p->a_col, rows,
                         depth);
    sr_gemm g = {.c = p->c + row * p->ldc + col,
                 .a = room,
                 .b = panels,
                 .ldc = p->ldc,
                 .m = rows,
                 .n = cols,
                 .k = depth,
                 .alpha = p->alpha,
                 .add = p->add || k > 0};
    j->cpu->simd->gemm_packed(&g);
}

static sr_status block_task(void *context, int64_t i, int worker) {
    const job *j = context;
    const sr_product *p = j->p;
    float *panels = sr_cpu_scratch(j->cpu, worker), *room = panels + BLOCK_K * BLOCK_N;
    int64_t row = i / j->across * BLOCK_M, col = i % j->across * BLOCK_N;
    int64_t rows = sr_least(BLOCK_M, p->m - row), cols = sr_least(BLOCK_N, p->n - col);
    for (int64_t k = 0; k < p->k; k += BLOCK_K) {
        int64_t depth = sr_least(BLOCK_K, p->k - k);
        j->cpu->simd->pack_b(panels, p->b + k * p->b_row + col * p->b_col, p->b_row, p->b_col,
                             depth, cols);
        for (int64_t r = 0; r < rows; r += STRIP_M)
            multiply_strip(j, room, panels, row + r, sr_least(STRIP_M, rows - r), col, cols, k,
                           depth);
    }
    if (p->epilogue != NULL) p->epilogue(p, row, rows, col, cols);
    return SR_OK;
}

/* A product over nothing: C = 0, or C as it stands. */
static void empty_sum(const sr_product *p) {
    for (int64_t r = 0; r < p->m && !p->add; r++)
        for (int64_t c = 0; c < p->n; c++) p->c[r * p->ldc + c] = 0.0f;
    if (p->epilogue != NULL) p->epilogue(p, 0, p->m, 0, p->n);
}

size_t sr_cpu_product_room(void) {
    return sizeof(float) * BLOCK_K * (BLOCK_N + STRIP_M);
}

sr_status sr_cpu_product(const sr_tensor *t, const sr_product *p) {
    if (p->m == 0 || p->n == 0) return SR_OK;
    if (p->k == 0) {
        empty_sum(p);
        return SR_OK;
    }
    sr_cpu *cpu = sr_cpu_of(t);
    SR_TRY(sr_cpu_reserve(cpu, sr_cpu_product_room(), 0));
    job j = {p, cpu, sr_blocks(p->n, BLOCK_N)};
    return sr_cpu_run(t, block_task, &j, j.across * sr_blocks(p->m, BLOCK_M));
}

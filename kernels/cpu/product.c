/* product.c - the matrix product behind matmul, linear and the tied decoder.
 *
 * C is split into blocks, one task each; k proceeds in steps of DEPTH.  B is packed into panels
 * (and A too, if its rows are not contiguous): tall products    both are packed once, by a separate
 * job, into the device's `panels` flat products    (m <= FLAT) and products within a task: every
 * block packs its own part of B, which no other block reads, into the worker's scratch An element
 * of C is the same chain over k in both cases, and for any block boundaries.
 *
 * Packing costs 0.1-0.2 ns per element, 1 % of a product of 2,048 rows.  Packed weights are
 * therefore not kept between calls, which would double the memory of the parameters.
 *
 * Cache     a block of B, WIDTH x DEPTH floats: 384 KiB, in the second-level cache.
 * Work      2 m n k flops.
 * Measured  AMD Zen 4, AVX-512, T = 2,048, 2026-11-21: 104-109 GFLOP/s of 118 on 1 thread in a
 *           BERT-base layer, including packing, bias and both gradients; 200-217 on 2, where oneDNN
 *           2.6.3 reaches 212-227 with weights reordered beforehand.  By
 *           `build/seqrun recipes/bench/ops.lua op=linear peer=true`.
 * Why own   oneDNN has no clear advantage in a training step: BERT-base, 2 threads, run alternately
 *           on that machine, oneDNN's products on a fixed grid of blocks (64-512 rows x 192-768
 *           columns) on these threads, weights reordered once per step: 321-343 real tokens/s; this
 *           code 317-340.  Moreover, the bits of a row here do not depend on other rows, there is
 *           no second copy of the weights, all memory is reserved beforehand, failures are status
 *           values, and one set of threads does all work.
 */
#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

enum { WIDTH = 192, DEPTH = 512, STRIP = 64, TALLEST = 512, FLAT = 512, TASKS = 32 };

typedef struct job {
    const sr_product *p;
    const sr_cpu_state *cpu;
    const float *a, *b;     /* packed as a whole, or NULL */
    int64_t m_pad, n_pad;   /* rows and columns of the packed forms */
    int64_t height, across; /* rows per block; blocks along n */
} job;

static int64_t round_up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

/* ---- multiplying ----------------------------------------------------------------------------- */

/* Rows row.. of A for gemm: packed beforehand, in place, or packed now. */
static void multiply_strip(const job *j, float *room, sr_gemm *g, int64_t row, int64_t k) {
    const sr_product *p = j->p;
    const sr_simd *simd = j->cpu->simd;
    if (j->a != NULL) {
        g->a = j->a + k * j->m_pad + row * g->k;
        simd->gemm_packed(g);
        return;
    }
    g->a = p->a + row * p->a_row + k * p->a_col;
    g->lda = p->a_row;
    if (p->a_col == 1 && g->m % simd->tile_rows == 0) {
        simd->gemm_rows(g);
        return;
    }
    simd->pack_a(room, g->a, p->a_row, p->a_col, g->m, g->k);
    g->a = room;
    simd->gemm_packed(g);
}

static sr_status block_task(void *context, int64_t i, int worker) {
    const job *j = context;
    const sr_product *p = j->p;
    float *room = sr_cpu_scratch(j->cpu, worker), *strip = room + WIDTH * DEPTH;
    int64_t row = i / j->across * j->height, col = i % j->across * WIDTH;
    int64_t rows = sr_least(j->height, p->m - row), cols = sr_least(WIDTH, p->n - col);
    for (int64_t k = 0; k < p->k; k += DEPTH) {
        sr_gemm g = {.n = cols,
                     .k = sr_least(DEPTH, p->k - k),
                     .ldc = p->ldc,
                     .alpha = p->alpha,
                     .add = p->add || k > 0};
        if (j->b != NULL) {
            g.b = j->b + k * j->n_pad + col * g.k;
        } else {
            j->cpu->simd->pack_b(room, p->b + k * p->b_row + col * p->b_col, p->b_row, p->b_col,
                                 g.k, cols);
            g.b = room;
        }
        for (int64_t r = row; r < row + rows; r += STRIP) {
            g.m = sr_least(STRIP, row + rows - r);
            g.c = p->c + r * p->ldc + col;
            multiply_strip(j, strip, &g, r, k);
        }
    }
    if (p->epilogue != NULL) p->epilogue(p, row, rows, col, cols);
    return SR_OK;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Task i packs one step of k: WIDTH columns of B, or WIDTH rows of A. */
static sr_status pack_b_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    const sr_product *p = j->p;
    int64_t k = i / j->across * DEPTH, col = i % j->across * WIDTH;
    int64_t depth = sr_least(DEPTH, p->k - k);
    j->cpu->simd->pack_b((float *)j->b + k * j->n_pad + col * depth,
                         p->b + k * p->b_row + col * p->b_col, p->b_row, p->b_col, depth,
                         sr_least(WIDTH, p->n - col));
    return SR_OK;
}

static sr_status pack_a_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    const sr_product *p = j->p;
    int64_t strips = sr_blocks(p->m, WIDTH), k = i / strips * DEPTH, row = i % strips * WIDTH;
    int64_t depth = sr_least(DEPTH, p->k - k);
    j->cpu->simd->pack_a((float *)j->a + k * j->m_pad + row * depth,
                         p->a + row * p->a_row + k * p->a_col, p->a_row, p->a_col,
                         sr_least(WIDTH, p->m - row), depth);
    return SR_OK;
}

static sr_status pack_whole(job *j, const sr_tensor *t, sr_cpu_state *cpu) {
    const sr_product *p = j->p;
    bool pack_a = p->a_col != 1;
    int64_t steps = sr_blocks(p->k, DEPTH);
    j->n_pad = round_up(p->n, 16);
    j->m_pad = round_up(p->m, cpu->simd->tile_rows);
    size_t bytes;
    SR_TRY(sr_mul_size(&bytes, (size_t)(j->n_pad + (pack_a ? j->m_pad : 0)),
                       (size_t)p->k * sizeof(float)));
    SR_TRY(sr_cpu_reserve_panels(cpu, bytes));
    j->b = cpu->panels.data;
    SR_TRY(sr_cpu_run(t, pack_b_task, j, steps * j->across));
    if (!pack_a) return SR_OK;
    j->a = j->b + j->n_pad * p->k;
    return sr_cpu_run(t, pack_a_task, j, steps * sr_blocks(p->m, WIDTH));
}

/* ---- the product ----------------------------------------------------------------------------- */

/* A product with k = 0: C = 0, or C unchanged. */
static void empty_sum(const sr_product *p) {
    for (int64_t r = 0; r < p->m && !p->add; r++)
        for (int64_t c = 0; c < p->n; c++) p->c[r * p->ldc + c] = 0.0f;
    if (p->epilogue != NULL) p->epilogue(p, 0, p->m, 0, p->n);
}

size_t sr_cpu_product_room(void) {
    return sizeof(float) * DEPTH * (WIDTH + STRIP);
}

/* The tallest blocks that give TASKS of them; flat and nested products keep all rows together, so
 * that B is packed once. */
static void set_height(job *j) {
    const sr_product *p = j->p;
    j->across = sr_blocks(p->n, WIDTH);
    j->height = TALLEST;
    if (p->nested) j->height = p->m;
    while (!p->nested && j->height > STRIP && sr_blocks(p->m, j->height) * j->across < TASKS)
        j->height /= 2;
}

sr_status sr_cpu_product(const sr_tensor *t, const sr_product *p) {
    if (p->m == 0 || p->n == 0) return SR_OK;
    if (p->k == 0) {
        empty_sum(p);
        return SR_OK;
    }
    sr_cpu_state *cpu = sr_cpu_of(t);
    job j = {.p = p, .cpu = cpu};
    set_height(&j);
    if (!p->nested) {
        SR_TRY(sr_cpu_reserve(cpu, sr_cpu_product_room(), 0));
        if (p->m > FLAT || sr_blocks(p->m, j.height) > 4) SR_TRY(pack_whole(&j, t, cpu));
    }
    return sr_cpu_run(t, block_task, &j, j.across * sr_blocks(p->m, j.height));
}

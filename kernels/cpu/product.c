/* product.c - the matrix product behind matmul, linear and the tied decoder.
 *
 * C is split into blocks, one task each; k proceeds in steps of DEPTH (in bf16, of the ISA).
 * B is packed into panels, and so is A if its rows are not contiguous:
 *   tall products   both are packed once, by a separate job, into the device's `panels`; if A needs
 *                   it too (weight gradients), the larger one by the tasks instead, each its part
 *   flat products   (m <= FLAT, at most 4 blocks of rows), and products within a task: every block
 *                   packs its own part of B, which few others read, into the worker's scratch
 * An element of C is the same chain over k in both cases, and for any block boundaries.
 *
 * bf16      Packing converts to what the set multiplies: pairs for dot products and AMX, floats
 *           elsewhere.  Rows of A are read in place by the first two if nothing needs padding.  A
 *           result in bf16 is rounded by the kernel, tile by tile, or is a block of floats in the
 *           worker's scratch that the epilogue rounds; both give the same bits.
 *
 * Nothing packed is kept between calls; why, and why not oneDNN: docs/reference/kernels.md.
 * Products of bf16 on AMX are in strips.c, but for those within a task.
 *
 * Cache     a block of B, WIDTH x DEPTH floats: 384 KiB, in the second-level cache.
 * Work      2 m n k flops.
 * Measured  AMD Zen 4, AVX-512, T = 2,048, 2026-11-21: 104-109 GFLOP/s of 118 on 1 thread in a
 *           BERT-base layer, including packing, bias and both gradients; 200-217 on 2, where oneDNN
 *           2.6.3 reaches 212-227 with weights reordered beforehand.  By
 *           `build/seqrun recipes/bench/ops.lua op=linear peer=true`.  In bf16 by dot products, 2
 *           threads, 2026-11-27: 419-447 of 468 forward, 405-431 backward, with `precision=bf16`.
 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

enum { WIDTH = SR_BLOCK_COLUMNS, DEPTH = 512, STRIP = 64, TALLEST = 512, FLAT = 512, TASKS = 64 };
enum { PANELS = 48, PIECES = 4 }; /* columns: whole panels of any set; a task packs up to PIECES */
enum { WIDEST = 1024, ROUND = 16 }; /* of blocks of C where tasks pack the larger operand */
enum { OWN_TALLEST = 256 }; /* rows of a block of C in scratch: with B it fits the second cache */

typedef struct job {
    const sr_product *p;
    const sr_cpu_state *cpu;
    const char *a, *b;     /* packed as a whole, or NULL */
    bool pack_a, pack_b;   /* whether to */
    int64_t m_pad, n_pad;  /* rows and columns of the packed forms */
    int64_t height, width; /* of a block */
    int64_t across;        /* blocks along n */
    int64_t depth, strip;  /* step of k; rows of A in a call of gemm */
    int64_t bytes;         /* of an element of the packed forms */
    int64_t packed;        /* columns that a task packs */
} job;

/* k as packing pads it. */
static int64_t padded(const job *j, int64_t k) {
    return j->p->bf16 ? sr_round_up(k, j->cpu->simd->bf16_k) : k;
}

/* ---- multiplying ----------------------------------------------------------------------------- */

static const void *a_at(const sr_product *p, int64_t row, int64_t k) {
    return sr_operand_at(p->a, p->bf16, row * p->a_row + k * p->a_col);
}
static const void *b_at(const sr_product *p, int64_t k, int64_t col) {
    return sr_operand_at(p->b, p->bf16, k * p->b_row + col * p->b_col);
}

static void pack_a(const job *j, void *to, int64_t row, int64_t k, int64_t rows, int64_t depth) {
    const sr_product *p = j->p;
    if (p->bf16)
        j->cpu->simd->pack_a_bf16(to, a_at(p, row, k), p->a_row, p->a_col, rows, depth);
    else
        j->cpu->simd->pack_a(to, a_at(p, row, k), p->a_row, p->a_col, rows, depth);
}

static void pack_b(const job *j, void *to, int64_t k, int64_t col, int64_t depth, int64_t cols) {
    const sr_product *p = j->p;
    if (p->bf16)
        j->cpu->simd->pack_b_bf16(to, b_at(p, k, col), p->b_row, p->b_col, depth, cols);
    else
        j->cpu->simd->pack_b(to, b_at(p, k, col), p->b_row, p->b_col, depth, cols);
}

static bool on_tiles(const job *j) {
    return j->p->bf16 && j->cpu->simd->tiles;
}

/* Whether rows of A, a multiple of this many, can be read in place; 0: they cannot. */
static int64_t rows_in_place(const job *j, int64_t k) {
    const sr_simd *simd = j->cpu->simd;
    if (j->a != NULL || j->p->a_col != 1) return 0;
    if (!j->p->bf16) return simd->tile_rows;
    return k % simd->bf16_k == 0 || simd->tiles ? simd->bf16_rows : 0;
}

/* Multiplies g->m rows of A from `row` on in place; `room` is for a tail. */
static void multiply_in_place(const job *j, void *room, sr_gemm *g, int64_t row, int64_t k) {
    const sr_simd *simd = j->cpu->simd;
    int64_t rest = j->p->bf16 ? g->k % simd->bf16_k : 0;
    g->a = a_at(j->p, row, k);
    g->lda = j->p->a_row;
    g->tail = NULL;
    if (rest > 0) {
        pack_a(j, room, row, k + g->k - rest, g->m, rest);
        g->tail = room;
    }
    j->p->bf16 ? simd->gemm_bf16_rows(g) : simd->gemm_rows(g);
}

/* Multiplies g->m rows of A from `row` on that are packed beforehand, or now. */
static void multiply_packed(const job *j, void *room, sr_gemm *g, int64_t row, int64_t k) {
    g->a = room;
    if (j->a != NULL)
        g->a = j->a + (k * j->m_pad + row * padded(j, g->k)) * j->bytes;
    else
        pack_a(j, room, row, k, g->m, g->k);
    j->p->bf16 ? j->cpu->simd->gemm_bf16(g) : j->cpu->simd->gemm_packed(g);
}

/* C, the rows of a block in all its columns, = or += rows of A times the B of g. */
static void multiply_rows(const job *j, void *room, sr_gemm g, int64_t row, int64_t rows,
                          int64_t k) {
    int64_t whole = rows_in_place(j, g.k), strip = j->a != NULL || whole > 0 ? j->strip : STRIP;
    for (int64_t end = row + rows; row < end; row += g.m) {
        g.m = sr_least(strip, end - row);
        if (whole > 0 && g.m >= whole) {
            g.m -= g.m % whole;
            multiply_in_place(j, room, &g, row, k);
        } else {
            multiply_packed(j, room, &g, row, k);
        }
        g.c += g.m * g.ldc;
        if (g.rounded.y != NULL) g.rounded.y += g.m * g.rounded.ld;
        if (g.rounded.pre != NULL) g.rounded.pre += g.m * g.rounded.ld;
    }
}

static sr_status block_task(void *context, int64_t i, int worker) {
    const job *j = context;
    const sr_product *p = j->p;
    float *room = sr_cpu_scratch(j->cpu, worker), *strip = room + WIDTH * DEPTH;
    int64_t row = i / j->across * j->height, col = i % j->across * j->width;
    int64_t rows = sr_least(j->height, p->m - row), cols = sr_least(j->width, p->n - col);
    int64_t ld = p->c != NULL ? p->ldc : WIDTH;
    float *c = p->c != NULL ? p->c + row * ld + col : strip + STRIP * DEPTH;
    bool rounds = p->c == NULL && p->bf16 && j->cpu->simd->bf16_rounds;
    for (int64_t k = 0; k < p->k; k += j->depth) {
        sr_gemm g = {.c = c,
                     .b = room,
                     .n = cols,
                     .k = sr_least(j->depth, p->k - k),
                     .ldc = ld,
                     .alpha = p->alpha,
                     .add = p->add || k > 0};
        if (j->b != NULL)
            g.b = j->b + (k * j->n_pad + col * padded(j, g.k)) * j->bytes;
        else
            pack_b(j, room, k, col, g.k, cols);
        if (rounds && k + g.k == p->k) g.rounded = sr_rounded_at(p, row, col);
        multiply_rows(j, strip, g, row, rows, k);
    }
    if (p->epilogue != NULL && !rounds) p->epilogue(p, c, ld, row, rows, col, cols);
    return SR_OK;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Tasks that keep the threads busy; recorded jobs are for any number of threads. */
static int64_t tasks_for(const job *j, int64_t of_thread) {
    if (j->cpu->jobs != NULL) return TASKS;
    return sr_least(TASKS, of_thread * sr_threads_count(j->cpu->device->threads));
}

/* Columns of B that a task packs: many, so that it reads long pieces of rows. */
static int64_t columns_packed(const job *j, int64_t steps) {
    int64_t pieces = PIECES;
    while (pieces > 1 && steps * sr_blocks(j->p->n, pieces * PANELS) < tasks_for(j, 2)) pieces /= 2;
    return pieces * PANELS;
}

/* Task i packs one step of k: `packed` columns of B, or STRIP rows of A. */
static sr_status pack_b_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    const sr_product *p = j->p;
    int64_t strips = sr_blocks(p->n, j->packed), k = i / strips * j->depth;
    int64_t col = i % strips * j->packed;
    int64_t depth = sr_least(j->depth, p->k - k);
    pack_b(j, (char *)j->b + (k * j->n_pad + col * padded(j, depth)) * j->bytes, k, col, depth,
           sr_least(j->packed, p->n - col));
    return SR_OK;
}

static sr_status pack_a_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    const sr_product *p = j->p;
    int64_t strips = sr_blocks(p->m, STRIP), k = i / strips * j->depth, row = i % strips * STRIP;
    int64_t depth = sr_least(j->depth, p->k - k);
    pack_a(j, (char *)j->a + (k * j->m_pad + row * padded(j, depth)) * j->bytes, row, k,
           sr_least(STRIP, p->m - row), depth);
    return SR_OK;
}

static sr_status pack_whole(job *j, const sr_tensor *t, sr_cpu_state *cpu) {
    const sr_product *p = j->p;
    const sr_simd *simd = cpu->simd;
    int64_t steps = sr_blocks(p->k, j->depth), k = padded(j, p->k);
    j->n_pad = sr_round_up(p->n, 16);
    j->m_pad =
        sr_round_up(p->m, p->bf16 && simd->bf16_rows > 0 ? simd->bf16_rows : simd->tile_rows);
    int64_t columns = j->pack_b ? j->n_pad : 0, rows = j->pack_a ? j->m_pad : 0;
    size_t bytes;
    SR_TRY(sr_mul_size(&bytes, (size_t)(columns + rows), (size_t)(k * j->bytes)));
    SR_TRY(sr_cpu_reserve_panels(cpu, bytes));
    const char *panels = cpu->panels.data;
    if (j->pack_b) {
        j->b = panels;
        j->packed = columns_packed(j, steps);
        SR_TRY(sr_cpu_run(t, pack_b_task, j, steps * sr_blocks(p->n, j->packed)));
    }
    if (!j->pack_a) return SR_OK;
    j->a = panels + columns * k * j->bytes;
    return sr_cpu_run(t, pack_a_task, j, steps * sr_blocks(p->m, STRIP));
}

/* ---- the product ----------------------------------------------------------------------------- */

/* A product with k = 0: C = 0, or C unchanged; in blocks as wide as an epilogue takes. */
static void empty_sum(const sr_product *p) {
    float zeros[WIDTH];
    for (int64_t r = 0; r < p->m; r++)
        for (int64_t col = 0; col < p->n; col += WIDTH) {
            int64_t cols = sr_least(WIDTH, p->n - col);
            float *c = p->c != NULL ? p->c + r * p->ldc + col : zeros;
            if (p->c == NULL || !p->add) memset(c, 0, (size_t)cols * sizeof *c);
            if (p->epilogue != NULL) p->epilogue(p, c, p->ldc, r, 1, col, cols);
        }
}

static size_t room_of(const job *j) {
    return sizeof(float) *
           (DEPTH * (WIDTH + STRIP) + (j->p->c == NULL ? (size_t)j->height * WIDTH : 0));
}

size_t sr_cpu_product_room(void) {
    return sizeof(float) * DEPTH * (WIDTH + STRIP);
}

/* The tallest blocks that give as many tasks as are wanted; nested products keep all rows together,
 * so that B is packed once. */
static void set_height(job *j, int64_t tasks) {
    const sr_product *p = j->p;
    j->width = WIDTH;
    j->across = sr_blocks(p->n, WIDTH);
    j->height = p->c != NULL || on_tiles(j) ? TALLEST : OWN_TALLEST;
    if (p->nested) j->height = p->m;
    while (!p->nested && j->height > STRIP && sr_blocks(p->m, j->height) * j->across < tasks)
        j->height /= 2;
}

/* Steps of k, about equal ones of bf16, where each costs another pass over C. */
static void set_depth(job *j) {
    const sr_simd *simd = j->cpu->simd;
    j->depth = j->p->bf16 ? simd->bf16_depth : DEPTH;
    if (!j->p->bf16) return;
    j->depth = sr_round_up(sr_blocks(j->p->k, sr_blocks(j->p->k, j->depth)), simd->bf16_k);
}

/* On tiles a task is short, and taller blocks read B less often. */
static int64_t wanted_tasks(const job *j) {
    return on_tiles(j) ? tasks_for(j, 8) : TASKS;
}

/* Whether blocks share what is packed beforehand.  On tiles packing is expensive: by count, half of
 * what 192 products with the element take. */
static bool pays_to_pack(const job *j) {
    int64_t down = sr_blocks(j->p->m, j->height);
    if (on_tiles(j) && (down > 1 || (j->across > 1 && j->p->a_col != 1))) return true;
    return j->p->m > FLAT || down > 4;
}

/* Where both operands need packing, tasks pack the larger one, each its own part, which is then in
 * the cache; a task takes all of the smaller one, which is packed beforehand. */
static void share_smaller(job *j) {
    const sr_product *p = j->p;
    int64_t tasks = tasks_for(j, 4);
    if (p->n <= p->m && p->n <= WIDEST) {
        j->pack_a = false;
        j->width = p->n;
        j->height = sr_least(TALLEST, sr_round_up(sr_blocks(p->m, tasks), ROUND));
    } else if (p->n > p->m && p->m <= WIDEST) {
        j->pack_b = false;
        j->height = p->m;
        j->width = sr_least(WIDTH, sr_round_up(sr_blocks(p->n, tasks), ROUND));
    }
    j->across = sr_blocks(p->n, j->width);
}

sr_status sr_cpu_product(const sr_tensor *t, const sr_product *p) {
    if (p->m == 0 || p->n == 0) return SR_OK;
    if (p->k == 0) {
        empty_sum(p);
        return SR_OK;
    }
    sr_cpu_state *cpu = sr_cpu_of(t);
    if (sr_cpu_takes_strips(cpu, p)) return sr_cpu_strips(t, p);
    job j = {.p = p, .cpu = cpu, .bytes = p->bf16 ? cpu->simd->bf16_bytes : 4};
    j.strip = on_tiles(&j) ? TALLEST : STRIP;
    set_depth(&j);
    set_height(&j, wanted_tasks(&j));
    if (!p->nested) {
        SR_TRY(sr_cpu_reserve(cpu, room_of(&j), 0));
        if (pays_to_pack(&j)) {
            j.pack_b = true;
            j.pack_a = p->a_col != 1;
            bool wide = p->c != NULL && p->epilogue == NULL; /* blocks may be wider than WIDTH */
            if (j.pack_a && wide && !on_tiles(&j)) share_smaller(&j);
            SR_TRY(pack_whole(&j, t, cpu));
        }
    }
    return sr_cpu_run(t, block_task, &j, j.across * sr_blocks(p->m, j.height));
}

/* mlm_tiles.c - gradients of the tied decoder in bf16 on tiles.
 *
 * Shapes    x (M, H), word (V, H), dlogits (M, V)
 * Work      4 M V H flops
 * dx        adds up slices of the vocabulary, whose sums are added in order
 * dword     a task turns some columns of dlogits into tiles and multiplies them while they are in
 *           the cache; the gradient is read and written once
 * Traffic   2 V H + 4 M V + 8 V H bytes
 * Numerics  slices do not depend on the threads.
 */
#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

enum { UNIT = 32, BAND = 512 };
enum { SLICES = 16, RUN = 4096, BLOCK = 512 << 10 }; /* BLOCK: bytes of an operand in the cache */

bool sr_cpu_mlm_on_tiles(const sr_tensor *x, const sr_tensor *word, const sr_tensor *dlogits) {
    return x->dtype == SR_BF16 && word->dtype == SR_BF16 && sr_cpu_of(x)->simd->tiles &&
           (dlogits == NULL || dlogits->dtype == SR_BF16) && x->shape[0] > 0 && x->shape[1] > 0;
}

/* ---- backward: dx ---------------------------------------------------------------------------- */

typedef struct slice_job {
    sr_tensor *dx;
    const sr_cpu_state *cpu;
    const sr_bf16 *dlogits, *word;
    float *partial; /* (slices, M, H) */
    int64_t depth, slices, rows, v, h, panel, n_pad;
    float factor;
} slice_job;

/* The words of slice i, BAND at a time. */
static sr_status slice_task(void *context, int64_t i, int worker) {
    const slice_job *j = context;
    const sr_simd *simd = j->cpu->simd;
    char *panels = sr_cpu_scratch(j->cpu, worker);
    int64_t end = sr_least((i + 1) * j->depth, j->v);
    for (int64_t k = i * j->depth; k < end; k += BAND) {
        int64_t depth = sr_least(BAND, end - k), panel = sr_round_up(depth, UNIT) * 2 * UNIT;
        for (int64_t q = 0; q < depth; q += UNIT)
            simd->panels_of_rows(panels + q * 2 * UNIT, panel, j->word + (k + q) * j->h, j->h,
                                 sr_least(UNIT, depth - q), j->h);
        sr_strips s = {.a = j->dlogits + k,
                       .a_row = j->v * (int64_t)sizeof *j->dlogits,
                       .b = panels,
                       .panel = panel,
                       .m = j->rows,
                       .n = j->h,
                       .k = depth,
                       .c = j->partial + i * j->rows * j->h,
                       .ldc = j->h * (int64_t)sizeof(float),
                       .f32 = true,
                       .add = k > i * j->depth,
                       .alpha = j->factor,
                       .room = panels + j->n_pad * BAND * (int64_t)sizeof(sr_bf16)};
        simd->strips(&s);
    }
    return SR_OK;
}

/* A run of the sum of all slices, in order, into the first. */
static sr_status sum_task(void *context, int64_t i, int worker) {
    (void)worker;
    const slice_job *j = context;
    int64_t elements = j->rows * j->h, at = i * RUN, n = sr_least(RUN, elements - at);
    for (int64_t s = 1; s < j->slices; s++)
        j->cpu->simd->axpby(j->partial + at, j->partial + s * elements + at, n, 1.0f, 1.0f);
    sr_cpu_store(j->dx, at, 1, j->partial + at, n);
    return SR_OK;
}

sr_status sr_cpu_mlm_dx(sr_tensor *dx, const sr_tensor *dlogits, const sr_tensor *word,
                        float factor) {
    sr_cpu_state *cpu = sr_cpu_of(dx);
    int64_t rows = dx->shape[0], v = word->shape[0], h = word->shape[1];
    slice_job j = {.dx = dx,
                   .cpu = cpu,
                   .dlogits = SR_DATA(sr_bf16, dlogits),
                   .word = SR_DATA(sr_bf16, word),
                   .depth = sr_round_up(sr_blocks(v, SLICES), BAND),
                   .rows = rows,
                   .v = v,
                   .h = h,
                   .n_pad = sr_round_up(h, UNIT),
                   .factor = factor};
    j.slices = sr_blocks(v, j.depth);
    size_t each = (size_t)(j.n_pad * BAND) * sizeof(sr_bf16) + (size_t)cpu->simd->strips_room(BAND);
    SR_TRY(sr_cpu_reserve(cpu, each, (size_t)(j.slices * rows * h) * sizeof(float)));
    j.partial = cpu->shared.data;
    SR_TRY(sr_cpu_run(dx, slice_task, &j, j.slices));
    return sr_cpu_run(dx, sum_task, &j, sr_blocks(rows * h, RUN));
}

/* ---- backward: dword ------------------------------------------------------------------------- */

typedef struct word_job {
    const sr_cpu_state *cpu;
    const sr_bf16 *dlogits, *x;
    float *dword;
    char *panels; /* of x */
    int64_t rows, v, h, panel, apart;
    int64_t words, width; /* words of a task; columns of a block of x */
    float factor;
} word_job;

/* Task i packs 32 rows of x. */
static sr_status pack_task(void *context, int64_t i, int worker) {
    (void)worker;
    const word_job *j = context;
    int64_t m = i * UNIT;
    j->cpu->simd->panels_of_rows(j->panels + m * 2 * UNIT, j->panel, j->x + m * j->h, j->h,
                                 sr_least(UNIT, j->rows - m), j->h);
    return SR_OK;
}

static sr_status word_task(void *context, int64_t i, int worker) {
    const word_job *j = context;
    const sr_simd *simd = j->cpu->simd;
    char *tiles = sr_cpu_scratch(j->cpu, worker);
    int64_t word = i * j->words, words = sr_least(j->words, j->v - word);
    for (int64_t m = 0; m < j->rows; m += UNIT)
        simd->tiles_across(tiles + m / UNIT * 1024, j->apart, j->dlogits + m * j->v + word, j->v,
                           sr_least(UNIT, j->rows - m), words);
    for (int64_t col = 0; col < j->h; col += j->width) {
        sr_strips s = {.a = tiles,
                       .a_tile = j->apart,
                       .b = j->panels + col / UNIT * j->panel,
                       .panel = j->panel,
                       .m = words,
                       .n = sr_least(j->width, j->h - col),
                       .k = sr_round_up(j->rows, UNIT),
                       .c = j->dword + word * j->h + col,
                       .ldc = j->h * (int64_t)sizeof(float),
                       .f32 = true,
                       .add = true,
                       .alpha = j->factor,
                       .room = tiles + j->words / 16 * j->apart};
        simd->strips(&s);
    }
    return SR_OK;
}

sr_status sr_cpu_mlm_dword(sr_tensor *dword, const sr_tensor *dlogits, const sr_tensor *x,
                           float factor) {
    sr_cpu_state *cpu = sr_cpu_of(x);
    int64_t rows = x->shape[0], h = x->shape[1], k = sr_round_up(rows, UNIT);
    int64_t fit = BLOCK / (2 * k); /* rows or columns of an operand */
    word_job j = {.cpu = cpu,
                  .dlogits = SR_DATA(sr_bf16, dlogits),
                  .x = SR_DATA(sr_bf16, x),
                  .dword = SR_DATA(float, dword),
                  .rows = rows,
                  .v = dword->shape[0],
                  .h = h,
                  .panel = k * 2 * UNIT,
                  .apart = (k / UNIT + 1) * 1024,
                  .words = fit < 96    ? 96
                           : fit > 768 ? 768
                                       : fit / 96 * 96,
                  .width = fit < UNIT ? UNIT : fit / UNIT * UNIT,
                  .factor = factor};
    size_t panels;
    SR_TRY(sr_mul_size(&panels, (size_t)sr_round_up(h, UNIT), (size_t)k * sizeof(sr_bf16)));
    SR_TRY(sr_cpu_reserve(cpu, (size_t)(j.words / 16 * j.apart) + (size_t)cpu->simd->strips_room(k),
                          0));
    SR_TRY(sr_cpu_reserve_panels(cpu, panels));
    j.panels = cpu->panels.data;
    SR_TRY(sr_cpu_run(x, pack_task, &j, sr_blocks(rows, UNIT)));
    return sr_cpu_run(x, word_task, &j, sr_blocks(j.v, j.words));
}

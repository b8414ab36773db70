/* strips.c - products of bf16 on tiles: both operands packed once, blocks of B shared by the
 * threads.
 *
 * B         panels of 32 columns, always packed.  A is read in place if its rows are
 *           contiguous in k; if its columns are, as in a weight gradient, it is packed as tiles,
 *           and k is cut into parts of at most DEEPEST, which are added to C one after the other.
 * Tasks     a block of B, at most BLOCK bytes, which stays in a second-level cache, and some rows
 *           of A.  Neighbouring tasks have the same block, so that a thread rarely changes it.
 * Numerics  parts of k depend on k alone; blocks and rows of tasks change no bit (simd/strips.c).
 * Work      2 m n k flops.  Packing takes 0.15 ns an element.
 */
#include "core/base/mem.h"
#include "core/tensor/weight.h"
#include "kernels/cpu/cpu.h"

enum { TILE = 1024, UNIT = 32, DEEPEST = 1024 };     /* UNIT: of k and columns, in packed forms */
enum { BLOCK = 1200 << 10, DEEP_BLOCK = 800 << 10 }; /* bytes; DEEP: where strips of A are large */
enum { DEEP = 2048, TASKS = 64, EACH = 6 };          /* TASKS: of a recorded job; EACH: a thread */

typedef struct job {
    const sr_product *p;
    const sr_simd *simd;
    const sr_cpu_state *cpu;
    sr_across a;                   /* tiles is NULL if A is read in place */
    char *b;                       /* packed */
    int64_t k_part, n_pad;         /* columns of the packed form */
    int64_t width, across, height; /* of a block of B; blocks; rows of a task */
    int64_t k, depth;              /* the part that is being multiplied */
} job;

bool sr_cpu_takes_strips(const sr_cpu_state *cpu, const sr_product *p) {
    return p->bf16 && cpu->simd->tiles && !p->nested && p->k > 0 &&
           (p->a_col == 1 || p->a_row == 1) && (p->b_row == 1 || p->b_col == 1);
}

/* ---- packing --------------------------------------------------------------------------------- */

sr_status sr_cpu_across_size(sr_across *a, int64_t m, int64_t k) {
    int64_t part = sr_round_up(sr_blocks(k, sr_blocks(k, DEEPEST)), UNIT);
    int64_t apart = (part / UNIT + 1) * TILE; /* not a power of two */
    *a = (sr_across){.m = m, .k = k, .part = part, .apart = apart};
    return sr_mul_size(&a->bytes, (size_t)(sr_round_up(m, UNIT) / 16),
                       (size_t)(sr_blocks(k, part) * apart));
}

static char *a_tile(const sr_across *a, int64_t row, int64_t k) {
    return a->tiles + (k / a->part * sr_round_up(a->m, UNIT) / 16 + row / 16) * a->apart +
           k % a->part / UNIT * TILE;
}

void sr_cpu_across_pack(const sr_across *a, const sr_simd *simd, const sr_bf16 *from, int64_t row,
                        int64_t k, int64_t rows) {
    for (int64_t i = 0; i < rows; i += UNIT)
        simd->tiles_across(a_tile(a, 0, k + i), a->apart, from + i * row, row,
                           sr_least(UNIT, rows - i), a->m);
}

static char *b_panel(const job *j, int64_t k, int64_t col) {
    int64_t part = k / j->k_part * j->k_part, left = sr_round_up(j->p->k, UNIT) - part;
    return j->b + (part * j->n_pad + col * sr_least(j->k_part, left)) * (int64_t)sizeof(sr_bf16);
}

/* Task i: 32 columns of B, in all of k. */
static sr_status columns_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    const sr_product *p = j->p;
    int64_t col = i * UNIT;
    for (int64_t k = 0; k < p->k; k += j->k_part)
        j->simd->panel_of_columns(b_panel(j, k, col), (const sr_bf16 *)p->b + col * p->b_col + k,
                                  p->b_col, sr_least(j->k_part, p->k - k),
                                  sr_least(UNIT, p->n - col));
    return SR_OK;
}

/* Task i: 32 rows of B, in all columns. */
static sr_status rows_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    const sr_product *p = j->p;
    int64_t k = i * UNIT, part = k / j->k_part * j->k_part;
    char *to = b_panel(j, k, 0);
    int64_t panel = b_panel(j, k, UNIT) - to;
    j->simd->panels_of_rows(to + (k - part) * 2 * UNIT, panel, (const sr_bf16 *)p->b + k * p->b_row,
                            p->b_row, sr_least(UNIT, p->k - k), p->n);
    return SR_OK;
}

/* Task i: 32 of k, in all rows of A. */
static sr_status across_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    const sr_product *p = j->p;
    int64_t k = i * UNIT;
    sr_cpu_across_pack(&j->a, j->simd, (const sr_bf16 *)p->a + k * p->a_col, p->a_col, k,
                       sr_least(UNIT, p->k - k));
    return SR_OK;
}

static sr_status panels_bytes(size_t *bytes, int64_t k, int64_t n) {
    return sr_mul_size(bytes, (size_t)sr_round_up(n, UNIT),
                       (size_t)sr_round_up(k, UNIT) * sizeof(sr_bf16));
}

int64_t sr_cpu_weight_bytes(const sr_cpu_state *cpu, int64_t rows, int64_t cols) {
    if (!cpu->simd->tiles) return 0;
    return 2 * sr_round_up(rows, UNIT) * sr_round_up(cols, UNIT) * (int64_t)sizeof(sr_bf16);
}

static sr_status pack_b(job *j, const sr_tensor *t) {
    const sr_product *p = j->p;
    if (p->b_row == 1) return sr_cpu_run_whole(t, columns_task, j, sr_blocks(p->n, UNIT));
    return sr_cpu_run_whole(t, rows_task, j, sr_blocks(p->k, UNIT));
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The layout of a weight: its panels as B of x W^T and of dy W, each once it was asked for. */
typedef struct kept {
    char *turned, *straight;
} kept;

/* Writes the panels of t (rows, cols). */
static sr_status write_panels(char *to, const sr_tensor *t, bool turned) {
    int64_t rows = t->shape[0], cols = t->shape[1];
    sr_product p = {.b = sr_tensor_data(t), .b_row = turned ? 1 : cols, .b_col = turned ? cols : 1};
    p.k = turned ? cols : rows, p.n = turned ? rows : cols;
    job j = {.p = &p, .simd = sr_cpu_of(t)->simd, .b = to};
    j.k_part = sr_round_up(p.k, UNIT), j.n_pad = sr_round_up(p.n, UNIT);
    return pack_b(&j, t);
}

sr_status sr_cpu_weight_build(sr_weight *w, const sr_tensor *t) {
    if (w->layout == NULL) {
        kept *made;
        SR_TRY(sr_new(&made, 1));
        w->layout = made;
    }
    const kept *k = w->layout;
    if (k->turned != NULL) SR_TRY(write_panels(k->turned, t, true));
    return k->straight != NULL ? write_panels(k->straight, t, false) : SR_OK;
}

void sr_cpu_weight_free(sr_weight *w) {
    kept *k = w->layout;
    sr_free_aligned(k->turned);
    sr_free_aligned(k->straight);
    sr_free(k);
}

/* *out: the panels of B that the weight keeps; NULL if B is not a weight. */
static sr_status kept_panels(char **out, const sr_product *p) {
    *out = NULL;
    void *layout;
    if (p->weight == NULL) return SR_OK;
    const sr_device *device = p->weight->storage->device;
    if (device->backend->weight_build != sr_cpu_weight_build) return SR_OK; /* wraps this one */
    SR_TRY(sr_weight_layout(&layout, p->weight));
    if (layout == NULL) return SR_OK;
    bool turned = p->b_row == 1;
    kept *k = layout;
    char **panels = turned ? &k->turned : &k->straight;
    if (*panels == NULL) {
        size_t bytes;
        void *made;
        SR_TRY(panels_bytes(&bytes, p->k, p->n));
        SR_TRY(sr_alloc_pages(&made, bytes, bytes));
        sr_status st = write_panels(made, p->weight, turned);
        if (st != SR_OK) {
            sr_free_aligned(made);
            return st;
        }
        *panels = made;
    }
    *out = *panels;
    return SR_OK;
}

static sr_status pack(job *j, const sr_tensor *t, sr_cpu_state *cpu) {
    const sr_product *p = j->p;
    bool across = p->a_col != 1 && p->across == NULL;
    size_t b_bytes, bytes;
    SR_TRY(kept_panels(&j->b, p));
    SR_TRY(panels_bytes(&b_bytes, p->k, p->n));
    if (j->b != NULL) b_bytes = 0;
    SR_TRY(sr_add_size(&bytes, across ? j->a.bytes : 0, b_bytes));
    SR_TRY(sr_cpu_reserve_panels(cpu, bytes));
    if (j->b == NULL) {
        j->b = cpu->panels.data;
        SR_TRY(pack_b(j, t));
    }
    if (!across) return SR_OK;
    j->a.tiles = (char *)cpu->panels.data + b_bytes;
    return sr_cpu_run(t, across_task, j, sr_blocks(p->k, UNIT));
}

/* ---- multiplying ----------------------------------------------------------------------------- */

static void end_block(const sr_product *p, int64_t row, int64_t rows, int64_t col, int64_t cols) {
    for (int64_t at = col; at < col + cols; at += SR_BLOCK_COLUMNS)
        p->epilogue(p, p->c + row * p->ldc + at, p->ldc, row, rows, at,
                    sr_least(SR_BLOCK_COLUMNS, col + cols - at));
}

static sr_status block_task(void *context, int64_t i, int worker) {
    const job *j = context;
    const sr_product *p = j->p;
    const sr_finish *f = p->finish;
    int64_t rows_of = sr_blocks(p->m, j->height), col = i / rows_of * j->width;
    int64_t row = i % rows_of * j->height, rows = sr_least(j->height, p->m - row);
    sr_strips s = {.b = b_panel(j, j->k, col),
                   .panel = b_panel(j, j->k, UNIT) - b_panel(j, j->k, 0),
                   .m = rows,
                   .n = sr_least(j->width, p->n - col),
                   .k = j->depth,
                   .alpha = p->alpha,
                   .add = p->add || j->k > 0,
                   .f32 = p->c != NULL,
                   .room = sr_cpu_scratch(j->cpu, worker)};
    if (j->a.tiles != NULL) {
        s.a = a_tile(&j->a, row, j->k);
        s.a_tile = j->a.apart;
        s.k = sr_round_up(j->depth, UNIT);
    } else {
        s.a = (const sr_bf16 *)p->a + row * p->a_row;
        s.a_row = p->a_row * (int64_t)sizeof(sr_bf16);
    }
    if (p->c != NULL) {
        s.c = p->c + row * p->ldc + col;
        s.ldc = p->ldc * (int64_t)sizeof(float);
    } else {
        int64_t at = row * p->n + col;
        s.c = (sr_bf16 *)f->y + at;
        s.pre = f->pre != NULL ? (sr_bf16 *)f->pre + at : NULL;
        s.bias = f->b != NULL ? (const sr_bf16 *)f->b + col : NULL;
        s.ldc = p->n * (int64_t)sizeof(sr_bf16);
        s.act = f->act;
    }
    j->simd->strips(&s);
    bool last = j->k + j->depth == p->k;
    if (last && p->c != NULL && p->epilogue != NULL) end_block(p, row, rows, col, s.n);
    return SR_OK;
}

/* Equal blocks of columns, and tasks of equal rows, as many as the threads can share evenly. */
static void set_blocks(job *j) {
    const sr_product *p = j->p;
    int64_t depth = sr_least(p->k, j->k_part), threads = sr_threads_count(j->cpu->device->threads);
    int64_t most = (depth > DEEP ? DEEP_BLOCK : BLOCK) / (2 * depth) / UNIT * UNIT;
    if (most < 2 * UNIT) most = 2 * UNIT;
    j->width = sr_round_up(sr_blocks(p->n, sr_blocks(p->n, most)), UNIT);
    j->across = sr_blocks(p->n, j->width);
    int64_t tasks = j->cpu->jobs != NULL ? TASKS : threads > 1 ? EACH * threads : 1;
    int64_t down = sr_blocks(tasks, j->across);
    while (threads > 1 && down * j->across % threads != 0) down++;
    j->height = sr_round_up(sr_blocks(p->m, down), SR_STRIP_ROWS);
}

sr_status sr_cpu_strips(const sr_tensor *t, const sr_product *p) {
    sr_cpu_state *cpu = sr_cpu_of(t);
    job j = {.p = p, .cpu = cpu, .simd = cpu->simd};
    j.k_part = sr_round_up(p->k, UNIT);
    if (p->across != NULL)
        j.a = *p->across;
    else if (p->a_col != 1)
        SR_TRY(sr_cpu_across_size(&j.a, p->m, p->k));
    if (p->a_col != 1) j.k_part = j.a.part;
    j.n_pad = sr_round_up(p->n, UNIT);
    SR_TRY(sr_cpu_reserve(cpu, (size_t)cpu->simd->strips_room(j.k_part), 0));
    SR_TRY(pack(&j, t, cpu));
    set_blocks(&j);
    for (j.k = 0; j.k < p->k; j.k += j.k_part) {
        j.depth = sr_least(j.k_part, p->k - j.k);
        SR_TRY(sr_cpu_run(t, block_task, &j, j.across * sr_blocks(p->m, j.height)));
    }
    return SR_OK;
}

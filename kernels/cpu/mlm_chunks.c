/* mlm_chunks.c - the tied decoder's loss: logits exist a chunk of words at a time.
 *
 * Shapes    x (M, H), word (V, H), bias (V), dlogits (M, V)
 * Work      2 M V H flops
 * Chunk     a task takes some words: their logits of all rows in f32, which stay in the
 *           second-level cache, and per row the maximum and the sum of exponentials, which are left
 *           in dlogits.  Once all sums are known, a pass over dlogits scales them.
 * Traffic   the word table, and dlogits written once and scaled once: 2 V H + 6 M V bytes in bf16
 * Numerics  logits and sums of a chunk are f32, chunks are added in f64; an element of dlogits is
 *           rounded twice.  Chunks depend on V and the instruction set alone, not on threads or M.
 */
#include <math.h>

#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

/* Words of a chunk: of whole strips on tiles, else as many as a product takes at once.  ROWS: that
 * have logits at a time. */
enum { ON_TILES = 256, CHUNK = SR_BLOCK_COLUMNS, GAP = 16, ROWS = 384, UNIT = 32 };

/* What a chunk knows of a row.  When the maximum of the row is known, `most` becomes exp(most -
 * that). */
typedef struct piece {
    float most, sum; /* sum: of exp(logit - most) */
} piece;

typedef struct chunk_job {
    const sr_cpu_state *cpu;
    const sr_simd *simd;
    const sr_tensor *x;
    const void *word;
    const sr_tensor *bias; /* or NULL */
    const int32_t *labels;
    const float *weights;
    float *nll, *correct, *target; /* target: the logit of the label */
    void *dlogits;                 /* of x's dtype, or NULL */
    piece *pieces;                 /* (chunks, M) */
    bool bf16, tiles;
    int64_t rows, v, h;
    int64_t chunk, ld, panel; /* words; floats between rows of logits; bytes of a panel on tiles */
} chunk_job;

/* What a worker has: first, for the product, its panels or all that it needs. */
typedef struct chunk_room {
    char *panels;
    float *logits, *bias;
    void *strips;
    size_t bytes;
} chunk_room;

static chunk_room room_at(char *base, const chunk_job *j) {
    size_t panels = (size_t)(j->chunk / UNIT * j->panel);
    chunk_room r = {.panels = base};
    r.logits = (float *)(base + (j->tiles ? panels : sr_cpu_product_room()));
    r.bias = r.logits + ROWS * j->ld;
    r.strips = r.bias + j->chunk;
    r.bytes = (size_t)((char *)r.strips - base);
    if (j->tiles) r.bytes += (size_t)j->simd->strips_room(j->h);
    return r;
}

/* ---- logits ---------------------------------------------------------------------------------- */

static const void *x_at(const chunk_job *j, int64_t row) {
    return sr_operand_at(sr_tensor_data(j->x), j->bf16, row * j->h);
}
static const void *word_at(const chunk_job *j, int64_t word) {
    return sr_operand_at(j->word, j->bf16, word * j->h);
}

static void pack_words(const chunk_job *j, const chunk_room *r, int64_t col, int64_t cols) {
    for (int64_t c = 0; c < cols; c += UNIT)
        j->simd->panel_of_columns(r->panels + c / UNIT * j->panel, word_at(j, col + c), j->h, j->h,
                                  sr_least(UNIT, cols - c));
}

static void multiply_strips(const chunk_job *j, const chunk_room *r, int64_t m, int64_t rows,
                            int64_t cols) {
    sr_strips s = {.a = x_at(j, m),
                   .a_row = j->h * (int64_t)sizeof(sr_bf16),
                   .b = r->panels,
                   .panel = j->panel,
                   .m = rows,
                   .n = cols,
                   .k = j->h,
                   .c = r->logits,
                   .ldc = j->ld * (int64_t)sizeof *r->logits,
                   .f32 = true,
                   .alpha = 1,
                   .room = r->strips};
    j->simd->strips(&s);
}

static sr_status multiply(const chunk_job *j, const chunk_room *r, int64_t m, int64_t rows,
                          int64_t col, int64_t cols) {
    sr_product p = {.c = r->logits,
                    .a = x_at(j, m),
                    .b = word_at(j, col),
                    .bf16 = j->bf16,
                    .ldc = j->ld,
                    .a_row = j->h,
                    .a_col = 1,
                    .b_row = 1,
                    .b_col = j->h,
                    .m = rows,
                    .n = cols,
                    .k = j->h,
                    .alpha = 1,
                    .nested = true};
    return sr_cpu_product(j->x, &p);
}

/* ---- a chunk --------------------------------------------------------------------------------- */

static void *dlogits_at(const chunk_job *j, int64_t row, int64_t col) {
    if (j->dlogits == NULL) return NULL;
    return (void *)sr_operand_at(j->dlogits, j->bf16, row * j->v + col);
}

static void read_row(const chunk_job *j, const chunk_room *r, float *logits, int64_t m, int64_t col,
                     int64_t cols) {
    piece *p = j->pieces + col / j->chunk * j->rows + m;
    p->sum = j->simd->exponentials(dlogits_at(j, m, col), j->bf16, logits, r->bias, cols, &p->most);
    int64_t label = j->labels[m] - col;
    if (label < 0 || label >= cols) return;
    j->target[m] = logits[label];
    bool first = logits[label] == p->most;
    for (int64_t i = 0; i < label && first; i++) first = logits[i] != p->most;
    j->correct[m] = first ? 1.0f : 0.0f; /* within this chunk */
}

static sr_status chunk_task(void *context, int64_t i, int worker) {
    const chunk_job *j = context;
    chunk_room r = room_at(sr_cpu_scratch(j->cpu, worker), j);
    int64_t col = i * j->chunk, cols = sr_least(j->chunk, j->v - col);
    if (j->tiles) pack_words(j, &r, col, cols);
    memset(r.bias, 0, (size_t)j->chunk * sizeof *r.bias);
    if (j->bias != NULL) sr_cpu_load(r.bias, j->bias, col, 1, cols);
    for (int64_t m = 0; m < j->rows; m += ROWS) {
        int64_t rows = sr_least(ROWS, j->rows - m);
        if (j->tiles)
            multiply_strips(j, &r, m, rows, cols);
        else
            SR_TRY(multiply(j, &r, m, rows, col, cols));
        for (int64_t n = 0; n < rows; n++) read_row(j, &r, r.logits + n * j->ld, m + n, col, cols);
    }
    return SR_OK;
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* e^x, 0 where that is denormal */
static double small_power(double x) {
    return x < -87 ? 0 : exp(x);
}

static void scale(const chunk_job *j, int64_t row, int64_t col, int64_t cols, float factor) {
    void *at = dlogits_at(j, row, col);
    if (j->bf16)
        j->simd->scale_bf16(at, cols, factor);
    else
        j->simd->axpby(at, at, cols, factor, 0.0f);
}

/* dlogits of row m from exponentials of chunks; sum: of all; nll: of the label. */
static void finish_row(const chunk_job *j, int64_t m, double sum, double nll) {
    const piece *p = j->pieces + m;
    double factor = j->weights[m] / sum;
    for (int64_t col = 0; col < j->v; col += j->chunk, p += j->rows)
        scale(j, m, col, sr_least(j->chunk, j->v - col), (float)(factor * p->most));
    float at = (float)(j->weights[m] * (small_power(-nll) - 1));
    void *label = dlogits_at(j, m, j->labels[m]);
    if (j->bf16)
        j->simd->narrow(label, &at, 1);
    else
        *(float *)label = at;
}

static sr_status row_task(void *context, int64_t m, int worker) {
    (void)worker;
    const chunk_job *j = context;
    int64_t chunks = sr_blocks(j->v, j->chunk), best = -1; /* best: the first chunk with most */
    piece *first = j->pieces + m, *end = first + chunks * j->rows;
    float most = -INFINITY;
    double sum = 0;
    for (int64_t c = 0; c < chunks; c++)
        if (first[c * j->rows].most > most) {
            most = first[c * j->rows].most;
            best = c;
        }
    for (piece *p = first; p < end; p += j->rows) {
        double share = small_power((double)p->most - most);
        sum += p->sum * share;
        p->most = (float)share;
    }
    double nll = most + log(sum) - j->target[m];
    j->nll[m] = (float)nll;
    if (best != j->labels[m] / j->chunk) j->correct[m] = 0;
    if (j->dlogits != NULL) finish_row(j, m, sum, nll);
    return SR_OK;
}

sr_status sr_cpu_mlm_chunks(sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits,
                            const sr_tensor *x, const sr_tensor *word, const sr_tensor *bias,
                            const sr_tensor *labels, const sr_tensor *weights) {
    sr_cpu_state *cpu = sr_cpu_of(x);
    int64_t rows = x->shape[0], v = word->shape[0], h = word->shape[1];
    if (rows == 0) return SR_OK;
    bool tiles = sr_cpu_mlm_on_tiles(x, word, dlogits);
    int64_t chunk = tiles ? ON_TILES : CHUNK, chunks = sr_blocks(v, chunk);
    chunk_job j = {.cpu = cpu,
                   .simd = cpu->simd,
                   .x = x,
                   .word = sr_tensor_data(word),
                   .bias = bias,
                   .labels = SR_DATA(int32_t, labels),
                   .weights = SR_DATA(float, weights),
                   .nll = SR_DATA(float, nll),
                   .correct = SR_DATA(float, correct),
                   .dlogits = dlogits != NULL ? sr_tensor_data(dlogits) : NULL,
                   .bf16 = x->dtype == SR_BF16,
                   .tiles = tiles,
                   .rows = rows,
                   .v = v,
                   .h = h,
                   .chunk = chunk,
                   .ld = chunk + GAP,
                   .panel = sr_round_up(h, UNIT) * 2 * UNIT};
    size_t pieces;
    SR_TRY(sr_mul_size(&pieces, (size_t)(chunks * rows), sizeof(piece)));
    SR_TRY(sr_cpu_reserve(cpu, room_at(NULL, &j).bytes, pieces + (size_t)rows * sizeof(float)));
    j.pieces = cpu->shared.data;
    j.target = (float *)(j.pieces + chunks * rows);
    SR_TRY(sr_cpu_run(x, chunk_task, &j, chunks));
    return sr_cpu_run(x, row_task, &j, rows);
}

/* tiles.c - the product of bf16 on AMX.
 *
 * A block of 32 rows by three tiles of columns is held in six of the eight tiles; the other two are
 * one of A, read in place, and one of B.
 *
 * Work      2 m n k flops, 1,024 a cycle.
 * Cycles    16 for a product of tiles, 8 for a load from the first-level cache, 20 from the second,
 *           130 from the third.  A step of 32 in k takes 7 loads under 6 products: 96.
 * Depth     k in steps of BF16_DEPTH, whole for a hidden size of 768: storing sums and loading them
 *           again costs more than a panel of B in the first-level cache gains (linear of 2,048
 *           rows, 768 to 2,304 columns: 5.75 ms at depth 256, 5.22 ms at 768)
 *
 * Measured  Intel Xeon with AMX, one core, 2026-11-28, docs/evidence/measured.md: 42 to 48 % of the
 *           peak forward, 37 to 43 % backward
 *
 * Numerics  an element of C is one chain over k in ascending order, which goes on from C if that is
 *           added (alpha = 1): it does not depend on its place in the block.  The instruction
 *           flushes denormals to zero.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/bf16.h"

#ifdef BF16_TILES
#include "kernels/cpu/simd/panel.h"
#include "kernels/cpu/simd/tile.h"

/* ---- a block --------------------------------------------------------------------------------- */

/* Up to 32 rows by up to three tiles of columns. */
typedef struct block {
    const sr_bf16 *a, *tail; /* tail: the columns of A from `whole` on, padded to BF16_K; or NULL */
    int64_t lda;             /* elements */
    const uint32_t *b;
    int64_t whole, width; /* columns of A that are read from a; words in a row of the panel */
    int across;
    bool tall; /* more than 16 rows */
} block;

/* Tile 3 i + j: rows 16 i .., columns 16 j .. of a block whose rows are `ld` floats apart, and its
 * tiles `down` and `right`. */
typedef struct place {
    int64_t ld, down, right;
} place;

INLINE void load_sums(const block *t, const float *c, const place p) {
    LOAD(0, c, p.ld * 4);
    if (t->across > 1) LOAD(1, c + p.right, p.ld * 4);
    if (t->across > 2) LOAD(2, c + 2 * p.right, p.ld * 4);
    if (!t->tall) return;
    LOAD(3, c + p.down, p.ld * 4);
    if (t->across > 1) LOAD(4, c + p.down + p.right, p.ld * 4);
    if (t->across > 2) LOAD(5, c + p.down + 2 * p.right, p.ld * 4);
}
INLINE void save_sums(const block *t, float *c, const place p) {
    SAVE(0, c, p.ld * 4);
    if (t->across > 1) SAVE(1, c + p.right, p.ld * 4);
    if (t->across > 2) SAVE(2, c + 2 * p.right, p.ld * 4);
    if (!t->tall) return;
    SAVE(3, c + p.down, p.ld * 4);
    if (t->across > 1) SAVE(4, c + p.down + p.right, p.ld * 4);
    if (t->across > 2) SAVE(5, c + p.down + 2 * p.right, p.ld * 4);
}

/* The sums += 32 columns of A times as many rows of B; rows are `row` and `panel` bytes apart. */
INLINE void step(const sr_bf16 *a, int64_t row, const uint32_t *b, int64_t panel, const bool tall,
                 const int across) {
    LOAD(6, a, row);
    LOAD(7, b, panel);
    ADD_PRODUCT(0, 6, 7);
    if (across > 1) {
        LOAD(7, b + SIDE, panel);
        ADD_PRODUCT(1, 6, 7);
    }
    if (across > 2) {
        LOAD(7, b + 2 * SIDE, panel);
        ADD_PRODUCT(2, 6, 7);
    }
    if (!tall) return;
    LOAD(6, a + SIDE * (row / 2), row);
    if (across > 2) ADD_PRODUCT(5, 6, 7);
    if (across > 2) LOAD(7, b + SIDE, panel);
    if (across > 1) ADD_PRODUCT(4, 6, 7);
    if (across > 1) LOAD(7, b, panel);
    ADD_PRODUCT(3, 6, 7);
}

/* Prefetches 32 rows of A two steps ahead, of the next block at the end of this one: its rows are
 * too far apart for the processor to prefetch, and more at a time would evict B. */
INLINE void fetch_ahead(const block *t, int64_t k) {
    enum { AHEAD = 2 * BF16_K };
    const sr_bf16 *a = t->a + k + AHEAD;
    if (k + AHEAD >= t->whole) a += 2 * SIDE * t->lda - t->whole;
    for (int r = 0; r < 2 * SIDE; r++) __builtin_prefetch(a + r * t->lda);
}

INLINE void multiply(const block *t, const bool tall, const int across) {
    int64_t panel = t->width * 4;
    const uint32_t *b = t->b;
    for (int64_t k = 0; k < t->whole; k += BF16_K, b += BF16_K / 2 * t->width) {
        if (tall) fetch_ahead(t, k);
        stay_awake();
        step(t->a + k, t->lda * 2, b, panel, tall, across);
    }
    if (t->tail != NULL) step(t->tail, BF16_K * 2, b, panel, tall, across);
}

static void add_products(const block *t) {
    if (t->across == 3)
        t->tall ? multiply(t, true, 3) : multiply(t, false, 3);
    else if (t->across == 2)
        t->tall ? multiply(t, true, 2) : multiply(t, false, 2);
    else
        t->tall ? multiply(t, true, 1) : multiply(t, false, 1);
}

/* ---- blocks at an edge of C, or with a factor: through a copy ------------------------------- */

typedef float sums[6][SIDE * SIDE] __attribute__((aligned(64)));

static void read_block(sums to, const float *c, int64_t ld, int64_t rows, int64_t cols) {
    memset(to, 0, sizeof(sums));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < cols; j += VL)
            v_store(to[r / SIDE * 3 + j / SIDE] + r % SIDE * SIDE + j % SIDE,
                    v_at(c + r * ld, j, cols));
}

static void write_block(const sr_gemm *g, sums from, float *c, int64_t rows, int64_t cols) {
    vf alpha = v_set(g->alpha);
    bool add = g->add && g->alpha != 1;
    for (int64_t r = 0; r < rows; r++, c += g->ldc)
        for (int64_t j = 0; j < cols; j += VL) {
            vf y = v_load(from[r / SIDE * 3 + j / SIDE] + r % SIDE * SIDE + j % SIDE) * alpha;
            v_put(c, j, cols, add ? v_at(c, j, cols) + y : y);
        }
}

static const place in_room = {SIDE, 3 * SIDE *SIDE, SIDE *SIDE};

static void multiply_edge(const sr_gemm *g, const block *t, float *c, int64_t rows, int64_t cols) {
    sums room;
    if (g->add && g->alpha == 1) {
        read_block(room, c, g->ldc, rows, cols);
        write_before_loads();
        load_sums(t, (float *)room, in_room);
    } else {
        clear_sums();
    }
    add_products(t);
    save_sums(t, (float *)room, in_room);
    write_block(g, room, c, rows, cols);
}

/* ---- the product ----------------------------------------------------------------------------- */

static void multiply_block(const sr_gemm *g, const block *t, float *c, int64_t rows, int64_t cols) {
    bool whole = g->spare || (rows % SIDE == 0 && cols % SIDE == 0);
    if (!whole || g->alpha != 1) {
        multiply_edge(g, t, c, rows, cols);
        return;
    }
    place in_c = {g->ldc, SIDE * g->ldc, SIDE};
    if (g->add)
        load_sums(t, c, in_c);
    else
        clear_sums();
    add_products(t);
    save_sums(t, c, in_c);
}

static void multiply_rows(const sr_gemm *g, int64_t lda, int64_t whole, const sr_bf16 *tail) {
    if (!g->ready) tile_begin();
    int64_t pairs = bf16_padded(g->part.rows > 0 ? g->part.rows : g->k) / 2;
    panel p;
    for (int64_t j = 0; j < g->n; j += p.columns) {
        p = panel_at(g, j, pairs, BF16_PANEL, BF16_PAD);
        block t = {.lda = lda,
                   .b = (const uint32_t *)g->b + p.at + g->part.row / 2 * p.width,
                   .whole = whole,
                   .width = p.width,
                   .across = (int)((p.columns + SIDE - 1) / SIDE)};
        for (int64_t i = 0; i < g->m; i += 2 * SIDE) {
            int64_t rows = g->m - i < 2 * SIDE ? g->m - i : 2 * SIDE;
            t.a = (const sr_bf16 *)g->a + i * lda;
            t.tail = tail != NULL ? tail + i * BF16_K : NULL;
            t.tall = rows > SIDE;
            multiply_block(g, &t, g->c + i * g->ldc + j, rows, p.columns);
        }
    }
    if (!g->ready) tile_end();
}

void SR_SIMD(bf16_begin)(void) {
    tile_begin();
}
void SR_SIMD(bf16_end)(void) {
    tile_end();
}

/* Twelve products of ones a round, in six tiles, with no loads between them; see burst.c. */
double SR_SIMD(burst_tiles)(float *sink, int64_t rounds) {
    sums room;
    uint32_t ones[SIDE * SIDE] __attribute__((aligned(64)));
    for (int i = 0; i < SIDE * SIDE; i++) ones[i] = 0x3F803F80;
    tile_begin();
    clear_sums();
    write_before_loads();
    LOAD(6, ones, SIDE * 4);
    LOAD(7, ones, SIDE * 4);
    for (int64_t i = 0; i < 2 * rounds; i++) {
        ADD_PRODUCT(0, 6, 7);
        ADD_PRODUCT(1, 6, 7);
        ADD_PRODUCT(2, 6, 7);
        ADD_PRODUCT(3, 6, 7);
        ADD_PRODUCT(4, 6, 7);
        ADD_PRODUCT(5, 6, 7);
    }
    save_sums(&(block){.across = 3, .tall = true}, (float *)room, in_room);
    tile_end();
    v_store(sink, v_load(room[5]));
    return (double)(rounds * 12 * 2 * SIDE * SIDE * BF16_K);
}

void SR_SIMD(gemm_bf16)(const sr_gemm *g) {
    multiply_rows(g, bf16_padded(g->k), bf16_padded(g->k), NULL);
}
void SR_SIMD(gemm_bf16_rows)(const sr_gemm *g) {
    multiply_rows(g, g->lda, g->tail != NULL ? g->k / BF16_K * BF16_K : bf16_padded(g->k), g->tail);
}

#endif

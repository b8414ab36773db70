/* strips.c - large products of bf16 on AMX: whole k in the tiles, strips of A past a block of B.
 *
 * Block     48 rows by 32 columns: six tiles of sums, one of A, one of B.  A step of 32 in k is six
 *           products, 96 cycles, under seven loads of five tiles, 5 KB: the 53 bytes a cycle that
 *           the second-level cache gives.  32 rows where rows of A lie a multiple of 2,048 bytes
 *           apart, as A is then not found in the first-level cache again, and for short k.
 * Order     a block of B stays in the second-level cache; of a strip of A all panels in turn, so
 *           that C is written along its rows.  The next strip and panel are prefetched, some lines
 *           a step.
 * Finish    sums are stored to 6 KB in the first-level cache.  Bias, activation, rounding or adding
 *           of a block run a few rows a step under the next one, from its third step on: sooner,
 *           their loads wait for the stores, which wait for all products.
 * Panels    of B: 32 columns, [k / 32][2 tiles][16 pairs of k][16 columns], zeros beyond k and n.
 * A         rows in place, or tiles (tiles_across); a strip with part of a tile is copied,
 *           and one whose rows do not begin with a line.
 * Numerics  an element of C is one chain over k in ascending order, then times alpha if that is not
 *           1, then added to C: it does not depend on its place.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/bf16.h"

#ifdef BF16_TILES
#include "kernels/cpu/simd/gelu.h"
#include "kernels/cpu/simd/pairs.h"
#include "kernels/cpu/simd/tile.h"

enum { COLUMNS = SR_STRIP_COLUMNS, TALL = SR_STRIP_ROWS, LATE = 2 }; /* LATE: steps; see Finish */
enum { TILE = 1024, STEP = 2 * TILE };                               /* bytes; STEP: of a panel */

/* ---- the last block -------------------------------------------------------------------------- */

/* What is left to do on a block whose sums are stored: rows `row` up to `rows` of it. */
typedef struct waiting {
    const float *sums; /* tiles [rows / 16][2][16][16] */
    char *c, *pre;     /* of the next row; pre may be NULL */
    const sr_bf16 *bias;
    int64_t cols;
    int row, rows;
} waiting;

void SR_SIMD(act_bf16)(const sr_rounded *to, const float *x, int64_t ld, int64_t rows, int64_t n);

INLINE void round_half(const sr_strips *s, const float *x, const sr_bf16 *bias, sr_bf16 *y,
                       sr_bf16 *pre, int64_t cols) {
    if (s->act != SR_ACT_NONE && s->act != SR_ACT_GELU) {
        sr_rounded to = {y, pre, bias, 0, s->act};
        SR_SIMD(act_bf16)(&to, x, 0, 1, cols < SIDE ? cols : SIDE);
        return;
    }
    for (int64_t i = 0; i < SIDE && i < cols; i += VL) {
        vf v = v_load(x + i);
        if (bias != NULL) v += v_from_bf16(h_at(bias, i, cols));
        if (pre != NULL) h_put(pre, i, cols, v_to_bf16_flushed(v));
        if (s->act == SR_ACT_GELU) v = v_gelu_bf16(v);
        h_put(y, i, cols, v_to_bf16_flushed(v));
    }
}

INLINE void add_half(const sr_strips *s, const float *x, float *c, int64_t cols) {
    vf alpha = v_set(s->alpha);
    for (int64_t i = 0; i < SIDE && i < cols; i += VL) {
        vf v = v_load(x + i) * alpha;
        v_put(c, i, cols, s->add ? v_at(c, i, cols) + v : v);
    }
}

INLINE void finish_half(const sr_strips *s, const waiting *w, const float *x, int at,
                        int64_t cols) {
    if (s->f32)
        add_half(s, x, (float *)w->c + at, cols);
    else
        round_half(s, x, w->bias != NULL ? w->bias + at : NULL, (sr_bf16 *)w->c + at,
                   w->pre != NULL ? (sr_bf16 *)w->pre + at : NULL, cols);
}

/* What finishing is, known at compile time for blocks without an edge. */
typedef enum kind { ADDED, ROUNDED, GELU, OTHER } kind;

enum { VECTORS = COLUMNS / VL };

INLINE void put_line(void *to, const vf v[VECTORS]) {
#ifdef __AVX512BF16__
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]));
#else
    for (int i = 0; i < VECTORS; i++) h_put(to, i * VL, COLUMNS, v_to_bf16_flushed(v[i]));
#endif
}

INLINE void round_line(const waiting *w, const float *x, const bool gelu) {
    vf v[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        v[i] = v_load(x + i * VL / SIDE * (SIDE * SIDE - SIDE) + i * VL);
        if (w->bias != NULL) v[i] += v_from_bf16(h_load(w->bias + i * VL));
    }
    if (w->pre != NULL) put_line(w->pre, v);
    for (int i = 0; gelu && i < VECTORS; i++) v[i] = v_gelu_bf16(v[i]);
    put_line(w->c, v);
}

INLINE void finish_row(const sr_strips *s, waiting *w, const kind kind) {
    const float *x = w->sums + w->row / SIDE * 2 * SIDE * SIDE + w->row % SIDE * SIDE;
    if (w->cols == COLUMNS && (kind == ROUNDED || kind == GELU)) {
        round_line(w, x, kind == GELU);
    } else if (w->cols == COLUMNS) {
        finish_half(s, w, x, 0, COLUMNS);
        finish_half(s, w, x + SIDE * SIDE, SIDE, COLUMNS);
    } else {
        finish_half(s, w, x, 0, w->cols);
        if (w->cols > SIDE) finish_half(s, w, x + SIDE * SIDE, SIDE, w->cols - SIDE);
    }
    w->c += s->ldc;
    if (w->pre != NULL) w->pre += s->ldc;
    w->row++;
}

INLINE void finish_rows(const sr_strips *s, waiting *w, const kind kind, int count) {
    for (int i = 0; i < count && w->row < w->rows; i++) finish_row(s, w, kind);
}

/* ---- prefetching ----------------------------------------------------------------------------- */

/* Lines to fetch into the second-level cache: rows of `bytes`, `row` bytes apart. */
typedef struct ahead {
    const char *at;
    int64_t x, bytes, row, left; /* left: rows */
    int lines;                   /* a step */
} ahead;

INLINE void fetch(ahead *h) {
    for (int i = 0; i < h->lines && h->left > 0; i++) {
        __builtin_prefetch(h->at + h->x, 0, 2);
        h->x += 64;
        if (h->x >= h->bytes) h->x = 0, h->at += h->row, h->left--;
    }
}

/* ---- a block --------------------------------------------------------------------------------- */

typedef struct strip {
    const char *a;
    int64_t a_row, a_tile, a_step; /* bytes: a row, 16 rows, 32 of k further */
    int64_t steps;
    ahead next_a, next_b;
    int finish; /* rows of the last block a step */
} strip;

/* The first half of a step leaves the lowest tile of A in place for the second one. */
INLINE void first_half(const strip *t, const char *a, const char *b, const int tiles) {
    LOAD(7, b, 64);
    LOAD(6, a, t->a_row);
    ADD_PRODUCT(0, 6, 7);
    if (tiles > 1) LOAD(6, a + t->a_tile, t->a_row);
    if (tiles > 1) ADD_PRODUCT(2, 6, 7);
    if (tiles > 2) LOAD(6, a + 2 * t->a_tile, t->a_row);
    if (tiles > 2) ADD_PRODUCT(4, 6, 7);
}
INLINE void second_half(const strip *t, const char *a, const char *b, const int tiles) {
    LOAD(7, b + TILE, 64);
    if (tiles > 2) ADD_PRODUCT(5, 6, 7);
    if (tiles > 2) LOAD(6, a + t->a_tile, t->a_row);
    if (tiles > 1) ADD_PRODUCT(3, 6, 7);
    if (tiles > 1) LOAD(6, a, t->a_row);
    ADD_PRODUCT(1, 6, 7);
}

INLINE void save_block(float *sums, const int tiles) {
    SAVE(0, sums, 64);
    SAVE(1, sums + SIDE * SIDE, 64);
    if (tiles > 1) SAVE(2, sums + 2 * SIDE * SIDE, 64);
    if (tiles > 1) SAVE(3, sums + 3 * SIDE * SIDE, 64);
    if (tiles > 2) SAVE(4, sums + 4 * SIDE * SIDE, 64);
    if (tiles > 2) SAVE(5, sums + 5 * SIDE * SIDE, 64);
    write_before_loads();
}

/* The products of a panel with a strip, into `sums`; the block that waits there is finished. */
INLINE void multiply_panel(const sr_strips *all, strip *t, const char *b, float *sums,
                           const waiting *last, const int tiles, const kind kind) {
    const sr_strips s = *all; /* copies stay in registers while C is written */
    waiting w = *last;
    ahead next_a = t->next_a, next_b = t->next_b;
    const char *a = t->a;
    int64_t steps = t->steps, a_step = t->a_step;
    int finish = t->finish;
    clear_sums();
    for (int64_t i = 0; i < steps; i++, a += a_step, b += STEP) {
        first_half(t, a, b, tiles);
        if (i >= LATE) finish_rows(&s, &w, kind, finish);
        fetch(&next_a);
        fetch(&next_b);
        stay_awake();
        second_half(t, a, b, tiles);
    }
    finish_rows(&s, &w, kind, TALL);
    save_block(sums, tiles);
    t->next_a = next_a, t->next_b = next_b;
}

typedef void panel_product(const sr_strips *s, strip *t, const char *b, float *sums,
                           const waiting *w);
#define PANEL_PRODUCT(name, tiles, kind)                                                           \
    static __attribute__((noinline)) void name(const sr_strips *s, strip *t, const char *b,        \
                                               float *sums, const waiting *w) {                    \
        multiply_panel(s, t, b, sums, w, tiles, kind);                                             \
    }
PANEL_PRODUCT(one_rounded, 1, ROUNDED)
PANEL_PRODUCT(two_rounded, 2, ROUNDED)
PANEL_PRODUCT(three_rounded, 3, ROUNDED)
PANEL_PRODUCT(one_gelu, 1, GELU)
PANEL_PRODUCT(two_gelu, 2, GELU)
PANEL_PRODUCT(three_gelu, 3, GELU)
PANEL_PRODUCT(one_added, 1, ADDED)
PANEL_PRODUCT(two_added, 2, ADDED)
PANEL_PRODUCT(three_added, 3, ADDED)
PANEL_PRODUCT(one_other, 1, OTHER)
PANEL_PRODUCT(two_other, 2, OTHER)
PANEL_PRODUCT(three_other, 3, OTHER)

static panel_product *const products[][3] = {
    [ADDED] = {one_added, two_added, three_added},
    [ROUNDED] = {one_rounded, two_rounded, three_rounded},
    [GELU] = {one_gelu, two_gelu, three_gelu},
    [OTHER] = {one_other, two_other, three_other},
};

static kind kind_of(const sr_strips *s) {
    if (s->f32) return ADDED;
    return s->act == SR_ACT_NONE ? ROUNDED : s->act == SR_ACT_GELU ? GELU : OTHER;
}

/* ---- strips ---------------------------------------------------------------------------------- */

static int64_t steps_of(int64_t k) {
    return (k + BF16_K - 1) / BF16_K;
}

/* Bytes of a row of a copied strip: not a multiple of 2,048. */
static int64_t copied_row(int64_t k) {
    return steps_of(k) * 64 + 64;
}

int64_t SR_SIMD(strips_room)(int64_t k) {
    return 6 * TILE + TALL * copied_row(k);
}

/* Rows of a strip with zeros up to whole tiles. */
static void copy_strip(char *to, const sr_strips *s, const char *a, int64_t rows) {
    int64_t bytes = copied_row(s->k);
    for (int64_t i = 0; i < (rows + SIDE - 1) / SIDE * SIDE; i++, to += bytes, a += s->a_row) {
        int64_t used = i < rows ? s->k * 2 : 0;
        memcpy(to, a, (size_t)used);
        memset(to + used, 0, (size_t)(bytes - used));
    }
}

/* The strip of `rows` rows from `i` on, and what to fetch during it. */
static strip strip_at(const sr_strips *s, int64_t i, int64_t rows, int64_t panels) {
    int64_t steps = steps_of(s->k);
    strip t = {.steps = steps, .a_row = 64, .a_tile = s->a_tile, .a_step = TILE};
    t.a = (const char *)s->a + i / SIDE * s->a_tile;
    int64_t bytes = steps * TILE, row = s->a_tile, count = TALL / SIDE;
    if (s->a_row > 0) {
        t.a = (const char *)s->a + i * s->a_row;
        t.a_row = s->a_row, t.a_tile = SIDE * s->a_row, t.a_step = 64;
        bytes = steps * 64, row = s->a_row, count = TALL;
    }
    if (i + rows < s->m)
        t.next_a = (ahead){t.a + rows / SIDE * t.a_tile,
                           0,
                           bytes,
                           row,
                           count,
                           (int)((count * bytes / 64 + panels * steps - 1) / (panels * steps))};
    if (s->a_row > 0 && (rows % SIDE != 0 || s->k % BF16_K != 0 || s->a_row % 64 != 0)) {
        char *room = (char *)s->room + 6 * TILE;
        copy_strip(room, s, t.a, rows);
        write_before_loads();
        t.a = room, t.a_row = copied_row(s->k), t.a_tile = SIDE * t.a_row;
    }
    return t;
}

static void multiply_strip_by(const sr_strips *s, strip *t, int64_t i, int64_t rows, waiting *w) {
    float *sums = s->room;
    int64_t unit = s->f32 ? sizeof(float) : sizeof(sr_bf16), tiles = (rows + SIDE - 1) / SIDE;
    t->finish = (int)(t->steps > LATE ? (TALL + t->steps - LATE - 1) / (t->steps - LATE) : TALL);
    for (int64_t j = 0; j < s->n; j += COLUMNS) {
        const char *b = (const char *)s->b + j / COLUMNS * s->panel;
        if (i == 0 && j + COLUMNS < s->n)
            t->next_b = (ahead){b + s->panel, 0, t->steps * STEP, 0, 1, STEP / 64};
        products[kind_of(s)][tiles - 1](s, t, b, sums, w);
        int64_t at = i * s->ldc + j * unit;
        *w = (waiting){.sums = sums,
                       .c = (char *)s->c + at,
                       .pre = s->pre != NULL ? (char *)s->pre + at : NULL,
                       .bias = s->bias != NULL ? s->bias + j : NULL,
                       .cols = s->n - j < COLUMNS ? s->n - j : COLUMNS,
                       .rows = (int)rows};
    }
}

void SR_SIMD(strips)(const sr_strips *s) {
    int64_t steps = steps_of(s->k), panels = (s->n + COLUMNS - 1) / COLUMNS;
    bool far = s->a_row > 0 && s->a_row % 2048 == 0;
    int64_t tall = far || steps <= 12 ? 2 * SIDE : TALL;
    waiting w = {.rows = 0};
    tile_begin();
    for (int64_t i = 0, rows; i < s->m; i += rows) {
        rows = s->m - i < tall ? s->m - i : tall;
        if (rows > SIDE && rows < tall) rows -= rows % SIDE;
        strip t = strip_at(s, i, rows, panels);
        multiply_strip_by(s, &t, i, rows, &w);
    }
    finish_rows(s, &w, OTHER, TALL);
    tile_end();
}

/* ---- packing --------------------------------------------------------------------------------- */

typedef sr_bf16 line32 __attribute__((vector_size(64)));

/* Two rows of 32 elements as 32 pairs. */
INLINE void pair_rows(words16 *low, words16 *high, const words16 *first, const words16 *second) {
    line32 x = (line32)*first, y = (line32)*second;
    *low = (words16)JOIN(x, y, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41,
                         10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
    *high = (words16)JOIN(x, y, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24,
                          56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
}

/* 32 rows of k by 32 columns as pairs: columns 0 to 15 in low, the others in high. */
INLINE void load_pairs(words16 low[SIDE], words16 high[SIDE], const sr_bf16 *from, int64_t row,
                       int64_t k, int64_t cols) {
    for (int p = 0; p < SIDE; p++) {
        words16 x, y;
        load_words(&x, from + 2 * p * row, 2 * p < k ? cols : 0);
        load_words(&y, from + (2 * p + 1) * row, 2 * p + 1 < k ? cols : 0);
        pair_rows(low + p, high + p, &x, &y);
    }
}

INLINE void store_tile(void *to, const words16 q[SIDE]) {
    for (int i = 0; i < SIDE; i++) memcpy((char *)to + 64 * i, q + i, 64);
}

void SR_SIMD(panels_of_rows)(void *panels, int64_t panel, const sr_bf16 *b, int64_t row, int64_t k,
                             int64_t n) {
    for (int64_t j = 0; j < n; j += COLUMNS, panels = (char *)panels + panel) {
        words16 low[SIDE], high[SIDE];
        if (k >= BF16_K && n - j >= COLUMNS)
            load_pairs(low, high, b + j, row, BF16_K, COLUMNS);
        else
            load_pairs(low, high, b + j, row, k, n - j);
        store_tile(panels, low);
        store_tile((char *)panels + TILE, high);
    }
}

void SR_SIMD(panel_of_columns)(void *panel, const sr_bf16 *b, int64_t column, int64_t k,
                               int64_t n) {
    char *to = panel;
    for (int64_t at = 0; at < k; at += BF16_K)
        for (int64_t j = 0; j < COLUMNS; j += SIDE, to += TILE) {
            words16 q[SIDE];
            for (int i = 0; i < SIDE; i++) {
                const sr_bf16 *from = b + (j + i) * column + at;
                __builtin_prefetch(from + COLUMNS * column, 0, 2); /* of the next panel */
                load_words(q + i, from, j + i < n ? k - at : 0);
            }
            transpose_quarters(q);
            exchange_quarters(q);
            store_tile(to, q);
        }
}

void SR_SIMD(tiles_across)(void *tiles, int64_t apart, const sr_bf16 *a, int64_t row, int64_t k,
                           int64_t m) {
    for (int64_t i = 0; i < m; i += 2 * SIDE, tiles = (char *)tiles + 2 * apart) {
        words16 low[SIDE], high[SIDE];
        if (k >= BF16_K && m - i >= 2 * SIDE)
            load_pairs(low, high, a + i, row, BF16_K, 2 * SIDE);
        else
            load_pairs(low, high, a + i, row, k, m - i);
        transpose_quarters(low);
        exchange_quarters(low);
        store_tile(tiles, low);
        if (m - i <= SIDE) return;
        transpose_quarters(high);
        exchange_quarters(high);
        store_tile((char *)tiles + apart, high);
    }
}

#else /* products of other instruction sets are those of product.c */

int64_t SR_SIMD(strips_room)(int64_t k) {
    (void)k;
    return 0;
}
void SR_SIMD(strips)(const sr_strips *s) {
    (void)s;
}
void SR_SIMD(panels_of_rows)(void *panels, int64_t panel, const sr_bf16 *b, int64_t row, int64_t k,
                             int64_t n) {
    (void)panels, (void)panel, (void)b, (void)row, (void)k, (void)n;
}
void SR_SIMD(panel_of_columns)(void *panel, const sr_bf16 *b, int64_t column, int64_t k,
                               int64_t n) {
    (void)panel, (void)b, (void)column, (void)k, (void)n;
}
void SR_SIMD(tiles_across)(void *tiles, int64_t apart, const sr_bf16 *a, int64_t row, int64_t k,
                           int64_t m) {
    (void)tiles, (void)apart, (void)a, (void)row, (void)k, (void)m;
}

#endif

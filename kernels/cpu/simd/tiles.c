/* tiles.c - the product of bf16 on AMX.
 *
 * A block of 32 rows by three tiles of columns is held in six of the eight tiles; the other two are
 * one of A, read where it stands, and one of B.  A step of 32 in k takes 8 loads (of 8 cycles each)
 * under 6 products (of 16).
 *
 * Work      2 m n k flops, 1,024 a cycle.
 * Numerics  an element of C is one chain over k in ascending order: it does not depend on its place
 *           in the block.  The instruction flushes denormals to zero.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/low.h"

#ifdef LOW_TILES

enum { SIDE = 16, ACROSS = LOW_PANEL / SIDE };

/* ---- the instructions, or plain C in their place ----------------------------------------------
 */

#if SR_EMULATE
static __thread uint32_t tile_of[8][SIDE][SIDE];

static void load(int t, const void *from, int64_t bytes) {
    for (int r = 0; r < SIDE; r++) memcpy(tile_of[t][r], (const char *)from + r * bytes, 64);
}
static void save(int t, float *to) {
    memcpy(to, tile_of[t], sizeof tile_of[t]);
}
static void clear(int t) {
    memset(tile_of[t], 0, sizeof tile_of[t]);
}
static void add_product(int t, int a, int b) {
    float(*c)[SIDE] = (float(*)[SIDE])tile_of[t];
    for (int r = 0; r < SIDE; r++)
        for (int p = 0; p < SIDE; p++)
            for (int j = 0; j < SIDE; j++) {
                uint32_t x = tile_of[a][r][p], y = tile_of[b][p][j];
                c[r][j] += sr_bf16_to_f32((sr_bf16)x) * sr_bf16_to_f32((sr_bf16)y);
                c[r][j] += sr_bf16_to_f32((sr_bf16)(x >> 16)) * sr_bf16_to_f32((sr_bf16)(y >> 16));
            }
}
#define LOAD(t, from, bytes) load(t, from, bytes)
#define SAVE(t, to) save(t, to)
#define CLEAR(t) clear(t)
#define ADD_PRODUCT(t, a, b) add_product(t, a, b)
static void begin(void) {
}
static void end(void) {
}
#else
#define LOAD(t, from, bytes) _tile_loadd(t, from, bytes)
#define SAVE(t, to) _tile_stored(t, to, SIDE * sizeof(float))
#define CLEAR(t) _tile_zero(t)
#define ADD_PRODUCT(t, a, b) _tile_dpbf16ps(t, a, b)

/* All tiles have 16 rows of 64 bytes.  The state is the thread's: it lives during a call. */
static void begin(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) config.bytes[t] = 64, config.rows[t] = SIDE;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* the intrinsic declares 8 bytes as read */
    _tile_loadconfig(&config);
}
static void end(void) {
    _tile_release();
}
#endif

/* ---- the product ----------------------------------------------------------------------------- */

/* Up to 32 rows by up to three tiles of columns. */
typedef struct block {
    const sr_bf16 *a;
    int64_t lda; /* elements */
    const uint32_t *b;
    int64_t k, width; /* k padded; words in a row of the panel */
    int across;
    bool tall; /* more than 16 rows */
} block;

INLINE void clear_sums(void) {
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
    CLEAR(4);
    CLEAR(5);
}

INLINE void multiply(const block *t, const bool tall, const int across) {
    clear_sums();
    int64_t row = t->lda * 2, panel = t->width * 4;
    for (int64_t k = 0; k < t->k; k += LOW_K) {
        const uint32_t *b = t->b + k / 2 * t->width;
        LOAD(6, t->a + k, row);
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
        if (!tall) continue;
        LOAD(6, t->a + SIDE * t->lda + k, row);
        if (across > 2) ADD_PRODUCT(5, 6, 7);
        if (across > 2) LOAD(7, b + SIDE, panel);
        if (across > 1) ADD_PRODUCT(4, 6, 7);
        if (across > 1) LOAD(7, b, panel);
        ADD_PRODUCT(3, 6, 7);
    }
}

static void save_all(float sums[6][SIDE * SIDE]) {
    SAVE(0, sums[0]);
    SAVE(1, sums[1]);
    SAVE(2, sums[2]);
    SAVE(3, sums[3]);
    SAVE(4, sums[4]);
    SAVE(5, sums[5]);
}

static void store_tile(const sr_gemm *g, float *c, const float *sums, int64_t rows, int64_t cols) {
    vf alpha = v_set(g->alpha);
    for (int64_t r = 0; r < rows; r++, c += g->ldc, sums += SIDE)
        for (int64_t j = 0; j < cols; j += VL) {
            vf y = v_load(sums + j) * alpha;
            v_put(c, j, cols, g->add ? v_at(c, j, cols) + y : y);
        }
}

static void multiply_block(const sr_gemm *g, const block *t, float *c, int64_t rows, int64_t cols) {
    float sums[6][SIDE * SIDE] __attribute__((aligned(64)));
    if (t->across == 3)
        t->tall ? multiply(t, true, 3) : multiply(t, false, 3);
    else if (t->across == 2)
        t->tall ? multiply(t, true, 2) : multiply(t, false, 2);
    else
        t->tall ? multiply(t, true, 1) : multiply(t, false, 1);
    save_all(sums);
    for (int64_t r = 0; r < rows; r += SIDE)
        for (int j = 0; j < t->across; j++)
            store_tile(g, c + r * g->ldc + j * SIDE, sums[r / SIDE * 3 + j],
                       rows - r < SIDE ? rows - r : SIDE,
                       cols - j * SIDE < SIDE ? cols - j * SIDE : SIDE);
}

static void multiply_rows(const sr_gemm *g, int64_t lda) {
    int64_t k = low_padded(g->k);
    begin();
    for (int64_t j = 0; j < g->n; j += LOW_PANEL) {
        int64_t cols = g->n - j < LOW_PANEL ? g->n - j : LOW_PANEL;
        int across = (int)((cols + SIDE - 1) / SIDE);
        block t = {.lda = lda,
                   .b = (const uint32_t *)g->b + j * (k / 2),
                   .k = k,
                   .width = across * SIDE,
                   .across = across};
        for (int64_t i = 0; i < g->m; i += 2 * SIDE) {
            int64_t rows = g->m - i < 2 * SIDE ? g->m - i : 2 * SIDE;
            t.a = (const sr_bf16 *)g->a + i * lda;
            t.tall = rows > SIDE;
            multiply_block(g, &t, g->c + i * g->ldc + j, rows, cols);
        }
    }
    end();
}

/* Twelve products of ones a round, in six tiles, with no loads between them; see burst.c. */
double SR_SIMD(burst_tiles)(float *sink, int64_t rounds) {
    float sums[6][SIDE * SIDE] __attribute__((aligned(64)));
    uint32_t ones[SIDE * SIDE] __attribute__((aligned(64)));
    for (int i = 0; i < SIDE * SIDE; i++) ones[i] = 0x3F803F80;
    begin();
    clear_sums();
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
    save_all(sums);
    end();
    v_store(sink, v_load(sums[5]));
    return (double)(rounds * 12 * 2 * SIDE * SIDE * LOW_K);
}

void SR_SIMD(gemm_low)(const sr_gemm *g) {
    multiply_rows(g, low_padded(g->k));
}
void SR_SIMD(gemm_low_rows)(const sr_gemm *g) {
    multiply_rows(g, g->lda);
}

#endif

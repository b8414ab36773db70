/* pairs.h - packing of bf16 as pairs of neighbours in k, 16 x 16 words at a time.
 *
 * Cost      512 elements: 96 instructions, 64 of them shuffles, if they are transposed, 80 if not;
 *           at an edge as many, with masks.
 */
#ifndef SR_CPU_PAIRS_H
#define SR_CPU_PAIRS_H

#include "kernels/cpu/simd/words.h"

enum { SQUARE = 16 };
typedef uint32_t words16 __attribute__((vector_size(64)));
typedef uint16_t half16 __attribute__((vector_size(32)));

#define JOIN(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Within each quarter of 4 lanes: rows 4 i .. 4 i + 3 become columns. */
INLINE void transpose_quarters(words16 *q) {
    for (int i = 0; i < SQUARE; i += 4) {
        words16 a = q[i], b = q[i + 1], c = q[i + 2], d = q[i + 3];
        words16 ab0 = JOIN(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        words16 ab1 = JOIN(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
        words16 cd0 = JOIN(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        words16 cd1 = JOIN(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
        q[i] = JOIN(ab0, cd0, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        q[i + 1] = JOIN(ab0, cd0, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        q[i + 2] = JOIN(ab1, cd1, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        q[i + 3] = JOIN(ab1, cd1, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
}

/* Quarter j of row 4 i + r goes to quarter i of row 4 j + r. */
INLINE void exchange_quarters(words16 *q) {
    for (int r = 0; r < 4; r++) {
        words16 a = q[r], b = q[r + 4], c = q[r + 8], d = q[r + 12];
        words16 ab0 = JOIN(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        words16 ab1 = JOIN(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
        words16 cd0 = JOIN(c, d, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        words16 cd1 = JOIN(c, d, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
        q[r] = JOIN(ab0, cd0, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        q[r + 4] = JOIN(ab1, cd1, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        q[r + 8] = JOIN(ab0, cd0, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
        q[r + 12] = JOIN(ab1, cd1, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
}

/* ---- reading and writing parts of a row, up to all of it ------------------------------------ */

INLINE uint32_t first_bits(int64_t n) {
    return n >= 32 ? ~0u : n > 0 ? (1u << n) - 1 : 0;
}

/* n of 32 elements, and zeros. */
INLINE void load_words(words16 *q, const sr_bf16 *p, int64_t n) {
#ifdef __AVX512BW__
    *q = (words16)_mm512_maskz_loadu_epi16(first_bits(n), p);
#else
    *q = (words16){0};
    if (n > 0) memcpy(q, p, (size_t)(n < 32 ? n : 32) * sizeof *p);
#endif
}

/* n of 16 elements, and zeros. */
INLINE void load_half(half16 *h, const sr_bf16 *p, int64_t n) {
#ifdef __AVX512BW__
    *h = (half16)_mm256_maskz_loadu_epi16((__mmask16)first_bits(n), p);
#else
    *h = (half16){0};
    if (n > 0) memcpy(h, p, (size_t)(n < 16 ? n : 16) * sizeof *p);
#endif
}

INLINE void store_words(uint32_t *to, const words16 *q, int64_t n) {
#ifdef __AVX512BW__
    _mm512_mask_storeu_epi32(to, (__mmask16)first_bits(n), (__m512i)*q);
#else
    memcpy(to, q, (size_t)(n < 16 ? n : 16) * sizeof *to);
#endif
}

/* ---- squares --------------------------------------------------------------------------------- */

/* Rows of 16 words from (r, x) on: along k, or of neighbouring rows; zeros beyond the source. */
INLINE void load_square(words16 *q, const source *s, int64_t r, int64_t x, const bool along_k) {
    int64_t rows = s->rows - r, k = s->k - 2 * x;
    for (int i = 0; i < SQUARE; i++) {
        if (along_k) {
            load_words(q + i, s->at + (r + i) * s->row + 2 * x, i < rows ? k : 0);
            continue;
        }
        const sr_bf16 *p = s->at + 2 * (x + i) * s->column + r;
        half16 first, second;
        load_half(&first, p, 2 * i < k ? rows : 0);
        load_half(&second, p + s->column, 2 * i + 1 < k ? rows : 0);
        q[i] = (words16)JOIN(first, second, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,
                             8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
}

INLINE void store_square(const target *t, const words16 *q, int64_t r, int64_t x,
                         const bool along_k) {
    int64_t rows = t->rows - r, words = t->words - x;
    for (int i = 0; i < SQUARE; i++) {
        if (along_k && i < rows) store_words(t->at + (r + i) * t->row + x, q + i, words);
        if (!along_k && i < words) store_words(t->at + (x + i) * t->column + r, q + i, rows);
    }
}

INLINE void copy_square(const target *t, const source *s, int64_t r, int64_t x,
                        const bool from_along_k, const bool to_along_k) {
    words16 q[SQUARE];
    load_square(q, s, r, x, from_along_k);
    if (from_along_k != to_along_k) {
        transpose_quarters(q);
        exchange_quarters(q);
    }
    store_square(t, q, r, x, to_along_k);
}

/* The same for panels of TILE_M rows each, t->words * TILE_M words apart, from x on. */
INLINE void split_square(const target *t, const source *s, int64_t r, int64_t x,
                         const bool from_along_k) {
    words16 q[SQUARE];
    load_square(q, s, r, x, from_along_k);
    if (from_along_k) {
        transpose_quarters(q);
        exchange_quarters(q);
    }
    for (int panel = 0; panel < SQUARE / TILE_M; panel++) {
        if (r + panel * TILE_M >= t->rows) return;
        uint32_t *to = t->at + ((r / TILE_M + panel) * t->words + x) * TILE_M;
        for (int i = 0; i < SQUARE && x + i < t->words; i++)
            memcpy(to + i * TILE_M, (uint32_t *)(q + i) + panel * TILE_M,
                   sizeof(uint32_t) * TILE_M);
    }
}

INLINE void split_words(const target *t, const source *s, const bool from_along_k) {
    source whole = {s->at, s->row, s->column, INT64_MAX, INT64_MAX};
    for (int64_t r = 0; r < t->rows; r += SQUARE)
        for (int64_t x = 0; x < t->words; x += SQUARE) {
            bool inside = r + SQUARE <= s->rows && 2 * (x + SQUARE) <= s->k;
            split_square(t, inside ? &whole : s, r, x, from_along_k);
        }
}

INLINE void pack_words(const target *t, const source *s, const bool from_along_k,
                       const bool to_along_k) {
    source whole = {s->at, s->row, s->column, INT64_MAX, INT64_MAX}; /* known not to end here */
    target all = {t->at, t->row, t->column, INT64_MAX, INT64_MAX};
    for (int64_t x = 0; x < t->words; x += SQUARE)
        for (int64_t r = 0; r < t->rows; r += SQUARE) {
            if (r + SQUARE <= s->rows && 2 * (x + SQUARE) <= s->k)
                copy_square(&all, &whole, r, x, from_along_k, to_along_k);
            else
                copy_square(t, s, r, x, from_along_k, to_along_k);
        }
}

#endif

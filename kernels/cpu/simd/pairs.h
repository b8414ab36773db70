/* pairs.h - packing of bf16 as pairs of neighbours in k: squares of 16 x 16 words, or, from rows
 * that are contiguous across k into panels, whole rows (join_panels, join_split).
 *
 * Cost      512 elements: 96 instructions, 64 of them shuffles, if they are transposed, 80 if not;
 *           at an edge as many, with masks.  Whole rows: 48.  Both mostly wait for memory.
 */
#pragma once

#include "kernels/cpu/simd/words.h"

enum { SQUARE = 16 };
typedef uint32_t words16 __attribute__((vector_size(64)));
typedef uint16_t half16 __attribute__((vector_size(32)));
typedef uint16_t line __attribute__((vector_size(64)));

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

/* Words of 16 columns from p on, `rows` of which count: of a row and, if `both`, the next one. */
INLINE void join_rows(words16 *to, const sr_bf16 *p, int64_t next, int64_t rows, bool both) {
    half16 first, second;
    load_half(&first, p, rows);
    load_half(&second, p + next, both ? rows : 0);
    *to = (words16)JOIN(first, second, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8,
                        24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
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
        join_rows(q + i, p, s->column, 2 * i < k ? rows : 0, 2 * i + 1 < k);
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
INLINE void split_square(const target *t, const source *s, int64_t r, int64_t x) {
    words16 q[SQUARE];
    load_square(q, s, r, x, true);
    transpose_quarters(q);
    exchange_quarters(q);
    for (int panel = 0; panel < SQUARE / TILE_M; panel++) {
        if (r + panel * TILE_M >= t->rows) return;
        uint32_t *to = t->at + ((r / TILE_M + panel) * t->words + x) * TILE_M;
        for (int i = 0; i < SQUARE && x + i < t->words; i++)
            memcpy(to + i * TILE_M, (uint32_t *)(q + i) + panel * TILE_M,
                   sizeof(uint32_t) * TILE_M);
    }
}

INLINE void split_words(const target *t, const source *s) {
    source whole = {s->at, s->row, s->column, INT64_MAX, INT64_MAX};
    for (int64_t r = 0; r < t->rows; r += SQUARE)
        for (int64_t x = 0; x < t->words; x += SQUARE) {
            bool inside = r + SQUARE <= s->rows && 2 * (x + SQUARE) <= s->k;
            split_square(t, inside ? &whole : s, r, x);
        }
}

/* Rows that are contiguous along k are read to their end before the next 16; of others, 16 words of
 * k in all rows. */
INLINE void pack_words(const target *t, const source *s, const bool from_along_k,
                       const bool to_along_k) {
    source whole = {s->at, s->row, s->column, INT64_MAX, INT64_MAX}; /* known not to end here */
    target all = {t->at, t->row, t->column, INT64_MAX, INT64_MAX};
    int64_t outer = from_along_k ? t->rows : t->words, inner = from_along_k ? t->words : t->rows;
    for (int64_t i = 0; i < outer; i += SQUARE)
        for (int64_t j = 0; j < inner; j += SQUARE) {
            int64_t r = from_along_k ? i : j, x = from_along_k ? j : i;
            if (r + SQUARE <= s->rows && 2 * (x + SQUARE) <= s->k)
                copy_square(&all, &whole, r, x, from_along_k, to_along_k);
            else
                copy_square(t, s, r, x, from_along_k, to_along_k);
        }
}

/* ---- from rows that are contiguous across k -------------------------------------------------- */

/* Words of 32 columns from p on. */
INLINE void join_lines(words16 *to_low, words16 *to_high, const sr_bf16 *p, int64_t next) {
    line a, b;
    memcpy(&a, p, sizeof a);
    memcpy(&b, p + next, sizeof b);
    *to_low = (words16)JOIN(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9,
                            41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
    *to_high = (words16)JOIN(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                             24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
}

/* Words of `left` columns from p on, and zeros up to `width`. */
INLINE void join_columns(uint32_t *to, const sr_bf16 *p, int64_t next, int64_t left, int64_t width,
                         bool both) {
    int64_t i = 0;
    for (; both && i + 2 * SQUARE <= left; i += 2 * SQUARE) {
        words16 low, high;
        join_lines(&low, &high, p + i, next);
        store_words(to + i, &low, SQUARE);
        store_words(to + i + SQUARE, &high, SQUARE);
    }
    for (; both && i + SQUARE <= left; i += SQUARE) {
        words16 q;
        join_rows(&q, p + i, next, SQUARE, true);
        store_words(to + i, &q, SQUARE);
    }
    for (; i < width; i += SQUARE) {
        words16 q;
        join_rows(&q, p + i, next, left - i, both);
        store_words(to + i, &q, width - i);
    }
}

/* Panels of `most` columns, the last one padded to a multiple of `pad`: whole rows of the source
 * one after the other, since pieces of rows that lie a power of two apart share few places of a
 * cache. */
INLINE void join_panels(uint32_t *out, const source *s, const int64_t most, const int64_t pad) {
    int64_t words = (s->k + 1) / 2;
    for (int64_t x = 0; x < words; x++) {
        const sr_bf16 *row = s->at + 2 * x * s->column;
        bool both = 2 * x + 1 < s->k;
        int64_t r = 0, whole = both ? s->rows / most * most : 0;
#pragma GCC unroll 4
        for (; r < whole; r += most)
            join_columns(out + r * words + x * most, row + r, s->column, most, most, true);
        for (; r < s->rows; r += most) {
            int64_t left = s->rows - r < most ? s->rows - r : most;
            int64_t width = (left + pad - 1) / pad * pad;
            join_columns(out + r * words + x * width, row + r, s->column, left, width, both);
        }
    }
}

/* Pairs x and, if words is 2, x + 1 of up to 16 rows of A into panels of TILE_M rows. */
INLINE void put_split(uint32_t *to, int64_t panel, const words16 *first, const words16 *second,
                      int64_t rows, int words) {
    words16 a = *first, b = *second;
    if (TILE_M == 8 && words == 2) { /* a line each */
        words16 low = JOIN(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        words16 high = JOIN(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        memcpy(to, &low, sizeof low);
        if (rows > TILE_M) memcpy(to + panel, &high, sizeof high);
        return;
    }
    for (int i = 0; i < SQUARE && i < rows; i += TILE_M, to += panel) {
        memcpy(to, (uint32_t *)&a + i, sizeof *to * TILE_M);
        if (words == 2) memcpy(to + TILE_M, (uint32_t *)&b + i, sizeof *to * TILE_M);
    }
}

/* join_panels() for A: panels of TILE_M rows, two pairs at a time. */
INLINE void join_split(const target *t, const source *s) {
    int64_t panel = t->words * TILE_M;
    for (int64_t x = 0; x < t->words; x += 2) {
        const sr_bf16 *first = s->at + 2 * x * s->column, *second = first + 2 * s->column;
        int64_t k = s->k - 2 * x;
        int64_t r = 0, whole = k >= 4 ? s->rows / (2 * SQUARE) * (2 * SQUARE) : 0;
#pragma GCC unroll 2 /* an instruction for each line of 64 rows, so that it has one stride */
        for (; r < whole; r += 2 * SQUARE) {
            uint32_t *to = t->at + (r / TILE_M * t->words + x) * TILE_M;
            words16 a, b, c, d;
            join_lines(&a, &c, first + r, s->column);
            join_lines(&b, &d, second + r, s->column);
            put_split(to, panel, &a, &b, SQUARE, 2);
            put_split(to + SQUARE / TILE_M * panel, panel, &c, &d, SQUARE, 2);
        }
        for (; r < t->rows; r += SQUARE) {
            uint32_t *to = t->at + (r / TILE_M * t->words + x) * TILE_M;
            int64_t rows = s->rows - r;
            words16 a, b;
            join_rows(&a, first + r, s->column, rows, k > 1);
            join_rows(&b, second + r, s->column, k > 2 ? rows : 0, k > 3);
            put_split(to, panel, &a, &b, t->rows - r, t->words - x < 2 ? 1 : 2);
        }
    }
}

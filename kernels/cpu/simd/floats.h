/* floats.h - packing of bf16 as floats, 4 x 4 at a time: 16 to 20 instructions. */
#pragma once

#include "kernels/cpu/simd/words.h"

typedef uint32_t words4 __attribute__((vector_size(16)));
typedef uint16_t eight __attribute__((vector_size(16)));
typedef int64_t pair64 __attribute__((vector_size(16)));

/* Four floats from p on. */
INLINE words4 four_words(const sr_bf16 *p) {
    int64_t four; /* through a register: a copy would stall the load */
    memcpy(&four, p, sizeof four);
    eight h = (eight)(pair64){four, 0}, zero = {0};
    return (words4)__builtin_shufflevector(zero, h, 0, 8, 1, 9, 2, 10, 3, 11);
}

INLINE void transpose(words4 q[4]) {
    words4 low0 = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
    words4 low1 = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
    words4 high0 = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
    words4 high1 = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
    q[0] = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);
    q[1] = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);
    q[2] = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);
    q[3] = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);
}

/* The 4 x 4 words at (r, x), all of which the source has. */
INLINE void copy_block(const target *t, const source *s, int64_t r, int64_t x,
                       const bool from_along_k, const bool to_along_k) {
    words4 q[4];
    for (int i = 0; i < 4; i++)
        q[i] = four_words(from_along_k ? s->at + (r + i) * s->row + x
                                       : s->at + (x + i) * s->column + r);
    if (from_along_k != to_along_k) transpose(q);
    for (int i = 0; i < 4; i++)
        memcpy(to_along_k ? t->at + (r + i) * t->row + x : t->at + (x + i) * t->column + r, &q[i],
               sizeof q[i]);
}

INLINE void pack_words(const target *t, const source *s, const bool from_along_k,
                       const bool to_along_k) {
    for (int64_t x = 0; x < t->words; x += 4)
        for (int64_t r = 0; r < t->rows; r += 4) {
            if (r + 4 <= s->rows && x + 4 <= s->k) {
                copy_block(t, s, r, x, from_along_k, to_along_k);
                continue;
            }
            for (int64_t j = x; j < x + 4 && j < t->words; j++)
                for (int64_t i = r; i < r + 4 && i < t->rows; i++)
                    t->at[i * t->row + j * t->column] = word(s, i, j);
        }
}

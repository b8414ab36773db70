/* keys.h - vectorised Philox4x32, and dropout masks from it.
 *
 * One call decides 16 columns of a row.  The words for groups g, g + 1, ... are contiguous in
 * memory, word by word: words[w * stride + g].  The four words at w and groups 4 b ..
 * 4 b + 3 are then the 16 decisions for columns 64 b + 16 w .. + 15 (see sr_drop_group() and
 * sr_drop_byte() in core/base/rng.h), which v_kept() turns into a mask of lanes.
 */
#pragma once

#include "core/base/rng.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"

/* A round on half of the lanes.  Only lower halves count: a product needs no others. */
INLINE void philox_round(vq c[4], uint32_t k0, uint32_t k1) {
    vq a = q_multiply(c[0], 0xD2511F53u), b = q_multiply(c[2], 0xCD9E8D57u);
    c[0] = b >> 32 ^ c[1] ^ (vq)u_set(k0);
    c[1] = b;
    c[2] = a >> 32 ^ c[3] ^ (vq)u_set(k1);
    c[3] = a;
}

INLINE void philox_lanes(vu c[4], uint64_t seed, int rounds) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    vq even[4], odd[4];
    for (int w = 0; w < 4; w++) even[w] = (vq)c[w], odd[w] = (vq)c[w] >> 32;
    for (int i = 0; i < rounds; i++) {
        philox_round(even, k0, k1);
        philox_round(odd, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int w = 0; w < 4; w++) c[w] = u_join(even[w], odd[w]);
}

/* Groups needed for `columns`, rounded up to blocks of 64 columns. */
INLINE int64_t drop_groups(int64_t columns) {
    return (columns + 63) / 64 * 4;
}

/* The positions in `position` at the indices of lanes; indices from `end` on are not read.
 */
INLINE vu u_positions(const int32_t *position, vu index, uint32_t end) {
    uint32_t lanes[VL];
    u_store(lanes, index);
    for (int i = 0; i < VL; i++) lanes[i] = lanes[i] < end ? (uint32_t)position[lanes[i]] : 0;
    return u_load(lanes);
}

/* Computes the words of `rows` rows starting at `row`, `groups` each (a multiple of 4), the first
 * of which has column `col` (a multiple of 64): words[w * stride + i * groups + g].  stride >= rows
 * * groups rounded up to 16.  Row i draws as position[i], or as i if that is NULL. */
INLINE void drop_words(uint32_t *words, int64_t stride, const sr_key *key, const int32_t *position,
                       int64_t row, int64_t rows, int64_t col, int64_t groups) {
    static const uint32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uint32_t across = (uint32_t)groups;
    vu first = u_set(sr_drop_group((uint32_t)col) << 16), lane = u_load(lanes), end = u_set(across);
    vf share = (__builtin_convertvector((vi)lane, vf) + v_set(0.5f)) * v_set(1.0f / (float)across);
    vu down = (vu) __builtin_convertvector(share, vi); /* lane / across */
    vu i = down + u_set((uint32_t)row), g = lane - down * end;
    for (int64_t at = 0; at < rows * groups; at += VL) {
        vu drawn = position != NULL ? u_positions(position, i, (uint32_t)(row + rows)) : i;
        vu c[4] = {(drawn & u_set(0xFFFF)) | ((g << 16) + first), u_set(key->uid),
                   u_set(key->word2), u_set(key->epoch)};
        philox_lanes(c, key->seed, SR_ROUNDS_DROPOUT);
        for (int w = 0; w < 4; w++) u_store(words + w * stride + at, c[w]);
        g += u_set(VL % across);
        vu next = (vu)(g >= end); /* -1 where the row is complete */
        g -= next & end;
        i += u_set(VL / across) - next;
    }
}

/* The mask of columns col .. col + VL - 1 (col a multiple of VL) of the row whose groups begin at
 * words[0]. */
INLINE vm drop_kept(const uint32_t *words, int64_t stride, int64_t col, uint32_t keep) {
    return v_kept(words + (col >> 4 & 3) * stride + (col >> 6) * 4, (int)(col & 15) / VL, keep);
}

/* The other way round: the draws of columns col .. col + 63 (col a multiple of 64) for `rows` rows
 * starting at `first`, in 16 words a row: those that decide one column are contiguous. */
INLINE void drop_words_of_columns(uint32_t *words, int64_t stride, const sr_key *key,
                                  const int32_t *position, int64_t col, int64_t first,
                                  int64_t rows) {
    uint32_t lanes[VL];
    for (uint32_t lane = 0; lane < VL; lane++) lanes[lane] = (uint32_t)first + lane;
    for (uint32_t group = 0; group < 4; group++) {
        vu row = u_load(lanes), high = u_set((sr_drop_group((uint32_t)col) + group) << 16);
        for (int64_t at = 0; at < rows; at += VL, row += u_set(VL)) {
            vu drawn =
                position != NULL ? u_positions(position, row, (uint32_t)(first + rows)) : row;
            vu c[4] = {(drawn & u_set(0xFFFF)) | high, u_set(key->uid), u_set(key->word2),
                       u_set(key->epoch)};
            philox_lanes(c, key->seed, SR_ROUNDS_DROPOUT);
            for (int w = 0; w < 4; w++) u_store(words + (group * 4 + w) * stride + at, c[w]);
        }
    }
}

/* Where drop_words_of_columns() has the words of a column, and the lowest bit of its byte. */
INLINE const uint32_t *drop_words_at(const uint32_t *words, int64_t stride, int64_t col) {
    return words + ((col >> 1 & 3) * 4 + (col >> 4 & 3)) * stride;
}
INLINE int drop_shift(int64_t col) {
    return (int)((col >> 3 & 1) * 2 + (col & 1)) * 8;
}

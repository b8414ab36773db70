/* lanes.h - portable vectors of f32 lanes, so that each kernel is written once.
 *
 * This file and the kernels next to it are compiled for each set: SR_ISA = plain (4 lanes, the
 * x86-64 baseline or any other processor supported by GCC), avx2 (8 lanes, FMA), avx512 (16 lanes,
 * masks).
 *
 *   vf  VL floats    vi  VL int32    vu  VL uint32    vq  VL / 2 uint64    vm  VL truth values
 *
 * +, -, * and / work on vf, vi and vu.  Sums across lanes have a fixed order.  v_fma rounds once on
 * avx2 and avx512 and twice on plain: results differ between instruction sets, never with threads
 * or position.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SR_CAT2(a, b) a##_##b
#define SR_CAT(a, b) SR_CAT2(a, b)
#define SR_SIMD(name) SR_CAT(name, SR_ISA) /* the copy of a function for this set */

/* Large stack buffers that are written before they are read: no -ftrivial-auto-var-init. */
#define UNSET __attribute__((uninitialized))

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#include "kernels/cpu/simd/lanes_avx512.inc"
#elif defined(__AVX2__)
#include "kernels/cpu/simd/lanes_avx2.inc"
#else
#include "kernels/cpu/simd/lanes_plain.inc"
#endif

INLINE vf v_zero(void) {
    return v_set(0.0f);
}
INLINE vu u_widen(vh h) {
    return __builtin_convertvector(h, vu);
}
INLINE vh h_load(const uint16_t *p) {
    vh h;
    memcpy(&h, p, sizeof h);
    return h;
}
INLINE vh h_load_n(const uint16_t *p, int n) { /* zeros in the other lanes */
    uint16_t room[VL] = {0};
    memcpy(room, p, (size_t)n * sizeof *room);
    return h_load(room);
}
INLINE vh h_at(const uint16_t *p, int64_t i, int64_t n) {
    return n - i >= VL ? h_load(p + i) : h_load_n(p + i, (int)(n - i));
}
INLINE vf v_from_bf16(vh h) {
    return (vf)(u_widen(h) << 16);
}
/* Rounds the upper halves to nearest, ties to even; a NaN stays a NaN. */
INLINE vu u_round_up(vf v) {
    vu bits = (vu)v, up = bits + u_set(0x7FFF) + (bits >> 16 & u_set(1));
    vu is_nan = (vu)(v != v);
    return (is_nan & (bits | u_set(0x400000))) | (~is_nan & up);
}
INLINE vh v_to_bf16(vf v) {
    return u_narrow(u_round_up(v) >> 16);
}
INLINE void h_put(uint16_t *y, int64_t i, int64_t n, vh h) {
    if (n - i >= VL)
        memcpy(y + i, &h, sizeof h);
    else
        memcpy(y + i, &h, (size_t)(n - i) * sizeof *y);
}
INLINE vf v_rounded(vf v) { /* v_from_bf16(v_to_bf16(v)) */
    return (vf)(u_round_up(v) & u_set(0xFFFF0000));
}
/* The sum of all lanes of each of four vectors, and the maximum. */
INLINE quad v_sums(vf a, vf b, vf c, vf d) {
    vf ab = v_interleave_low(a, b) + v_interleave_high(a, b);
    vf cd = v_interleave_low(c, d) + v_interleave_high(c, d);
    return v_sum_fours(v_pairs_low(ab, cd) + v_pairs_high(ab, cd));
}
INLINE quad v_maxima(vf a, vf b, vf c, vf d) {
    vf ab = v_max(v_interleave_low(a, b), v_interleave_high(a, b));
    vf cd = v_max(v_interleave_low(c, d), v_interleave_high(c, d));
    return v_highest_fours(v_max(v_pairs_low(ab, cd), v_pairs_high(ab, cd)));
}
INLINE vf v_sub_product(vf c, vf a, vf b) { /* c - a b */
    return v_fma(-a, b, c);
}
INLINE vf v_at(const float *x, int64_t i, int64_t n) { /* the lanes i .. that are below n */
    return n - i >= VL ? v_load(x + i) : v_load_n(x + i, (int)(n - i));
}
INLINE void v_put(float *y, int64_t i, int64_t n, vf v) {
    if (n - i >= VL)
        v_store(y + i, v);
    else
        v_store_n(y + i, v, (int)(n - i));
}

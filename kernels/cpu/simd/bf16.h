/* bf16.h - how an instruction set multiplies bf16.
 *
 *   BF16_TILES  AMX: tiles of 16 rows by 16 pairs
 *   BF16_DOTS   dot products of pairs, added to f32 lanes (vdpbf16ps)
 *   else        panels are converted to f32 as they are packed, and multiplied by gemm.c
 *
 * SR_EMULATE=1 (dots) and 2 (tiles) emulate the instructions in plain C, so that a test covers
 * the code around them on any processor.
 */
#pragma once

#include "kernels/cpu/simd/lanes.h"

#ifndef SR_EMULATE
#define SR_EMULATE 0
#endif

#if defined(__AMX_BF16__) || SR_EMULATE == 2
#define BF16_TILES
enum {
    BF16_ROWS = 16,
    BF16_K = 32,
    BF16_BYTES = 2,
    BF16_DEPTH = 768,
    BF16_PANEL = 48,
    BF16_PAD = 16
};
#elif defined(__AVX512BF16__) || SR_EMULATE == 1
#define BF16_DOTS
enum { BF16_ROWS = TILE_M, BF16_K = 2, BF16_BYTES = 2, BF16_DEPTH = 1024 };
#else
enum { BF16_ROWS = 0, BF16_K = 1, BF16_BYTES = 4, BF16_DEPTH = 512 };
#endif

/* Columns of B in a panel, and what the last one is padded to a multiple of. */
#ifndef BF16_TILES
enum { BF16_PANEL = TILE_V * VL, BF16_PAD = VL };
#endif

INLINE int64_t bf16_padded(int64_t k) {
    return (k + BF16_K - 1) / BF16_K * BF16_K;
}

/* v_to_bf16() in one instruction where there is one; like products, it treats denormals as 0. */
INLINE vh v_to_bf16_flushed(vf v) {
#ifdef __AVX512BF16__
    return (vh)_mm512_cvtneps_pbh(v);
#else
    return v_to_bf16(v);
#endif
}

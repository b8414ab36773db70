/* low.h - how an instruction class multiplies bf16.
 *
 *   LOW_TILES  AMX: tiles of 16 rows by 16 pairs
 *   LOW_DOTS   dot products of pairs, added to f32 lanes (vdpbf16ps)
 *   else       panels are converted to f32 as they are packed, and multiplied by gemm.c
 *
 * SR_EMULATE=1 (dots) and 2 (tiles) stand for the instructions in plain C, so that a test covers
 * the code around them on any processor.
 */
#ifndef SR_CPU_LOW_H
#define SR_CPU_LOW_H

#include "kernels/cpu/simd/lanes.h"

#ifndef SR_EMULATE
#define SR_EMULATE 0
#endif

#if defined(__AMX_BF16__) || SR_EMULATE == 2
#define LOW_TILES
enum { LOW_ROWS = 16, LOW_K = 32, LOW_BYTES = 2, LOW_DEPTH = 256, LOW_PANEL = 48, LOW_PAD = 16 };
#elif defined(__AVX512BF16__) || SR_EMULATE == 1
#define LOW_DOTS
enum { LOW_ROWS = TILE_M, LOW_K = 2, LOW_BYTES = 2, LOW_DEPTH = 1024 };
#else
enum { LOW_ROWS = 0, LOW_K = 1, LOW_BYTES = 4, LOW_DEPTH = 512 };
#endif

/* Columns of B in a panel, and what the last one is padded to a multiple of. */
#ifndef LOW_TILES
enum { LOW_PANEL = TILE_V * VL, LOW_PAD = VL };
#endif

INLINE int64_t low_padded(int64_t k) {
    return (k + LOW_K - 1) / LOW_K * LOW_K;
}

/* v_to_low() in one instruction where there is one, which takes denormals as 0, like the products.
 */
INLINE vh v_to_low_flushed(vf v) {
#ifdef __AVX512BF16__
    return (vh)_mm512_cvtneps_pbh(v);
#else
    return v_to_low(v);
#endif
}

#endif

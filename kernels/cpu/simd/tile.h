/* tile.h - the instructions of AMX on tiles of 16 rows of 64 bytes, or plain C in their place
 * (SR_EMULATE).  For files that have BF16_TILES.
 */
#pragma once

#include "kernels/cpu/simd/bf16.h"

#ifdef BF16_TILES

enum { SIDE = 16 }; /* rows, and words of 32 bits in a row */

#if SR_EMULATE
/* Not inlined: a strip has a hundred of them. */
#define APART __attribute__((noinline, unused)) static
static __thread uint32_t tile_of[8][SIDE][SIDE];

APART void tile_load(int t, const void *from, int64_t bytes) {
    for (int r = 0; r < SIDE; r++) memcpy(tile_of[t][r], (const char *)from + r * bytes, 64);
}
APART void tile_save(int t, void *to, int64_t bytes) {
    for (int r = 0; r < SIDE; r++) memcpy((char *)to + r * bytes, tile_of[t][r], 64);
}
APART void tile_clear(int t) {
    memset(tile_of[t], 0, sizeof tile_of[t]);
}
APART void tile_add(int t, int a, int b) {
    float(*c)[SIDE] = (float(*)[SIDE])tile_of[t];
    for (int r = 0; r < SIDE; r++)
        for (int p = 0; p < SIDE; p++)
            for (int j = 0; j < SIDE; j++) {
                uint32_t x = tile_of[a][r][p], y = tile_of[b][p][j];
                c[r][j] += sr_bf16_to_f32((sr_bf16)x) * sr_bf16_to_f32((sr_bf16)y);
                c[r][j] += sr_bf16_to_f32((sr_bf16)(x >> 16)) * sr_bf16_to_f32((sr_bf16)(y >> 16));
            }
}
#define LOAD(t, from, bytes) tile_load(t, from, bytes)
#define SAVE(t, to, bytes) tile_save(t, to, bytes)
#define CLEAR(t) tile_clear(t)
#define ADD_PRODUCT(t, a, b) tile_add(t, a, b)
INLINE void tile_begin(void) {
}
INLINE void tile_end(void) {
}
INLINE void write_before_loads(void) {
}
INLINE void stay_awake(void) {
}
#else
#define LOAD(t, from, bytes) _tile_loadd(t, from, bytes)
#define SAVE(t, to, bytes) _tile_stored(t, to, bytes)
#define CLEAR(t) _tile_zero(t)
#define ADD_PRODUCT(t, a, b) _tile_dpbf16ps(t, a, b)

/* All tiles have 16 rows of 64 bytes.  The state is the thread's. */
INLINE void tile_begin(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) config.bytes[t] = 64, config.rows[t] = SIDE;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* the intrinsic declares 8 bytes as read */
    _tile_loadconfig(&config);
}
INLINE void tile_end(void) {
    _tile_release();
}
/* The intrinsic of a load does not say that it reads memory. */
INLINE void write_before_loads(void) {
    __asm__ volatile("" : : : "memory");
}
/* After about 2,000 cycles of tile loads and products alone the 512-bit vector units sleep, and the
 * next stores of tiles wait about 1,000 cycles.  A multiply-add a step keeps them awake; loads and
 * stores do not. */
INLINE void stay_awake(void) {
    __m512 busy = _mm512_setzero_ps();
    __asm__ volatile("vfmadd231ps %0, %0, %0" : "+v"(busy));
}
#endif

INLINE void clear_sums(void) { /* of a block, tiles 0 to 5 */
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
    CLEAR(4);
    CLEAR(5);
}

#endif

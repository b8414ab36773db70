/* burst.c - multiply-adds in registers alone: the rate that the products of an instruction set
 * could reach.
 *
 * Twelve independent chains hide the latency of two units; those of AMX are in tiles.c.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/bf16.h"

enum { CHAINS = 12 };

static double store(const vf acc[CHAINS], float sink[VL], int64_t rounds, int64_t flops) {
    vf sum = acc[0];
    for (int c = 1; c < CHAINS; c++) sum += acc[c];
    v_store(sink, sum);
    return (double)(rounds * CHAINS * flops);
}

#ifdef BF16_TILES
double SR_SIMD(burst_tiles)(float *sink, int64_t rounds);

static double bf16_burst(float sink[VL], int64_t rounds) {
    return SR_SIMD(burst_tiles)(sink, rounds);
}
#elif defined(BF16_DOTS) && !SR_EMULATE
static double bf16_burst(float sink[VL], int64_t rounds) {
    vf acc[CHAINS];
    __m512bh x = (__m512bh)u_set(0x3F803F80), y = (__m512bh)u_set(0x3F003F00);
    for (int c = 0; c < CHAINS; c++) acc[c] = v_set((float)c);
    for (int64_t i = 0; i < rounds; i++)
        for (int c = 0; c < CHAINS; c++) acc[c] = (vf)_mm512_dpbf16_ps(acc[c], x, y);
    return store(acc, sink, rounds, 4 * VL);
}
#endif

static double real_burst(float sink[VL], int64_t rounds) {
    vf acc[CHAINS], x = v_set(0.5f), y = v_set(1.0f);
    for (int c = 0; c < CHAINS; c++) acc[c] = v_set((float)c);
    for (int64_t i = 0; i < rounds; i++)
        for (int c = 0; c < CHAINS; c++) acc[c] = v_fma(acc[c], x, y);
    return store(acc, sink, rounds, 2 * VL);
}

double SR_SIMD(burst)(float *sink, int64_t rounds, bool bf16) {
#if defined(BF16_TILES) || (defined(BF16_DOTS) && !SR_EMULATE)
    if (bf16) return bf16_burst(sink, rounds);
#endif
    (void)bf16; /* converted to f32 */
    return real_burst(sink, rounds);
}

/* lanes_avx512.h - 16 lanes: AVX-512 F, BW, DQ, VL, VBMI. */
#ifndef SR_CPU_LANES_AVX512_H
#define SR_CPU_LANES_AVX512_H

#include <immintrin.h>

enum { VL = 16, TILE_M = 8, TILE_V = 3 };
typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef __mmask16 vm;

INLINE vf v_set(float x) {
    return _mm512_set1_ps(x);
}
INLINE vf v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
INLINE void v_store(float *p, vf v) {
    _mm512_storeu_ps(p, v);
}
INLINE vf v_load_n(const float *p, int n) {
    return _mm512_maskz_loadu_ps((vm)((1u << n) - 1), p);
}
INLINE void v_store_n(float *p, vf v, int n) {
    _mm512_mask_storeu_ps(p, (vm)((1u << n) - 1), v);
}
INLINE vm v_first(int n) { /* the first n lanes; n may lie outside 0..VL */
    return n >= VL ? (vm)0xFFFF : n <= 0 ? (vm)0 : (vm)((1u << n) - 1);
}
INLINE vf v_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vf v_max(vf a, vf b) { /* b where either is NaN */
    return _mm512_max_ps(a, b);
}
INLINE vf v_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
INLINE vf v_sqrt(vf a) {
    return _mm512_sqrt_ps(a);
}
INLINE vf v_round(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vf v_floor(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
INLINE vf v_abs(vf a) {
    return _mm512_abs_ps(a);
}
INLINE vf v_scale(vf a, vf n) { /* a 2^n, n a whole number */
    return _mm512_scalef_ps(a, n);
}
INLINE vf v_with_sign(vf a, vf s) { /* |a| with the sign of s */
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        _mm512_set1_epi32(INT32_MIN), _mm512_castps_si512(s), _mm512_castps_si512(a), 0xCA));
}
INLINE vm v_less(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
INLINE vm v_equal(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
INLINE vf v_select(vm m, vf a, vf b) {
    return _mm512_mask_blend_ps(m, b, a);
}
INLINE vf v_keep(vm m, vf a) { /* a where m, else 0 */
    return _mm512_maskz_mov_ps(m, a);
}
INLINE float v_sum(vf v) {
    return _mm512_reduce_add_ps(v);
}
INLINE float v_highest(vf v) {
    return _mm512_reduce_max_ps(v);
}
/* The sum of all lanes in f64, added to s. */
INLINE double v_sum_f64(vf v) {
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

INLINE vu u_set(uint32_t x) {
    return (vu)_mm512_set1_epi32((int32_t)x);
}
INLINE vu u_load(const uint32_t *p) {
    return (vu)_mm512_loadu_si512(p);
}
INLINE void u_store(uint32_t *p, vu v) {
    _mm512_storeu_si512(p, (__m512i)v);
}
INLINE void u_multiply(vu *high, vu *low, vu a, vu b) { /* 32 x 32 -> 64 */
    __m512i even = _mm512_mul_epu32((__m512i)a, (__m512i)b);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), (__m512i)b);
    *low = (vu)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    *high = (vu)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}

/* The truth of byte < keep for VL columns: `bytes` is one Philox word of four neighbouring groups,
 * 16 decisions; `part` counts VL-column parts of them.  keep is 1..255. */
INLINE vm v_kept(const uint32_t *bytes, int part, uint32_t keep) {
    (void)part;
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m128i b = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)bytes), order);
    return _mm_cmplt_epu8_mask(b, _mm_set1_epi8((char)keep));
}

#endif

/* lanes_avx2.h - 8 lanes: AVX2 and FMA. */
#ifndef SR_CPU_LANES_AVX2_H
#define SR_CPU_LANES_AVX2_H

#include <immintrin.h>

enum { VL = 8, TILE_M = 4, TILE_V = 3 };
typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));
typedef float vm __attribute__((vector_size(32))); /* all bits of a lane set or clear */

INLINE vf v_set(float x) {
    return _mm256_set1_ps(x);
}
INLINE vf v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
INLINE void v_store(float *p, vf v) {
    _mm256_storeu_ps(p, v);
}
INLINE vm v_first(int n) { /* the first n lanes; n may lie outside 0..VL */
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}
INLINE vf v_load_n(const float *p, int n) {
    return _mm256_maskload_ps(p, _mm256_castps_si256(v_first(n)));
}
INLINE void v_store_n(float *p, vf v, int n) {
    _mm256_maskstore_ps(p, _mm256_castps_si256(v_first(n)), v);
}
INLINE vf v_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vf v_max(vf a, vf b) { /* b where either is NaN */
    return _mm256_max_ps(a, b);
}
INLINE vf v_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
INLINE vf v_sqrt(vf a) {
    return _mm256_sqrt_ps(a);
}
INLINE vf v_round(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vf v_floor(vf a) {
    return _mm256_floor_ps(a);
}
INLINE vf v_abs(vf a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
INLINE vf v_power(__m256i n) { /* 2^n, -126 <= n <= 127 */
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
INLINE vf v_scale(vf a, vf n) { /* a 2^n, n a whole number within -252..254 */
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    return a * v_power(half) * v_power(_mm256_sub_epi32(whole, half));
}
INLINE vf v_with_sign(vf a, vf s) { /* |a| with the sign of s */
    return _mm256_or_ps(v_abs(a), _mm256_and_ps(_mm256_set1_ps(-0.0f), s));
}
INLINE vm v_less(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
INLINE vm v_equal(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
INLINE vf v_select(vm m, vf a, vf b) {
    return _mm256_blendv_ps(b, a, m);
}
INLINE vf v_keep(vm m, vf a) { /* a where m, else 0 */
    return _mm256_and_ps(m, a);
}
INLINE float v_sum(vf v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
INLINE float v_highest(vf v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
INLINE double v_sum_f64(vf v) {
    __m256d s = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                              _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    return (s[0] + s[1]) + (s[2] + s[3]);
}

INLINE vu u_set(uint32_t x) {
    return (vu)_mm256_set1_epi32((int32_t)x);
}
INLINE vu u_load(const uint32_t *p) {
    return (vu)_mm256_loadu_si256((const __m256i *)p);
}
INLINE void u_store(uint32_t *p, vu v) {
    _mm256_storeu_si256((__m256i *)p, (__m256i)v);
}
INLINE void u_multiply(vu *high, vu *low, vu a, vu b) { /* 32 x 32 -> 64 */
    __m256i even = _mm256_mul_epu32((__m256i)a, (__m256i)b);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), (__m256i)b);
    *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    *high = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

/* The truth of byte < keep for VL columns; see lanes_avx512.h. */
INLINE vm v_kept(const uint32_t *bytes, int part, uint32_t keep) {
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m128i b = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)bytes), order);
    if (part == 1) b = _mm_unpackhi_epi64(b, b);
    __m256i wide = _mm256_cvtepu8_epi32(b);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)keep), wide));
}

#endif

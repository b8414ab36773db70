/* lanes_plain.h - 4 lanes in the compiler's own vectors: no instruction set assumed. */
#ifndef SR_CPU_LANES_PLAIN_H
#define SR_CPU_LANES_PLAIN_H

enum { VL = 4, TILE_M = 4, TILE_V = 2 };
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));
typedef vi vm; /* -1 or 0 */

#define EACH_LANE for (int i = 0; i < VL; i++)

INLINE vf v_set(float x) {
    return (vf){x, x, x, x};
}
INLINE vf v_load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void v_store(float *p, vf v) {
    memcpy(p, &v, sizeof v);
}
INLINE vm v_first(int n) { /* the first n lanes; n may lie outside 0..VL */
    return (vi){0, 1, 2, 3} < (vi){n, n, n, n};
}
INLINE vf v_load_n(const float *p, int n) {
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}
INLINE void v_store_n(float *p, vf v, int n) {
    memcpy(p, &v, (size_t)n * sizeof *p);
}
INLINE vf v_fma(vf a, vf b, vf c) {
    return a * b + c;
}
INLINE vf v_select(vm m, vf a, vf b) {
    return (vf)((m & (vi)a) | (~m & (vi)b));
}
INLINE vf v_keep(vm m, vf a) { /* a where m, else 0 */
    return (vf)(m & (vi)a);
}
INLINE vm v_less(vf a, vf b) {
    return a < b;
}
INLINE vm v_equal(vf a, vf b) {
    return a == b;
}
INLINE vf v_max(vf a, vf b) { /* b where either is NaN */
    return v_select(a > b, a, b);
}
INLINE vf v_min(vf a, vf b) {
    return v_select(a < b, a, b);
}
INLINE vf v_sqrt(vf a) {
    EACH_LANE a[i] = sqrtf(a[i]);
    return a;
}
INLINE vf v_round(vf a) {
    EACH_LANE a[i] = rintf(a[i]);
    return a;
}
INLINE vf v_floor(vf a) {
    EACH_LANE a[i] = floorf(a[i]);
    return a;
}
INLINE vf v_abs(vf a) {
    return (vf)((vi)a & INT32_MAX);
}
INLINE vf v_scale(vf a, vf n) { /* a 2^n, n a whole number within -252..254 */
    vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
    return a * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}
INLINE vf v_with_sign(vf a, vf s) { /* |a| with the sign of s */
    return (vf)(((vi)a & INT32_MAX) | ((vi)s & INT32_MIN));
}
INLINE float v_sum(vf v) {
    return (v[0] + v[2]) + (v[1] + v[3]);
}
INLINE float v_highest(vf v) {
    float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
    return a > b ? a : b;
}
INLINE double v_sum_f64(vf v) {
    return ((double)v[0] + v[1]) + ((double)v[2] + v[3]);
}

INLINE vu u_set(uint32_t x) {
    return (vu){x, x, x, x};
}
INLINE vu u_load(const uint32_t *p) {
    vu v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void u_store(uint32_t *p, vu v) {
    memcpy(p, &v, sizeof v);
}
INLINE void u_multiply(vu *high, vu *low, vu a, vu b) { /* 32 x 32 -> 64 */
    EACH_LANE {
        uint64_t product = (uint64_t)a[i] * b[i];
        (*low)[i] = (uint32_t)product;
        (*high)[i] = (uint32_t)(product >> 32);
    }
}

/* The truth of byte < keep for VL columns; see lanes_avx512.h. */
INLINE vm v_kept(const uint32_t *bytes, int part, uint32_t keep) {
    vm kept;
    EACH_LANE {
        int col = part * VL + i;
        uint32_t byte = bytes[col >> 1 & 3] >> 8 * ((col >> 3 & 1) * 2 + (col & 1)) & 255u;
        kept[i] = byte < keep ? -1 : 0;
    }
    return kept;
}

#endif

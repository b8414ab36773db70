/* eight.cuh - eight consecutive values of a row, in registers as f32.
 *
 * A thread of a row-wise kernel owns columns in runs of eight: 16 bytes of bf16, 32 of f32.  Rows
 * that are aligned to 16 bytes and a multiple of eight columns long (VECTOR) move in vectors,
 * others value by value.
 */
#ifndef SR_CUDA_EIGHT_CUH
#define SR_CUDA_EIGHT_CUH

#include "kernels/cuda/prim.cuh"

enum { EIGHT = 8 };

DEV void read8_vector(float (&v)[EIGHT], global<const bf16> x, size_t at) {
    unpack(v, load16(x, at));
}
DEV void read8_vector(float (&v)[EIGHT], global<const float> x, size_t at) {
    vec16 a = load16(x, at), b = load16(x, at + 4);
    for (int i = 0; i < 4; i++) {
        v[i] = bits_float(a.w[i]);
        v[i + 4] = bits_float(b.w[i]);
    }
}
DEV void write8_vector(global<bf16> y, size_t at, const float (&v)[EIGHT]) {
    store16(y, at, pack(v));
}
DEV void write8_vector(global<float> y, size_t at, const float (&v)[EIGHT]) {
    vec16 a, b;
    for (int i = 0; i < 4; i++) {
        a.w[i] = float_bits(v[i]);
        b.w[i] = float_bits(v[i + 4]);
    }
    store16(y, at, a);
    store16(y, at + 4, b);
}

/* v = x[at .. at + 7], of which the row has `left`; zeros beyond. */
template <bool VECTOR, class T>
DEV void read8(float (&v)[EIGHT], global<const T> x, size_t at, int left) {
    for (int i = 0; i < EIGHT; i++) v[i] = 0.0f;
    if (VECTOR && left > 0) read8_vector(v, x, at);
    for (int i = 0; !VECTOR && i < EIGHT; i++)
        if (i < left) v[i] = to_float(x[at + i]);
}

/* y[at .. at + 7] = v, no further than `left`. */
template <bool VECTOR, class T>
DEV void write8(global<T> y, size_t at, const float (&v)[EIGHT], int left) {
    if (VECTOR && left > 0) write8_vector(y, at, v);
    for (int i = 0; !VECTOR && i < EIGHT; i++)
        if (i < left) y[at + i] = from_float<T>(v[i]);
}

DEV void zero8(float (&v)[EIGHT]) {
    for (int i = 0; i < EIGHT; i++) v[i] = 0.0f;
}

#endif

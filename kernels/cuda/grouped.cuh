/* grouped.cuh - products of tiles for grouped.cu: C (64, 64) += A (64, K) B (K, 64), 32 of K at a
 * time.
 *
 * An operand is stored in runs of neighbouring elements: along K (ALONG), or along its other
 * dimension.  A tile is moved into shared memory as it is stored; fragments turn it where needed.
 * Each of four warps computes 32 x 32 elements, which its threads hold as m16n8k16 leaves them.  An
 * element of C is a chain over k that depends on its row of A and its column of B alone.
 */
#ifndef SR_CUDA_GROUPED_CUH
#define SR_CUDA_GROUPED_CUH

#include "kernels/cuda/prim.cuh"

#ifdef SR_SIMT
#define GROUPED_UNROLL
#else
#define GROUPED_UNROLL _Pragma("unroll")
#endif

namespace grouped {

enum { THREADS = 128, TILE = 64, DEPTH = 32, RUN = 8, PAD = 8 };

/* How a tile lies in shared memory. */
template <bool ALONG> struct laid {
    static constexpr int LENGTH = ALONG ? DEPTH : TILE; /* of a run */
    static constexpr int RUNS = ALONG ? TILE : DEPTH;
    static constexpr int STEP = LENGTH + PAD; /* from one to the next */
    static constexpr int ELEMENTS = RUNS * STEP;
};
/* Element (i, k) of a tile. */
template <bool ALONG> DEV int place_of(int i, int k) {
    return ALONG ? i * laid<true>::STEP + k : k * laid<false>::STEP + i;
}

/* to[i .. i + 7] = from[at .. at + 7], of which `left` exist; zeros beyond. */
template <bool VECTOR, class T>
DEV void move8(const shared<T> &to, int i, const global<const T> &from, size_t at, int left) {
    const vec16 zero = {{0, 0, 0, 0}};
    for (int j = 0; VECTOR && j < RUN; j += 16 / (int)sizeof(T))
        store16(to, (size_t)(i + j), left > 0 ? load16(from, at + (size_t)j) : zero);
    for (int j = 0; !VECTOR && j < RUN; j++) {
        T x = from_float<T>(0.0f);
        if (j < left) x = from[at + (size_t)j];
        to[i + j] = x;
    }
}

/* A tile from element `at` on: `runs` of its runs exist, `left` elements of each. */
template <bool ALONG, bool VECTOR, class T>
DEV void move_tile(const shared<T> &to, const global<const T> &from, size_t at, int64_t step,
                   int64_t runs, int64_t left) {
    constexpr int PARTS = laid<ALONG>::LENGTH / RUN, ALL = PARTS * laid<ALONG>::RUNS;
    for (int v = thread(); v < ALL; v += THREADS) {
        int run = v / PARTS, column = v % PARTS * RUN;
        int64_t here = run < runs && column < left ? left - column : 0;
        size_t source = at + (size_t)(run * step) + (size_t)column;
        move8<VECTOR>(to, run * laid<ALONG>::STEP + column, from, here > 0 ? source : at,
                      here < RUN ? (int)here : (int)RUN);
    }
}

/* Where the 32 x 32 elements of a warp begin in the tile, and element r of its fragment (i, j). */
DEV int first_row() {
    return warp() / 2 * 32;
}
DEV int first_column() {
    return warp() % 2 * 32;
}
DEV int row_of(int i, int r) {
    return first_row() + 16 * i + (lane() >> 2) + 8 * (r >> 1);
}
DEV int column_of(int j, int r) {
    return first_column() + 8 * j + 2 * (lane() & 3) + (r & 1);
}

typedef float sums[2][4][4];

/* c += a b, on tiles in shared memory */
template <bool A, bool B>
DEV void multiply(sums &c, const shared<float> &a, const shared<float> &b) {
    for (int k = 0; k < DEPTH; k++) {
        float x[2][2], y[4][2];
        GROUPED_UNROLL for (int i = 0; i < 2; i++) for (int r = 0; r < 2; r++) x[i][r] =
            a[place_of<A>(row_of(i, 2 * r), k)];
        GROUPED_UNROLL for (int j = 0; j < 4; j++) for (int r = 0; r < 2; r++) y[j][r] =
            b[place_of<B>(column_of(j, r), k)];
        GROUPED_UNROLL for (int i = 0; i < 2; i++) GROUPED_UNROLL for (int j = 0; j < 4; j++)
            GROUPED_UNROLL for (int r = 0; r < 4; r++) c[i][j][r] =
                math_fma(x[i][r >> 1], y[j][r & 1], c[i][j][r]);
    }
}

template <bool A, bool B> DEV void multiply(sums &c, const shared<bf16> &a, const shared<bf16> &b) {
    int half = lane() >> 4, odd = lane() >> 3 & 1, line = lane() & 7;
    GROUPED_UNROLL for (int k = 0; k < DEPTH; k += 16) {
        uint32_t x[2][4], y[4];
        GROUPED_UNROLL for (int i = 0; i < 2; i++) {
            int row = first_row() + 16 * i;
            if (A)
                ldmatrix4(x[i], a + (size_t)place_of<A>(row + 8 * odd + line, k + 8 * half));
            else
                ldmatrix4_trans(x[i], a + (size_t)place_of<A>(row + 8 * odd, k + 8 * half + line));
        }
        GROUPED_UNROLL for (int j = 0; j < 4; j += 2) {
            int column = first_column() + 8 * j;
            if (B)
                ldmatrix4(y, b + (size_t)place_of<B>(column + 8 * half + line, k + 8 * odd));
            else
                ldmatrix4_trans(y, b + (size_t)place_of<B>(column + 8 * half, k + 8 * odd + line));
            GROUPED_UNROLL for (int i = 0; i < 2; i++) {
                mma_bf16(c[i][j], x[i], y[0], y[1]);
                mma_bf16(c[i][j + 1], x[i], y[2], y[3]);
            }
        }
    }
}

} // namespace grouped

#endif

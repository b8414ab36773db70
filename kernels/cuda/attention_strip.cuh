/* attention_strip.cuh - P and dS of a strip of queries and 64 keys, for attention_backward.cu: how its
 * warps share them, the decisions of dropout, and where a lane's pieces are.
 */
#pragma once

#include "kernels/cuda/attention.cuh"

namespace attention {

/* How a block shares the work: GROUPS of 4 warps, each with all strips, STRIPS strips of columns
 * of P and dS, and WIDTH columns of dQ, dK and dV. */
template <int D> struct shape {
    static constexpr int GROUPS = D >= 64 ? 2 : 1, THREADS = GROUPS * 128;
    static constexpr int STRIPS = 4 / GROUPS, WIDTH = D / GROUPS;
    static constexpr int TILE = BLOCK * D, SQUARE = BLOCK * BLOCK; /* elements */
    /* bytes: 6 tiles, P, dS, lse and delta in two stages, decisions of dropout, 16 rows of results
     * for each warp */
    static constexpr int P = 6 * TILE * 2, DS = P + SQUARE * 2, STATISTICS = DS + SQUARE * 2;
    static constexpr int WORDS = STATISTICS + 4 * BLOCK * 4, ROOM = WORDS + SQUARE;
    static constexpr int BYTES = ROOM + TILE * 2;
};

/* `count` tiles of 64 rows from tile n on. */
template <int D> DEV shared<bf16> tile_at(int n, int count) {
    return shared_at<bf16>(n * shape<D>::TILE * 2, count * shape<D>::TILE);
}

DEV int strip_of_warp() {
    return warp() & 3;
}
DEV int group_of_warp() {
    return warp() >> 2;
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* Where word `w` of the decisions for row l / 4 + 8 r of the warp's strip is. */
DEV int word_at(int w, int r) {
    return w * 4 * BLOCK + strip_of_warp() * 64 + r * 32 + lane();
}

/* Draws all decisions of 64 rows and the 64 columns from `first` on, each once: the groups of warps
 * take turns with the rows. */
template <int D>
DEV void draw_words(shared<uint32_t> words, const call &c, const sr_strip &strip, int first,
                    int head) {
    UNROLL
    for (int i = 0; i < 2; i += shape<D>::GROUPS) {
        const int r = i + group_of_warp(), row = strip.position + (lane() >> 2) + 8 * r;
        const sr_u32x4 x = drop_words(c.drop, strip, row, first, head);
        UNROLL
        for (int w = 0; w < 4; w++) words[word_at(w, r)] = x.w[w];
    }
}

/* Whether column 8 n + 2 (lane % 4) + e of them is kept. */
DEV bool is_kept(const sr_u32x4 &words, int n, int e, uint32_t keep) {
    return words.w[n >> 1] << 8 * (3 - (n & 1) * 2 - e) < keep << 24;
}

/* ---- where a lane's pieces are --------------------------------------------------------------- */

/* Kept in registers, of which there are too few: else the compiler finds all of it again for each
 * product. */
template <int D> struct lane_at {
    /* down, the rows of the warp's strip: q, dout; of dS; the group's part of the columns: keys, q
     * and dout transposed */
    int strip, square, part;
    /* across, the rows of the group's columns: keys, values; the columns of the warp's strip: P and
     * dS transposed */
    int columns, transposed;
    int pair; /* two columns of a row of the warp's strip of P and dS */
};

template <int D> DEV lane_at<D> lane_places() {
    const int rows = strip_of_warp() * STRIP, group = group_of_warp(), g = lane() >> 2;
    lane_at<D> at;
    at.strip = kept(down<D>() + rows * D);
    at.columns = kept(across<D>() + group * shape<D>::STRIPS * 16 * D);
    at.part = kept(down<D>() + ahead<D>(group * shape<D>::WIDTH / 16));
    at.square = D == BLOCK ? at.strip : kept(down<BLOCK>() + rows * BLOCK);
    at.transposed = kept(across<BLOCK>() + ahead<BLOCK>(strip_of_warp()));
    at.pair = kept(place<BLOCK>(rows + g, 2 * shape<D>::STRIPS * group) + 2 * (lane() & 3));
    return at;
}

/* ---- P and dS of a strip of queries and 64 keys ---------------------------------------------- */

/* Scores and products with values: a strip, and N strips of columns from strip `from` on. */
template <int D, int N>
DEV void products(float (&s)[2 * N][4], float (&dp)[2 * N][4], const lane_at<D> &at, shared<bf16> q,
                  shared<bf16> dout, shared<bf16> keys, shared<bf16> values) {
    clear(s);
    clear(dp);
    UNROLL
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[4], da[4];
        ldmatrix4(a, q + at.strip + ahead<D>(k));
        ldmatrix4(da, dout + at.strip + ahead<D>(k));
        UNROLL
        for (int n = 0; n < N; n++) {
            uint32_t b[4];
            ldmatrix4(b, keys + at.columns + ahead<D>(k) + 16 * n * D);
            multiply_pair(s[2 * n], s[2 * n + 1], a, b);
            ldmatrix4(b, values + at.columns + ahead<D>(k) + 16 * n * D);
            multiply_pair(dp[2 * n], dp[2 * n + 1], da, b);
        }
    }
}

/* ds = derivatives of the scores; p = Z P, where PUT; for the columns of the warp's group. `first`
 * is the first column of the block. */
template <int D, bool DROP, bool PUT, bool LOCAL, bool GROUP>
DEV void derivatives(shared<bf16> p, shared<bf16> ds, const lane_at<D> &at, const call &c,
                     const sr_strip &strip, int first, shared<const uint32_t> words,
                     shared<const float> statistics, shared<bf16> q, shared<bf16> dout,
                     shared<bf16> keys, shared<bf16> values) {
    constexpr int N = shape<D>::STRIPS;
    const int from = group_of_warp() * N;
    const float factor = c.scale * LOG2E;
    float s[2 * N][4], dp[2 * N][4];
    products<D, N>(s, dp, at, q, dout, keys, values);
    if (LOCAL)
        mask_unseen<N>(s, strip, c, first + 16 * from);
    else
        mask_columns<N, GROUP>(s, strip, first + 16 * from);
    UNROLL
    for (int r = 0; r < 2; r++) {
        const int row = strip_of_warp() * STRIP + (lane() >> 2) + 8 * r;
        const float base = statistics[row], delta = statistics[BLOCK + row];
        sr_u32x4 drawn = {};
        UNROLL
        for (int w = 0; DROP && w < N; w++) drawn.w[w] = words[word_at(from + w, r)];
        UNROLL
        for (int n = 0; n < 2 * N; n++) {
            float left[2], derivative[2];
            UNROLL
            for (int e = 0; e < 2; e++) {
                const float x = exp2_fast(fmaf(s[n][2 * r + e], factor, base));
                const bool keep = !DROP || is_kept(drawn, n, e, c.drop.keep);
                left[e] = keep ? x : 0.0f;
                derivative[e] = x * fmaf(keep ? dp[n][2 * r + e] : 0.0f, c.drop.scale, -delta);
            }
            const int turn = lane() >> 2 & (2 * N - 1), to = (n ^ turn) - turn;
            const int at_pair = at.pair + to * 8 + 8 * r * BLOCK;
            if (PUT) store4(p, (size_t)at_pair, pack2_bf16(left[0], left[1]));
            store4(ds, (size_t)at_pair, pack2_bf16(derivative[0], derivative[1]));
        }
    }
}

} // namespace attention

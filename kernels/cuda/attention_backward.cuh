/* attention_backward.cuh - packed self-attention on tensor cores, backward, without atomics.
 *
 * Shapes    dqkv (T, 3, A, D), dout (T, A, D) as in the forward pass; lse, delta (A, T) f32
 * Formulas  P = exp(scale q k - lse), dP = Z r dout v, delta = <dout, out>, dS = P (dP - delta),
 *           dQ = scale dS K, dK = scale dS^T Q, dV = (Z r P)^T dout; P and dS are rounded to 16
 * bits Owner     one block has a sequence, or a group, of one head: for each 64 keys it visits all
 *           queries, and dK and dV stay in registers.  dQ of a sequence of one block is complete at
 *           once; of a longer one it is added up in f32 in device memory that no other block
 *           touches.  10 D n^2 flops.
 * Split     for sequences too long for that: the same kernel takes one block of 64 keys and leaves
 *           dQ out, and a second one takes one block of queries and adds dQ up over all keys.  P is
 *           computed twice: 14 D n^2 flops, but no memory.
 * Order     dQ is the sum over blocks of 64 keys, in order, of products that start at zero, in both
 *           modes: they give the same bits.
 */
#ifndef SR_CUDA_ATTENTION_BACKWARD_CUH
#define SR_CUDA_ATTENTION_BACKWARD_CUH

#include "kernels/cuda/attention.cuh"

namespace attention {

/* The tensors of a call. */
template <class T> struct tensors {
    global<T> dqkv;
    global<float> delta; /* (A, T) */
    global<float> sums;  /* of dQ: (blocks, A, 64, D), as lanes have them */
    global<const T> qkv, out, dout;
    global<const float> lse;
};

/* Shared memory: two tiles that stay, two that pass in two stages, P and dS, lse and delta. */
template <int D> constexpr int backward_bytes() {
    return 6 * BLOCK * D * 2 + 2 * BLOCK * BLOCK * 2 + 4 * BLOCK * 4;
}

/* ---- lse and delta of 64 rows ---------------------------------------------------------------- */

/* Half of the threads bring lse, the others delta; zero where there is no row, whose products with
 * rows of zeros are zero. */
DEV float row_statistic(global<const float> lse, global<const float> delta, const row_map &map,
                        int first) {
    bool valid;
    const size_t row = row_of(map, first + thread() % BLOCK, valid);
    if (!valid) return 0.0f;
    return thread() < BLOCK ? lse[row] : delta[row];
}

/* delta = <dout, out> of rows first .. first + count - 1 of a head. */
template <class T, int D>
DEV void write_deltas(global<float> delta, global<const T> dout, global<const T> out, size_t stride,
                      const row_map &map, int count) {
    constexpr int LANES = D / 8, STEP = THREADS / LANES; /* lanes to a row, rows at a time */
    const int chunk = thread() % LANES;
    for (int first = 0; first < count; first += STEP) {
        bool valid;
        const size_t row = row_of(map, first + thread() / LANES, valid);
        const size_t at = row * stride + (size_t)(chunk * 8);
        float sum = 0.0f;
        if (valid) {
            const vec16 a = load16(dout, at), b = load16(out, at);
            UNROLL
            for (int i = 0; i < 4; i++) {
                sum = fmaf(low_half(T{}, a.w[i]), low_half(T{}, b.w[i]), sum);
                sum = fmaf(high_half(T{}, a.w[i]), high_half(T{}, b.w[i]), sum);
            }
        }
        UNROLL
        for (int mask = LANES / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
        if (valid && chunk == 0) delta[row] = sum;
    }
}

/* ---- P and dS of a strip of queries and 64 keys ---------------------------------------------- */

/* Fragments of a strip: [k] is an operand of 16 columns. */
typedef uint32_t fragments[4][4];

template <class T, int D>
DEV void products(float (&s)[8][4], float (&dp)[8][4], shared<T> q, shared<T> dout, shared<T> keys,
                  shared<T> values) {
    clear(s);
    clear(dp);
    UNROLL
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[4], da[4];
        load_a<D>(a, q, warp() * STRIP, k);
        load_a<D>(da, dout, warp() * STRIP, k);
        UNROLL
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            load_b<D>(b, keys, 16 * n, k);
            multiply_pair<T>(s[2 * n], s[2 * n + 1], a, b);
            load_b<D>(b, values, 16 * n, k);
            multiply_pair<T>(dp[2 * n], dp[2 * n + 1], da, b);
        }
    }
}

/* On entry s has scores and dp products with values; p receives Z P and ds the slopes of scores.
 * `first` is the block's first column. */
template <class T, bool DROP>
DEV void slopes(fragments &p, fragments &ds, const float (&s)[8][4], const float (&dp)[8][4],
                const call &c, const sr_strip &strip, int first, int head,
                shared<const float> statistics) {
    const int from = strip.key_begin - first, to = strip.key_end - first;
    const bool whole = from <= 0 && to >= BLOCK;
    const float factor = c.scale * LOG2E;
    UNROLL
    for (int r = 0; r < 2; r++) {
        const int row = (lane() >> 2) + 8 * r;
        const float base = statistics[warp() * STRIP + row] * -LOG2E;
        const float delta = statistics[BLOCK + warp() * STRIP + row];
        sr_u32x4 words = {};
        if (DROP) words = drop_words(c.drop, strip, strip.position + row, first, head);
        UNROLL
        for (int n = 0; n < 8; n++) {
            float kept[2], slope[2];
            UNROLL
            for (int e = 0; e < 2; e++) {
                const int col = 8 * n + 2 * (lane() & 3) + e;
                const bool here = whole || (col >= from && col < to);
                const float x = here ? exp2_fast(fmaf(s[n][2 * r + e], factor, base)) : 0.0f;
                const bool keep = !DROP || is_kept(words, n, e, c.drop.keep);
                kept[e] = keep ? x : 0.0f;
                slope[e] = x * (keep ? fmaf(dp[n][2 * r + e], c.drop.scale, -delta) : -delta);
            }
            p[n / 2][n % 2 * 2 + r] = pack2(T{}, kept[0], kept[1]);
            ds[n / 2][n % 2 * 2 + r] = pack2(T{}, slope[0], slope[1]);
        }
    }
}

/* Puts a strip of fragments into rows of a (64, 64) tile. */
template <class T> DEV void put_fragments(shared<T> tile, const fragments &x) {
    UNROLL
    for (int n = 0; n < 8; n++) {
        UNROLL
        for (int r = 0; r < 2; r++)
            store4(tile,
                   (size_t)(place<BLOCK>(warp() * STRIP + (lane() >> 2) + 8 * r, n) +
                            2 * (lane() & 3)),
                   x[n / 2][n % 2 * 2 + r]);
    }
}

/* dq (16, W) = ds k, columns `from` .. from + W - 1 of the head. */
template <class T, int D, int W>
DEV void multiply_keys(float (&dq)[W / 8][4], const fragments &ds, shared<T> keys, int from,
                       strip_range range) {
    clear(dq);
    UNROLL
    for (int k = 0; k < 4; k++) {
        if (k < range.from || k >= range.to) continue;
        UNROLL
        for (int n = 0; n < W / 16; n++) {
            uint32_t b[4];
            load_b_trans<D>(b, keys, 16 * k, from / 16 + n);
            multiply_pair<T>(dq[2 * n], dq[2 * n + 1], ds[k], b);
        }
    }
}

/* dv += P^T dout, dk += dS^T q for the warp's 16 keys, over the strips of queries of its sequence.
 */
template <class T, int D>
DEV void add_keys(float (&dk)[D / 8][4], float (&dv)[D / 8][4], shared<T> p, shared<T> ds,
                  shared<T> q, shared<T> dout, strip_range range) {
    UNROLL
    for (int k = 0; k < 4; k++) {
        if (k < range.from || k >= range.to) continue;
        uint32_t a[4], da[4];
        load_a_trans<BLOCK>(a, p, 16 * k, warp());
        load_a_trans<BLOCK>(da, ds, 16 * k, warp());
        UNROLL
        for (int n = 0; n < D / 16; n++) {
            uint32_t b[4];
            load_b_trans<D>(b, dout, 16 * k, n);
            multiply_pair<T>(dv[2 * n], dv[2 * n + 1], a, b);
            load_b_trans<D>(b, q, 16 * k, n);
            multiply_pair<T>(dk[2 * n], dk[2 * n + 1], da, b);
        }
    }
}

/* ---- owner, and keys of a split sequence ----------------------------------------------------- */

/* Columns of an accumulator that are computed or written at a time. */
template <int D> struct part { static constexpr int columns = D < BLOCK ? D : BLOCK; };

/* dQ of the strip for this block of keys: kept in `sums` until the last block, which writes it. */
template <class T, int D>
DEV void write_queries(const fragments &ds, shared<T> keys, shared<T> room, strip_range range,
                       global<float> sums, bool first, bool last, global<T> to, size_t stride,
                       float scale, int rows) {
    constexpr int W = part<D>::columns;
    UNROLL
    for (int h = 0; h < D; h += W) {
        float dq[W / 8][4];
        multiply_keys<T, D, W>(dq, ds, keys, h, range);
        if (!first || !last) {
            UNROLL
            for (int n = 0; n < W / 8; n++) {
                const size_t at = (size_t)(((h / 8 + n) * THREADS + thread()) * 4);
                if (!first) {
                    const vec16 sum = load16(sums, at);
                    UNROLL
                    for (int e = 0; e < 4; e++) dq[n][e] += bits_float(sum.w[e]);
                }
                if (!last) store16(sums, at, pack(dq[n]));
            }
        }
        if (last) store_strip<T, W>(room, dq, scale, scale, to + (size_t)h, stride, rows);
    }
}

template <class T, int D>
DEV void write_keys(const float (&x)[D / 8][4], shared<T> room, float scale, global<T> to,
                    size_t stride, int rows) {
    constexpr int W = part<D>::columns;
    UNROLL
    for (int h = 0; h < D; h += W) {
        float c[W / 8][4];
        UNROLL
        for (int n = 0; n < W / 8; n++) {
            UNROLL
            for (int e = 0; e < 4; e++) c[n][e] = x[h / 8 + n][e];
        }
        store_strip<T, W>(room, c, scale, scale, to + (size_t)h, stride, rows);
    }
}

/* split: the tiles are blocks of keys, delta is given, and dQ is left out. */
template <class T, int D, bool DROP>
KERNEL(THREADS, D > 64 ? 1 : 2)
void backward(call c, work w, bool split, tensors<T> t) {
    constexpr int TILE = BLOCK * D;
    shared<T> keys = shared_at<T>(0, TILE), values = shared_at<T>(TILE * 2, TILE);
    shared<T> q = shared_at<T>(2 * TILE * 2, 2 * TILE), dout = shared_at<T>(4 * TILE * 2, 2 * TILE);
    shared<T> p = shared_at<T>(6 * TILE * 2, BLOCK * BLOCK);
    shared<T> ds = shared_at<T>(6 * TILE * 2 + BLOCK * BLOCK * 2, BLOCK * BLOCK);
    shared<float> statistics = shared_at<float>(6 * TILE * 2 + 2 * BLOCK * BLOCK * 2, 4 * BLOCK);

    const int head = block_x() % c.heads;
    global<const sr_tile> tile = tile_of(w, block_x() / c.heads);
    const row_map map = keys_of(tile); /* of queries, too */
    const size_t hidden = (size_t)c.heads * D, stride = 3 * hidden;
    const size_t column = (size_t)(head * D), line = (size_t)head * c.rows;
    global<const T> from = t.qkv + column, dout_from = t.dout + column;
    global<T> to = t.dqkv + column;
    global<float> delta = t.delta + line;
    global<const float> lse = t.lse + line;
    const int blocks = (map.count + BLOCK - 1) / BLOCK;
    const int begin = split ? tile[0].strip[0].position / BLOCK : 0;
    const int end = split ? begin + 1 : blocks;
    shared<T> room = p + warp() * STRIP * BLOCK;

    for (int j = begin; j < end; j++) {
        const int first = j * BLOCK;
        const sr_strip own = strip_at(map, first + warp() * STRIP);
        float dk[D / 8][4], dv[D / 8][4];
        clear(dk);
        clear(dv);
        copy_rows<D, BLOCK>(keys, from + hidden, stride, map, first);
        copy_rows<D, BLOCK>(values, from + 2 * hidden, stride, map, first);
        copy_rows<D, BLOCK>(q, from, stride, map, 0);
        copy_rows<D, BLOCK>(dout, dout_from, hidden, map, 0);
        cp_commit();
        if (j == begin && !split) {
            write_deltas<T, D>(delta, dout_from, t.out + column, hidden, map, map.count);
            barrier();
        }
        statistics[thread()] = row_statistic(lse, delta, map, 0);
        for (int i = 0; i < blocks; i++) {
            const int row = i * BLOCK, stage = (i & 1) * TILE, other = ((i + 1) & 1) * TILE;
            float next = 0.0f;
            if (i + 1 < blocks) {
                copy_rows<D, BLOCK>(q + other, from, stride, map, row + BLOCK);
                copy_rows<D, BLOCK>(dout + other, dout_from, hidden, map, row + BLOCK);
                cp_commit();
                next = row_statistic(lse, delta, map, row + BLOCK);
                cp_wait<1>();
            } else {
                cp_wait<0>();
            }
            barrier();
            const sr_strip strip = strip_at(map, row + warp() * STRIP);
            if (strip.rows > 0) {
                float s[8][4], dp[8][4];
                fragments kept, slope;
                products<T, D>(s, dp, q + stage, dout + stage, keys, values);
                slopes<T, DROP>(kept, slope, s, dp, c, strip, first, head,
                                statistics + (i & 1) * 2 * BLOCK);
                if (!split)
                    write_queries<T, D>(
                        slope, keys, room, strips_of(map.group, strip, map.count - first),
                        blocks == 1 ? nullptr
                                    : t.sums + ((size_t)(tile[0].block + i) * hidden + column) *
                                                   (size_t)BLOCK,
                        j == 0, j + 1 == blocks, to + (size_t)strip.row * stride, stride, c.scale,
                        strip.rows);
                put_fragments(p, kept);
                put_fragments(ds, slope);
            }
            statistics[((i + 1) & 1) * 2 * BLOCK + thread()] = next;
            barrier();
            if (own.rows > 0)
                add_keys<T, D>(dk, dv, p, ds, q + stage, dout + stage,
                               strips_of(map.group, own, map.count - row));
            barrier();
        }
        if (own.rows > 0) {
            global<T> at = to + (size_t)own.row * stride;
            write_keys<T, D>(dk, room, c.scale, at + hidden, stride, own.rows);
            write_keys<T, D>(dv, room, c.drop.scale, at + 2 * hidden, stride, own.rows);
        }
    }
}

/* ---- queries of a split sequence ------------------------------------------------------------- */

template <class T, int D> KERNEL(THREADS, 8) void deltas(call c, work w, tensors<T> t) {
    const int head = block_x() % c.heads;
    const row_map map = queries_of(tile_of(w, block_x() / c.heads));
    const size_t column = (size_t)(head * D);
    write_deltas<T, D>(t.delta + (size_t)head * c.rows, t.dout + column, t.out + column,
                       (size_t)c.heads * D, map, map.count);
}

template <int D> constexpr int queries_bytes() {
    return 6 * BLOCK * D * 2 + 2 * BLOCK * 4;
}

template <class T, int D, bool DROP>
KERNEL(THREADS, D > 64 ? 1 : 2)
void backward_queries(call c, work w, tensors<T> t) {
    constexpr int TILE = BLOCK * D, W = part<D>::columns;
    shared<T> q = shared_at<T>(0, TILE), dout = shared_at<T>(TILE * 2, TILE);
    shared<T> keys = shared_at<T>(2 * TILE * 2, 2 * TILE);
    shared<T> values = shared_at<T>(4 * TILE * 2, 2 * TILE);
    shared<float> statistics = shared_at<float>(6 * TILE * 2, 2 * BLOCK);

    const int head = block_x() % c.heads;
    global<const sr_tile> tile = tile_of(w, block_x() / c.heads);
    const row_map queries = queries_of(tile), columns = keys_of(tile);
    const size_t hidden = (size_t)c.heads * D, stride = 3 * hidden;
    const size_t column = (size_t)(head * D), line = (size_t)head * c.rows;
    global<const T> from = t.qkv + column;
    const int blocks = (columns.count + BLOCK - 1) / BLOCK;
    const sr_strip strip = strip_at(queries, warp() * STRIP);

    float dq[D / 8][4];
    clear(dq);
    copy_rows<D, BLOCK>(q, from, stride, queries, 0);
    copy_rows<D, BLOCK>(dout, t.dout + column, hidden, queries, 0);
    copy_rows<D, BLOCK>(keys, from + hidden, stride, columns, 0);
    copy_rows<D, BLOCK>(values, from + 2 * hidden, stride, columns, 0);
    cp_commit();
    statistics[thread()] = row_statistic(t.lse + line, t.delta + line, queries, 0);
    for (int j = 0; j < blocks; j++) {
        const int first = j * BLOCK, stage = (j & 1) * TILE, other = ((j + 1) & 1) * TILE;
        if (j + 1 < blocks) {
            copy_rows<D, BLOCK>(keys + other, from + hidden, stride, columns, first + BLOCK);
            copy_rows<D, BLOCK>(values + other, from + 2 * hidden, stride, columns, first + BLOCK);
            cp_commit();
            cp_wait<1>();
        } else {
            cp_wait<0>();
        }
        barrier();
        if (strip.rows > 0) {
            float s[8][4], dp[8][4];
            fragments kept, slope;
            products<T, D>(s, dp, q, dout, keys + stage, values + stage);
            slopes<T, DROP>(kept, slope, s, dp, c, strip, first, head, statistics);
            UNROLL
            for (int h = 0; h < D; h += W) {
                float more[W / 8][4];
                multiply_keys<T, D, W>(more, slope, keys + stage, h,
                                       strips_of(false, strip, columns.count - first));
                UNROLL
                for (int n = 0; n < W / 8; n++) {
                    UNROLL
                    for (int e = 0; e < 4; e++)
                        dq[h / 8 + n][e] = j == 0 ? more[n][e] : dq[h / 8 + n][e] + more[n][e];
                }
            }
        }
        barrier();
    }
    if (strip.rows > 0)
        write_keys<T, D>(dq, q + warp() * STRIP * D, c.scale,
                         t.dqkv + ((size_t)strip.row * stride + column), stride, strip.rows);
}

} // namespace attention
#endif

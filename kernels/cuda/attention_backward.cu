/* attention_backward.cu - packed self-attention on tensor cores, backward, without atomics.
 *
 * Shapes    dqkv (T, A + 2 K, D), dout (T, A, D) as in the forward pass; lse, delta (A, T) f32
 * Formulas  P = exp(scale q k - lse), dP = Z r dout v, delta = <dout, out>, dS = P (dP - delta),
 *           dQ = scale dS K, dK = scale dS^T Q, dV = (Z r P)^T dout; P and dS are rounded
 * Owner     one block has a sequence, or a group, of one head: for each 64 keys it visits all
 *           queries, and dK and dV stay in registers.  dQ of a sequence of one block is complete at
 *           once; of a longer one it is added up in f32 in device memory that no other block
 *           touches.  10 D n^2 flops.
 * Split     for sequences too long for that: other blocks of the same launch take 64 keys and leave
 *           dQ out, or take 64 queries and add dQ up over all keys.  P is computed twice: 14 D n^2
 *           flops, but no memory.
 * Local     kernels of windows, causal masks and shared key heads: a block of keys visits the
 *           blocks of queries that see it, of each query head that uses its head; a block of
 *           queries the keys that it sees
 * Warps     4 for heads of 32; 8 for larger ones, where each half of them takes half of the keys of
 *           P and dS, and half of the columns of the results: twice the warps in half the registers
 * Order     dQ is the sum over blocks of 64 keys, in order, of products that start at zero, in both
 *           modes: they give the same bits.
 * Bias      where it is wanted, and no heads share keys, a block at last reads its rows of dQ, dK
 *           and dV again, from the L2 cache, and leaves their sums, which sums.cu adds up in order:
 *           while it computes, registers are too few.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/sums.h"

namespace attention {

/* The blocks of a launch, as sr_split has them (core/batch/tiles.h), heads fastest: whole
 * sequences, from block `keys` on blocks of keys, from `queries` on blocks of queries, from `rest`
 * on other whole sequences and groups. */
struct jobs {
    global<const sr_tile> tiles;
    int owners, blocks; /* the first tile of those that are whole, and of blocks */
    int split;          /* tiles of blocks */
    int groups;         /* the part of a group's sums is so far from its place among the whole */
    int keys, queries, rest;
};

/* What a block does. */
struct job {
    global<const sr_tile> tile;
    int head; /* of queries; the first that uses its head of keys */
    int part; /* of the sums for a bias: of its first 64 rows */
    bool keys, queries;
};

template <bool LOCAL> DEV job job_of(const jobs &w, const call &c, int block) {
    const int members = LOCAL ? members_of(c) : 1, kv_heads = LOCAL ? c.kv_heads : c.heads;
    job j;
    j.queries = block >= w.queries && block < w.rest;
    j.keys = block >= w.keys && block < w.queries;
    const bool split = j.keys || j.queries;
    const int at = j.queries ? block - w.queries
                   : j.keys  ? block - w.keys
                             : block - (block < w.keys ? 0 : w.rest - w.keys);
    const int heads = j.queries ? c.heads : kv_heads, item = at / heads;
    j.head = at % heads * (j.queries ? 1 : members);
    j.tile = w.tiles + (size_t)((split ? w.blocks : w.owners) + item);
    j.part = j.tile[0].block < 0 ? w.groups + item : j.tile[0].block;
    return j;
}

/* The tensors of a call. */
struct tensors {
    global<bf16> dqkv;
    global<float> delta; /* (A, T) */
    global<float> sums;  /* of dQ: (blocks, A, 64, D), as lanes have them */
    global<float> parts; /* of the bias gradient, a row like one of dqkv for each tile; or null */
    global<const bf16> qkv, out, dout;
    global<const float> lse;
};

/* How a block shares the work: GROUPS of 4 warps, each with all strips, STRIPS strips of columns
 * of P and dS, and WIDTH columns of dQ, dK and dV. */
template <int D> struct shape {
    static constexpr int GROUPS = D >= 64 ? 2 : 1, THREADS = GROUPS * 128;
    static constexpr int STRIPS = 4 / GROUPS, WIDTH = D / GROUPS;
    static constexpr int TILE = BLOCK * D, SQUARE = BLOCK * BLOCK; /* elements */
    /* bytes: 6 tiles, P, dS, lse and delta in two stages, 16 rows of results for
     * each warp */
    static constexpr int P = 6 * TILE * 2, DS = P + SQUARE * 2, STATISTICS = DS + SQUARE * 2;
    static constexpr int ROOM = STATISTICS + 4 * BLOCK * 4, BYTES = ROOM + TILE * 2;
};

DEV int strip_of_warp() {
    return warp() & 3;
}
DEV int group_of_warp() {
    return warp() >> 2;
}

/* ---- lse and delta of 64 rows ---------------------------------------------------------------- */

/* One of the threads 0 to 127: half of them load lse, the others delta; zero where there is no
 * row, so that its products with rows of zeros are zero. */
DEV float row_statistic(global<const float> lse, global<float> delta, const row_map &map,
                        int first) {
    bool valid;
    const size_t row = row_of(map, first + thread() % BLOCK, valid);
    if (!valid || thread() >= 2 * BLOCK) return 0.0f;
    if (thread() < BLOCK) return lse[row];
    return delta[row]; /* of this block, too: not a load of constant memory */
}

DEV void put_statistic(shared<float> to, float x) {
    if (thread() < 2 * BLOCK) to[thread()] = x;
}

/* delta = <dout, out> of rows 0 .. count - 1 of a head. */
template <int D, int THREADS>
DEV void write_deltas(global<float> delta, global<const bf16> dout, global<const bf16> out,
                      size_t stride, const row_map &map, int count) {
    constexpr int LANES = D / 8, STEP = THREADS / LANES; /* lanes per row, rows at a time */
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
                sum = fmaf(low_bf16(a.w[i]), low_bf16(b.w[i]), sum);
                sum = fmaf(high_bf16(a.w[i]), high_bf16(b.w[i]), sum);
            }
        }
        UNROLL
        for (int mask = LANES / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
        if (valid && chunk == 0) delta[row] = sum;
    }
}

/* ---- P and dS of a strip of queries and 64 keys ---------------------------------------------- */

/* Scores and products with values: a strip, and N strips of columns from strip `from` on. */
template <int D, int N>
DEV void products(float (&s)[2 * N][4], float (&dp)[2 * N][4], shared<bf16> q, shared<bf16> dout,
                  shared<bf16> keys, shared<bf16> values, int from) {
    clear(s);
    clear(dp);
    UNROLL
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[4], da[4];
        load_a<D>(a, q, strip_of_warp() * STRIP, k);
        load_a<D>(da, dout, strip_of_warp() * STRIP, k);
        UNROLL
        for (int n = 0; n < N; n++) {
            uint32_t b[4];
            load_b<D>(b, keys, 16 * (from + n), k);
            multiply_pair(s[2 * n], s[2 * n + 1], a, b);
            load_b<D>(b, values, 16 * (from + n), k);
            multiply_pair(dp[2 * n], dp[2 * n + 1], da, b);
        }
    }
}

/* Puts two columns of a row of the warp's strip into a (64, 64) tile. */
DEV void put_pair(shared<bf16> tile, uint32_t x, int r, int n) {
    const int row = strip_of_warp() * STRIP + (lane() >> 2) + 8 * r;
    store4(tile, (size_t)(place<BLOCK>(row, n) + 2 * (lane() & 3)), x);
}

/* ds = derivatives of the scores; p = Z P, where PUT; for the columns of the warp's group. `first`
 * is the first column of the block. */
template <int D, bool DROP, bool PUT, bool LOCAL>
DEV void derivatives(shared<bf16> p, shared<bf16> ds, const call &c, const sr_strip &strip,
                     int first, int head, shared<const float> statistics, shared<bf16> q,
                     shared<bf16> dout, shared<bf16> keys, shared<bf16> values) {
    constexpr int N = shape<D>::STRIPS;
    const int from = group_of_warp() * N;
    const float factor = c.scale * LOG2E;
    float s[2 * N][4], dp[2 * N][4];
    products<D, N>(s, dp, q, dout, keys, values, from);
    if (LOCAL)
        mask_unseen<N>(s, strip, c, first + 16 * from);
    else
        mask_columns<N>(s, strip.key_begin - first - 16 * from, strip.key_end - first - 16 * from);
    UNROLL
    for (int r = 0; r < 2; r++) {
        const int row = (lane() >> 2) + 8 * r;
        const float base = statistics[strip_of_warp() * STRIP + row] * -LOG2E;
        const float delta = statistics[BLOCK + strip_of_warp() * STRIP + row];
        sr_u32x4 words = {};
        if (DROP) words = drop_words(c.drop, strip, strip.position + row, first, head);
        if (from > 0) words = sr_u32x4{{words.w[2], words.w[3], 0, 0}};
        UNROLL
        for (int n = 0; n < 2 * N; n++) {
            float kept[2], derivative[2];
            UNROLL
            for (int e = 0; e < 2; e++) {
                const float x = exp2_fast(fmaf(s[n][2 * r + e], factor, base));
                const bool keep = !DROP || is_kept(words, n, e, c.drop.keep);
                kept[e] = keep ? x : 0.0f;
                derivative[e] = x * (keep ? fmaf(dp[n][2 * r + e], c.drop.scale, -delta) : -delta);
            }
            if (PUT) put_pair(p, pack2_bf16(kept[0], kept[1]), r, 2 * from + n);
            put_pair(ds, pack2_bf16(derivative[0], derivative[1]), r, 2 * from + n);
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

/* dq (16, WIDTH) = ds k for the warp's strip and columns. */
template <int D>
DEV void multiply_keys(float (&dq)[shape<D>::WIDTH / 8][4], shared<bf16> ds, shared<bf16> keys,
                       strip_range range) {
    constexpr int N = shape<D>::WIDTH / 16;
    clear(dq);
    UNROLL
    for (int k = 0; k < 4; k++) {
        if (k < range.from || k >= range.to) continue;
        uint32_t a[4];
        load_a<BLOCK>(a, ds, strip_of_warp() * STRIP, k);
        UNROLL
        for (int n = 0; n < N; n++) {
            uint32_t b[4];
            load_b_trans<D>(b, keys, 16 * k, group_of_warp() * N + n);
            multiply_pair(dq[2 * n], dq[2 * n + 1], a, b);
        }
    }
}

/* dv += P^T dout, dk += dS^T q for the warp's 16 keys and columns, over the strips of queries of
 * its sequence. */
template <int D>
DEV void add_keys(float (&dk)[shape<D>::WIDTH / 8][4], float (&dv)[shape<D>::WIDTH / 8][4],
                  shared<bf16> p, shared<bf16> ds, shared<bf16> q, shared<bf16> dout,
                  strip_range range) {
    constexpr int N = shape<D>::WIDTH / 16;
    UNROLL
    for (int k = 0; k < 4; k++) {
        if (k < range.from || k >= range.to) continue;
        uint32_t a[4], da[4];
        load_a_trans<BLOCK>(a, p, 16 * k, strip_of_warp());
        load_a_trans<BLOCK>(da, ds, 16 * k, strip_of_warp());
        UNROLL
        for (int n = 0; n < N; n++) {
            uint32_t b[4];
            load_b_trans<D>(b, dout, 16 * k, group_of_warp() * N + n);
            multiply_pair(dv[2 * n], dv[2 * n + 1], a, b);
            load_b_trans<D>(b, q, 16 * k, group_of_warp() * N + n);
            multiply_pair(dk[2 * n], dk[2 * n + 1], da, b);
        }
    }
}

/* Adds what earlier blocks of keys contributed to dQ, and keeps the sum for the next ones; a thread
 * touches only its own values. */
template <int N, int THREADS>
DEV void keep_sum(float (&dq)[N][4], global<float> sums, bool first, bool last) {
    UNROLL
    for (int n = 0; n < N; n++) {
        const size_t at = (size_t)((n * THREADS + thread()) * 4);
        if (!first) {
            const vec16 sum = load16(sums, at);
            UNROLL
            for (int e = 0; e < 4; e++) dq[n][e] += bits_float(sum.w[e]);
        }
        if (!last) store16(sums, at, pack(dq[n]));
    }
}

/* What a block of the kernel below leaves at last: of how many times 64 rows, and the sums of
 * number `at`.  All that it needs it finds anew, so that nothing is in registers for it before. */
template <bool LOCAL> DEV int parts_of_block(const call &c, const jobs &w) {
    const job j = job_of<LOCAL>(w, c, block_x_again());
    return j.keys || j.queries ? 1 : (keys_of(j.tile).count + BLOCK - 1) / BLOCK;
}

template <int D, bool LOCAL>
DEV void leave_sums(const call &c, const jobs &w, const tensors &t, int at) {
    const job j = job_of<LOCAL>(w, c, block_x_again());
    const row_map map = keys_of(j.tile);
    const size_t hidden = (size_t)c.heads * D, stride = 3 * hidden;
    const size_t q = (size_t)(j.head * D), k = q + hidden, v = k + hidden;
    global<float> part = t.parts + (size_t)(j.part + at) * stride;
    const int first = j.keys || j.queries ? j.tile[0].strip[0].position : at * BLOCK;
    const int end = first + BLOCK < map.count ? first + BLOCK : map.count;
    if (j.queries)
        write_sums<D, 1, shape<D>::THREADS>(part, t.dqkv, {q}, stride, map, first, end);
    else if (j.keys)
        write_sums<D, 2, shape<D>::THREADS>(part, t.dqkv, {k, v}, stride, map, first, end);
    else
        write_sums<D, 3, shape<D>::THREADS>(part, t.dqkv, {q, k, v}, stride, map, first, end);
}

/* ---- owner, and keys of a split sequence ----------------------------------------------------- */

/* split: the tile is a block of keys, delta is given, and dQ is left out. */
template <int D, bool DROP, bool LOCAL>
DEV void backward_keys(const call &c, global<const sr_tile> tile, int head, bool split,
                       const tensors &t) {
    typedef shape<D> S;
    constexpr int TILE = S::TILE, W = S::WIDTH;
    shared<bf16> keys = shared_at<bf16>(0, TILE), values = shared_at<bf16>(TILE * 2, TILE);
    shared<bf16> q = shared_at<bf16>(2 * TILE * 2, 2 * TILE),
                 dout = shared_at<bf16>(4 * TILE * 2, 2 * TILE);
    shared<bf16> p = shared_at<bf16>(S::P, S::SQUARE), ds = shared_at<bf16>(S::DS, S::SQUARE);
    shared<float> statistics = shared_at<float>(S::STATISTICS, 4 * BLOCK);
    shared<bf16> room = shared_at<bf16>(S::ROOM + warp() * STRIP * W * 2, STRIP * W);

    const int members = LOCAL ? members_of(c) : 1;
    const row_map map = keys_of(tile); /* of queries, too */
    const size_t hidden = (size_t)c.heads * D, column = (size_t)(head * D);
    const columns own_columns = LOCAL ? columns_of(c, head, D) : columns{};
    const size_t stride = LOCAL ? own_columns.stride : 3 * hidden;
    const size_t k = LOCAL ? own_columns.k : hidden + column;
    const size_t v = LOCAL ? own_columns.v : 2 * hidden + column;
    global<bf16> to = t.dqkv + (size_t)(group_of_warp() * W);
    const int blocks = (map.count + BLOCK - 1) / BLOCK;
    const int begin = split ? tile[0].strip[0].position / BLOCK : 0;
    const int end = split ? begin + 1 : blocks;

    for (int j = begin; j < end; j++) {
        const int first = j * BLOCK;
        block_range seers = {0, blocks};
        if (LOCAL && !map.group) seers = blocks_seen(first, BLOCK, c.after, c.before, blocks);
        const int count = seers.to - seers.from, visits = LOCAL ? count * members : count;
        float dk[W / 8][4], dv[W / 8][4];
        clear(dk);
        clear(dv);
        copy_rows<D, BLOCK, S::THREADS>(keys, t.qkv + k, stride, map, first);
        copy_rows<D, BLOCK, S::THREADS>(values, t.qkv + v, stride, map, first);
        copy_rows<D, BLOCK, S::THREADS>(q, t.qkv + column, stride, map, seers.from * BLOCK);
        copy_rows<D, BLOCK, S::THREADS>(dout, t.dout + column, hidden, map, seers.from * BLOCK);
        cp_commit();
        if (j == begin && !split) {
            for (int m = 0; m < members; m++) {
                const size_t from = column + (size_t)(m * D);
                write_deltas<D, S::THREADS>(t.delta + (size_t)(head + m) * c.rows, t.dout + from,
                                            t.out + from, hidden, map, map.count);
            }
            barrier();
        }
        put_statistic(statistics,
                      row_statistic(t.lse + (size_t)head * c.rows, t.delta + (size_t)head * c.rows,
                                    map, seers.from * BLOCK));
        for (int x = 0; x < visits; x++) {
            const int m = LOCAL ? x / count : 0, i = LOCAL ? seers.from + x % count : x;
            const int row = i * BLOCK, stage = (x & 1) * TILE, other = ((x + 1) & 1) * TILE;
            const size_t from = column + (size_t)(m * D);
            float next = 0.0f;
            if (x + 1 < visits) {
                const bool turn = LOCAL && i + 1 == seers.to; /* to the next member */
                const int then = turn ? seers.from * BLOCK : row + BLOCK;
                const size_t next_from = turn ? from + D : from;
                const size_t line = (size_t)(head + m + (turn ? 1 : 0)) * c.rows;
                copy_rows<D, BLOCK, S::THREADS>(q + other, t.qkv + next_from, stride, map, then);
                copy_rows<D, BLOCK, S::THREADS>(dout + other, t.dout + next_from, hidden, map,
                                                then);
                cp_commit();
                next = row_statistic(t.lse + line, t.delta + line, map, then);
                cp_wait<1>();
            } else {
                cp_wait<0>();
            }
            barrier();
            const sr_strip strip = strip_at(map, row + strip_of_warp() * STRIP);
            if (strip.rows > 0)
                derivatives<D, DROP, true, LOCAL>(p, ds, c, strip, first, head + m,
                                                  statistics + (x & 1) * 2 * BLOCK, q + stage,
                                                  dout + stage, keys, values);
            put_statistic(statistics + ((x + 1) & 1) * 2 * BLOCK, next);
            barrier();
            if (strip.rows > 0 && !split) {
                float dq[W / 8][4];
                multiply_keys<D>(dq, ds, keys, strips_of(map.group, strip, map.count - first));
                block_range seen = {0, blocks};
                if (LOCAL && !map.group) seen = blocks_seen(row, BLOCK, c.before, c.after, blocks);
                if (blocks > 1)
                    keep_sum<W / 8, S::THREADS>(
                        dq, t.sums + ((size_t)(tile[0].block + i) * hidden + from) * BLOCK,
                        j == seen.from, j + 1 == seen.to);
                if (j + 1 == seen.to)
                    store_strip<W>(room, dq, c.scale, c.scale,
                                   to + ((size_t)strip.row * stride + from), stride, strip.rows);
            }
            const sr_strip own = strip_at(map, first + strip_of_warp() * STRIP);
            if (own.rows > 0)
                add_keys<D>(dk, dv, p, ds, q + stage, dout + stage,
                            strips_of(map.group, own, map.count - row));
            barrier();
        }
        const sr_strip own = strip_at(map, first + strip_of_warp() * STRIP);
        if (own.rows > 0) {
            global<bf16> at = to + (size_t)own.row * stride;
            store_strip<W>(room, dk, c.scale, c.scale, at + k, stride, own.rows);
            store_strip<W>(room, dv, c.drop.scale, c.drop.scale, at + v, stride, own.rows);
        }
    }
}

/* ---- queries of a split sequence ------------------------------------------------------------- */

template <int D> KERNEL(THREADS, 8) void deltas(call c, work w, tensors t) {
    const int head = block_x() % c.heads;
    const row_map map = queries_of(tile_of(w, block_x() / c.heads));
    const size_t column = (size_t)(head * D);
    write_deltas<D, THREADS>(t.delta + (size_t)head * c.rows, t.dout + column, t.out + column,
                             (size_t)c.heads * D, map, map.count);
}

template <int D, bool DROP, bool LOCAL>
DEV void backward_queries(const call &c, global<const sr_tile> tile, int head, const tensors &t) {
    typedef shape<D> S;
    constexpr int TILE = S::TILE, W = S::WIDTH;
    shared<bf16> q = shared_at<bf16>(0, TILE), dout = shared_at<bf16>(TILE * 2, TILE);
    shared<bf16> keys = shared_at<bf16>(2 * TILE * 2, 2 * TILE);
    shared<bf16> values = shared_at<bf16>(4 * TILE * 2, 2 * TILE);
    shared<bf16> ds = shared_at<bf16>(S::DS, S::SQUARE);
    shared<float> statistics = shared_at<float>(S::STATISTICS, 2 * BLOCK);
    shared<bf16> room = shared_at<bf16>(S::ROOM + warp() * STRIP * W * 2, STRIP * W);

    const row_map queries = queries_of(tile), columns = keys_of(tile);
    const size_t hidden = (size_t)c.heads * D;
    const attention::columns at = LOCAL ? columns_of(c, head, D) : attention::columns{};
    const size_t stride = LOCAL ? at.stride : 3 * hidden;
    const size_t column = (size_t)(head * D), line = (size_t)head * c.rows;
    global<const bf16> from = t.qkv + column;
    global<const bf16> from_k = LOCAL ? t.qkv + at.k : from + hidden;
    global<const bf16> from_v = LOCAL ? t.qkv + at.v : from + 2 * hidden;
    block_range range = {0, (columns.count + BLOCK - 1) / BLOCK};
    if (LOCAL) range = blocks_seen(tile[0].strip[0].position, BLOCK, c.before, c.after, range.to);
    const int begin = LOCAL ? range.from : 0, blocks = range.to, entry = (begin & 1) * TILE;
    const sr_strip strip = strip_at(queries, strip_of_warp() * STRIP);

    float sum[W / 8][4];
    clear(sum);
    copy_rows<D, BLOCK, S::THREADS>(q, from, stride, queries, 0);
    copy_rows<D, BLOCK, S::THREADS>(dout, t.dout + column, hidden, queries, 0);
    copy_rows<D, BLOCK, S::THREADS>(keys + entry, from_k, stride, columns, begin * BLOCK);
    copy_rows<D, BLOCK, S::THREADS>(values + entry, from_v, stride, columns, begin * BLOCK);
    cp_commit();
    put_statistic(statistics, row_statistic(t.lse + line, t.delta + line, queries, 0));
    for (int j = begin; j < blocks; j++) {
        const int first = j * BLOCK, stage = (j & 1) * TILE, other = ((j + 1) & 1) * TILE;
        if (j + 1 < blocks) {
            copy_rows<D, BLOCK, S::THREADS>(keys + other, from_k, stride, columns, first + BLOCK);
            copy_rows<D, BLOCK, S::THREADS>(values + other, from_v, stride, columns, first + BLOCK);
            cp_commit();
            cp_wait<1>();
        } else {
            cp_wait<0>();
        }
        barrier();
        if (strip.rows > 0)
            derivatives<D, DROP, false, LOCAL>({}, ds, c, strip, first, head, statistics, q, dout,
                                               keys + stage, values + stage);
        barrier();
        if (strip.rows > 0) {
            float dq[W / 8][4];
            multiply_keys<D>(dq, ds, keys + stage, strips_of(false, strip, columns.count - first));
            UNROLL
            for (int n = 0; n < W / 8; n++) {
                UNROLL
                for (int e = 0; e < 4; e++)
                    sum[n][e] = j == begin ? dq[n][e] : sum[n][e] + dq[n][e];
            }
        }
        barrier();
    }
    if (strip.rows > 0)
        store_strip<W>(room, sum, c.scale, c.scale,
                       t.dqkv +
                           ((size_t)strip.row * stride + column + (size_t)(group_of_warp() * W)),
                       stride, strip.rows);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Blocks that share a processor: what their registers and shared memory leave room for. */
constexpr int blocks_at_once(int d, bool local) {
    return d > 64 || (d == 64 && local) ? 1 : 2;
}

template <int D, bool DROP, bool LOCAL>
KERNEL(shape<D>::THREADS, blocks_at_once(D, LOCAL))
void backward(call c, jobs w, slack_rows slack, tensors t) {
    if (block_x() >= slack.from) {
        const int row = slack_row(slack, shape<D>::THREADS / 32);
        if (row >= 0) clear_row(t.dqkv, row, (c.heads + 2 * c.kv_heads) * D);
        return;
    }
    const job j = job_of<LOCAL>(w, c, block_x());
    if (j.queries)
        backward_queries<D, DROP, LOCAL>(c, j.tile, j.head, t);
    else
        backward_keys<D, DROP, LOCAL>(c, j.tile, j.head, j.keys, t);
    if (!t.parts) return;
    for (int i = parts_of_block<LOCAL>(c, w) - 1; i >= 0; i--) leave_sums<D, LOCAL>(c, w, t, i);
}

} // namespace attention

/* ---- launches -------------------------------------------------------------------------------- */

using namespace attention;

static const char op[] = "attention_backward";

/* Whether any of the sequences from `from` on has more than one block. */
static bool needs_sums(const sr_tiles *list, int32_t from) {
    return from < list->owners.count && list->tile[list->owners.first + from].rows > SR_TILE_ROWS;
}

/* Rows that a row sees at most. */
static int64_t reach_of(const call &c) {
    return (int64_t)c.before + c.after + 1;
}

/* dbias += the parts of all tiles. */
static sr_status add_tiles(const attention_job *j, global<const float> parts, int tiles) {
    const int columns = (int)j->dqkv->shape[1];
    const part_sums sums = {{out<float>(j->dbias)}, parts, nullptr, tiles, columns, columns};
    return add_parts(j->g, op, &sums);
}

static jobs jobs_of(const attention_job *j, const attention_tiles *tiles, const sr_split *split) {
    const sr_tiles *list = tiles->list;
    const int heads = j->call.heads, kv_heads = j->call.kv_heads;
    jobs w = {gpu_pointer(tiles->tile, (size_t)list->count),
              list->owners.first + split->sequences,
              list->blocks.first,
              split->blocks,
              list->blocks.count - (list->owners.count - split->sequences),
              0,
              0,
              0};
    w.keys = split->before * kv_heads;
    w.queries = w.keys + split->blocks * kv_heads;
    w.rest = w.queries + split->blocks * heads;
    return w;
}

template <int D, bool DROP, bool LOCAL>
static sr_status launch_all(const attention_job *j, const attention_tiles *tiles,
                            const sr_split *split, const tensors &t) {
    typedef shape<D> S;
    const sr_tiles *list = tiles->list;
    const jobs w = jobs_of(j, tiles, split);
    const int rest = list->owners.count - split->sequences - split->before + list->groups.count;
    const size_t blocks = (size_t)w.rest + (size_t)rest * (size_t)j->call.kv_heads;
    const slack_rows slack = attention_slack(tiles, blocks);
    const work split_ones = {w.tiles, w.blocks, w.split, 0};
    SR_TRY(launch(j->g, op, deltas<D>, dim((size_t)w.split * (size_t)j->call.heads), THREADS, 0,
                  j->call, split_ones, t));
    return launch(j->g, op, backward<D, DROP, LOCAL>,
                  dim(blocks + ceil_div((size_t)slack.count, S::THREADS / 32)), S::THREADS,
                  S::BYTES, j->call, w, slack, t);
}

template <int D, bool DROP, bool LOCAL>
static sr_status run(const attention_job *j, attention_tiles *tiles) {
    const sr_tiles *list = tiles->list;
    const size_t heads = (size_t)j->call.heads;
    sr_split split;
    SR_TRY(attention_split(&split, tiles, j, j->g->processors * blocks_at_once(D, LOCAL),
                           reach_of(j->call)));
    tensors t = {out<bf16>(j->dqkv), nullptr,          nullptr,           nullptr,
                 in<bf16>(j->qkv),   in<bf16>(j->out), in<bf16>(j->dout), in<float>(j->lse)};
    const int32_t parts = list->blocks.count + list->groups.count; /* however they are split */
    const bool sums = j->dbias != nullptr && parts > 0;
    SR_TRY(scratch(&t.delta, j->g, 0, heads * j->call.rows));
    if (needs_sums(list, split.sequences))
        SR_TRY(scratch(&t.sums, j->g, 1, (size_t)list->blocks.count * heads * (size_t)(BLOCK * D)));
    if (sums)
        SR_TRY(scratch(&t.parts, j->g, SCRATCH_PARTS, (size_t)parts * (size_t)j->dqkv->shape[1]));
    SR_TRY((launch_all<D, DROP, LOCAL>(j, tiles, &split, t)));
    return sums ? add_tiles(j, t.parts, parts) : SR_OK;
}

template <int D> static sr_status choose(const attention_job *j, attention_tiles *tiles) {
    const bool drops = j->call.drop.keep < 256;
    if (is_local(j->call))
        return drops ? run<D, true, true>(j, tiles) : run<D, false, true>(j, tiles);
    return drops ? run<D, true, false>(j, tiles) : run<D, false, false>(j, tiles);
}

size_t attention_shared_bytes(int d) { /* the forward kernels need less */
    return d == 32 ? shape<32>::BYTES : d == 64 ? shape<64>::BYTES : shape<128>::BYTES;
}

sr_status attention_backward(const attention_job *j) {
    attention_tiles *tiles;
    SR_TRY(attention_tiles_of(&tiles, j->layout, j->g->device));
    if (j->d == 32) return choose<32>(j, tiles);
    if (j->d == 64) return choose<64>(j, tiles);
    return choose<128>(j, tiles);
}

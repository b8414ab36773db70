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
 * Dropout   each decision is drawn once, in the phase after the one that reads those before it, and
 *           is in shared memory for both halves
 * Order     dQ is the sum over blocks of 64 keys, in order, of products that start at zero, in both
 *           modes: they give the same bits.
 * Bias      where it is wanted, and no heads share keys, a block at last reads its rows of dQ, dK
 *           and dV again, from the L2 cache, and leaves their sums, which sums.cu adds up in order:
 *           while it computes, registers are too few.
 */
#include "kernels/cuda/attention_strip.cuh"
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

/* ---- lse and delta of 64 rows ---------------------------------------------------------------- */

/* One of the threads 0 to 127: half of them load lse, for base 2, the others delta; zero where
 * there is no row, so that its products with rows of zeros are zero. */
template <bool GROUP>
DEV float row_statistic(global<const float> lse, global<float> delta, const row_map<GROUP> &map,
                        int first) {
    bool valid;
    const int row = row_of(map, first + thread() % BLOCK, valid);
    if (!valid || thread() >= 2 * BLOCK) return 0.0f;
    if (thread() < BLOCK) return lse[row] * -LOG2E;
    return delta[row]; /* of this block, too: not a load of constant memory */
}

DEV void put_statistic(shared<float> to, float x) {
    if (thread() < 2 * BLOCK) to[thread()] = x;
}

/* delta = <dout, out> of rows 0 .. count - 1 of a head. */
template <int D, int THREADS, bool GROUP>
DEV void write_deltas(global<float> delta, global<const bf16> dout, global<const bf16> out,
                      int stride, const row_map<GROUP> &map) {
    constexpr int LANES = D / 8, STEP = THREADS / LANES; /* lanes per row, rows at a time */
    const int chunk = thread() % LANES;
    for (int first = 0; first < map.count; first += STEP) {
        bool valid;
        const int row = row_of(map, first + thread() / LANES, valid);
        const size_t at = offset(row, stride) + (size_t)(chunk * 8);
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

/* ---- results --------------------------------------------------------------------------------- */

/* dq (16, WIDTH) = ds k for the warp's strip and columns. */
template <int D>
DEV void multiply_keys(float (&dq)[shape<D>::WIDTH / 8][4], const lane_at<D> &at, shared<bf16> ds,
                       shared<bf16> keys, strip_range range) {
    clear(dq);
    UNROLL
    for (int k = 0; k < 4; k++) {
        if (k < range.from || k >= range.to) continue;
        uint32_t a[4];
        ldmatrix4(a, ds + at.square + ahead<BLOCK>(k));
        UNROLL
        for (int n = 0; n < shape<D>::WIDTH / 16; n++) {
            uint32_t b[4];
            ldmatrix4_trans(b, keys + at.part + ahead<D>(n) + 16 * k * D);
            multiply_pair(dq[2 * n], dq[2 * n + 1], a, b);
        }
    }
}

/* dv += P^T dout, dk += dS^T q for the warp's 16 keys and columns, over the strips of queries of
 * its sequence. */
template <int D>
DEV void add_keys(float (&dk)[shape<D>::WIDTH / 8][4], float (&dv)[shape<D>::WIDTH / 8][4],
                  const lane_at<D> &at, shared<bf16> p, shared<bf16> ds, shared<bf16> q,
                  shared<bf16> dout, strip_range range) {
    UNROLL
    for (int k = 0; k < 4; k++) {
        if (k < range.from || k >= range.to) continue;
        uint32_t a[4], da[4];
        ldmatrix4_trans(a, p + at.transposed + 16 * k * BLOCK);
        ldmatrix4_trans(da, ds + at.transposed + 16 * k * BLOCK);
        UNROLL
        for (int n = 0; n < shape<D>::WIDTH / 16; n++) {
            uint32_t b[4];
            ldmatrix4_trans(b, dout + at.part + ahead<D>(n) + 16 * k * D);
            multiply_pair(dv[2 * n], dv[2 * n + 1], a, b);
            ldmatrix4_trans(b, q + at.part + ahead<D>(n) + 16 * k * D);
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
    const job j = job_of<LOCAL>(w, c, again(block_x()));
    return j.keys || j.queries ? 1 : (j.tile[0].keys + BLOCK - 1) / BLOCK;
}

template <int D, bool LOCAL, bool GROUP>
DEV void leave_sums(const call &c, const jobs &w, const tensors &t, int number) {
    const job j = job_of<LOCAL>(w, c, again(block_x()));
    const row_map<GROUP> map = keys_of<GROUP>(j.tile);
    const columns at = columns_of<LOCAL>(c, j.head, D);
    global<float> part = t.parts + offset(j.part + number, at.stride);
    const bool split = !GROUP && (j.keys || j.queries);
    const int first = split ? j.tile[0].strip[0].position : number * BLOCK;
    const int end = first + BLOCK < map.count ? first + BLOCK : map.count;
    if (split && j.queries)
        write_sums<D, 1, shape<D>::THREADS>(part, t.dqkv, {at.q}, at.stride, map, first, end);
    else if (split)
        write_sums<D, 2, shape<D>::THREADS>(part, t.dqkv, {at.k, at.v}, at.stride, map, first, end);
    else
        write_sums<D, 3, shape<D>::THREADS>(part, t.dqkv, {at.q, at.k, at.v}, at.stride, map, first,
                                            end);
}

/* ---- owner, and keys of a split sequence ----------------------------------------------------- */

/* split: the tile is a block of keys, delta is given, and dQ is left out. */
template <int D, bool DROP, bool LOCAL, bool GROUP>
DEV void backward_keys(const call &c, global<const sr_tile> tile, int own, bool split,
                       const tensors &t) {
    typedef shape<D> S;
    constexpr int TILE = S::TILE, W = S::WIDTH;
    shared<bf16> keys = tile_at<D>(0, 1), values = tile_at<D>(1, 1), q = tile_at<D>(2, 2);
    shared<bf16> dout = tile_at<D>(4, 2);
    shared<bf16> p = shared_at<bf16>(S::P, S::SQUARE), ds = shared_at<bf16>(S::DS, S::SQUARE);
    shared<float> statistics = shared_at<float>(S::STATISTICS, 4 * BLOCK);
    shared<uint32_t> words = shared_at<uint32_t>(S::WORDS, S::SQUARE / 4);
    shared<bf16> room = shared_at<bf16>(S::ROOM + warp() * STRIP * W * 2, STRIP * W);

    const int members = LOCAL ? members_of(c) : 1;
    const row_map<GROUP> map = keys_of<GROUP>(tile); /* of queries, too */
    const int hidden = c.heads * D;
    const int blocks = GROUP ? 1 : (map.count + BLOCK - 1) / BLOCK;
    const int begin = split ? tile[0].strip[0].position / BLOCK : 0, block = tile[0].block;
    const int end = split ? begin + 1 : blocks;

    const lane_at<D> places = lane_places<D>();
    for (int j = begin; j < end; j++) {
        const int first = j * BLOCK, head = again(own); /* or registers hold what follows from it */
        const columns at = columns_of<LOCAL>(c, head, D);
        const block_range seers =
            blocks_seen < LOCAL && !GROUP > (first, BLOCK, c.after, c.before, blocks);
        const int count = seers.to - seers.from, visits = LOCAL ? count * members : count;
        const int start = DROP ? seers.from * BLOCK : again(seers.from * BLOCK);
        float dk[W / 8][4], dv[W / 8][4];
        clear(dk);
        clear(dv);
        copy_rows<D, BLOCK, S::THREADS>(keys, t.qkv + at.k, at.stride, map, first);
        copy_rows<D, BLOCK, S::THREADS>(values, t.qkv + at.v, at.stride, map, first);
        copy_rows<D, BLOCK, S::THREADS>(q, t.qkv + at.q, at.stride, map, start);
        copy_rows<D, BLOCK, S::THREADS>(dout, t.dout + at.q, hidden, map, start);
        cp_commit();
        if (j == begin && !split) {
            for (int m = 0; m < members; m++) {
                const size_t from = (size_t)(at.q + m * D);
                write_deltas<D, S::THREADS>(t.delta + (size_t)(head + m) * c.rows, t.dout + from,
                                            t.out + from, hidden, map);
            }
            barrier();
        }
        global<const float> lse = t.lse + (size_t)head * c.rows;
        global<float> delta = t.delta + (size_t)head * c.rows;
        put_statistic(statistics, row_statistic(lse, delta, map, start));
        sr_strip strip = strip_at(map, start + strip_of_warp() * STRIP);
        if (DROP) draw_words<D>(words, c, strip, first, head);
        cp_wait<0>();
        barrier();
        for (int x = 0, m = 0, i = seers.from; x < visits; x++) {
            const int stage = (x & 1) * TILE, statistic = (x & 1) * 2 * BLOCK;
            const int now = i, from = at.q + m * D;
            const bool active = strip.rows > 0;
            const sr_strip rows = strip;
            float next = 0.0f;
            if (++i == seers.to && LOCAL) i = seers.from, m++;
            if (x + 1 < visits) {
                const size_t then = (size_t)(at.q + m * D), line = (size_t)m * c.rows;
                copy_rows<D, BLOCK, S::THREADS>(q + (TILE - stage), t.qkv + then, at.stride, map,
                                                i * BLOCK);
                copy_rows<D, BLOCK, S::THREADS>(dout + (TILE - stage), t.dout + then, hidden, map,
                                                i * BLOCK);
                cp_commit();
                next = row_statistic(lse + line, delta + line, map, i * BLOCK);
                strip = strip_at(map, i * BLOCK + strip_of_warp() * STRIP);
            }
            if (active)
                derivatives<D, DROP, true, LOCAL, GROUP>(p, ds, places, c, rows, first, words,
                                                         statistics + statistic, q + stage,
                                                         dout + stage, keys, values);
            put_statistic(statistics + (2 * BLOCK - statistic), next);
            barrier();
            if (DROP && x + 1 < visits) draw_words<D>(words, c, strip, first, head + m);
            if (active && !split) {
                float dq[W / 8][4];
                multiply_keys<D>(dq, places, ds, keys, strips_of<GROUP>(rows, map.count - first));
                const block_range seen =
                    blocks_seen < LOCAL && !GROUP > (now * BLOCK, BLOCK, c.before, c.after, blocks);
                if (blocks > 1)
                    keep_sum<W / 8, S::THREADS>(
                        dq, t.sums + (offset(block + now, hidden) + (size_t)from) * BLOCK,
                        j == seen.from, j + 1 == seen.to);
                if (j + 1 == seen.to)
                    store_strip<W>(room, dq, c.scale, c.scale, t.dqkv,
                                   offset(rows.row, at.stride) +
                                       (size_t)(from + again(group_of_warp()) * W),
                                   at.stride, rows.rows);
            }
            const sr_strip column = strip_at(map, first + strip_of_warp() * STRIP);
            if (column.rows > 0)
                add_keys<D>(dk, dv, places, p, ds, q + stage, dout + stage,
                            strips_of<GROUP>(column, map.count - now * BLOCK));
            cp_wait<0>();
            barrier();
        }
        const int part = again(group_of_warp()) * W;
        const sr_strip column = strip_at(map, first + again(strip_of_warp()) * STRIP);
        if (column.rows > 0) {
            const size_t row = offset(column.row, at.stride) + (size_t)part;
            store_strip<W>(room, dk, c.scale, c.scale, t.dqkv, row + (size_t)at.k, at.stride,
                           column.rows);
            store_strip<W>(room, dv, c.drop.scale, c.drop.scale, t.dqkv, row + (size_t)at.v,
                           at.stride, column.rows);
        }
    }
}

/* ---- queries of a split sequence ------------------------------------------------------------- */

template <int D> KERNEL(THREADS, 8) void deltas(call c, work w, tensors t) {
    const int head = block_x() % c.heads;
    const row_map<false> map = queries_of<false>(tile_of(w, block_x() / c.heads));
    const size_t column = (size_t)(head * D);
    write_deltas<D, THREADS>(t.delta + (size_t)head * c.rows, t.dout + column, t.out + column,
                             c.heads * D, map);
}

template <int D, bool DROP, bool LOCAL>
DEV void backward_queries(const call &c, global<const sr_tile> tile, int head, const tensors &t) {
    typedef shape<D> S;
    constexpr int TILE = S::TILE, W = S::WIDTH;
    shared<bf16> q = tile_at<D>(0, 1), dout = tile_at<D>(1, 1), keys = tile_at<D>(2, 2);
    shared<bf16> values = tile_at<D>(4, 2);
    shared<bf16> ds = shared_at<bf16>(S::DS, S::SQUARE);
    shared<float> statistics = shared_at<float>(S::STATISTICS, 2 * BLOCK);
    shared<uint32_t> words = shared_at<uint32_t>(S::WORDS, S::SQUARE / 4);
    shared<bf16> room = shared_at<bf16>(S::ROOM + warp() * STRIP * W * 2, STRIP * W);

    const row_map<false> queries = queries_of<false>(tile), map = keys_of<false>(tile);
    const columns at = columns_of<LOCAL>(c, head, D);
    const size_t line = (size_t)head * c.rows;
    const block_range range = blocks_seen<LOCAL>(queries.top.position, BLOCK, c.before, c.after,
                                                 (map.count + BLOCK - 1) / BLOCK);
    const int begin = range.from, blocks = range.to, entry = (begin & 1) * TILE;
    const sr_strip strip = strip_at(queries, strip_of_warp() * STRIP);

    const lane_at<D> places = lane_places<D>();
    float sum[W / 8][4];
    clear(sum);
    copy_rows<D, BLOCK, S::THREADS>(q, t.qkv + at.q, at.stride, queries, 0);
    copy_rows<D, BLOCK, S::THREADS>(dout, t.dout + at.q, c.heads * D, queries, 0);
    copy_rows<D, BLOCK, S::THREADS>(keys + entry, t.qkv + at.k, at.stride, map, begin * BLOCK);
    copy_rows<D, BLOCK, S::THREADS>(values + entry, t.qkv + at.v, at.stride, map, begin * BLOCK);
    cp_commit();
    put_statistic(statistics, row_statistic(t.lse + line, t.delta + line, queries, 0));
    if (DROP) draw_words<D>(words, c, strip, begin * BLOCK, head);
    cp_wait<0>();
    barrier();
    for (int j = begin; j < blocks; j++) {
        const int first = j * BLOCK, stage = (j & 1) * TILE, then = first + BLOCK;
        if (j + 1 < blocks) {
            copy_rows<D, BLOCK, S::THREADS>(keys + (TILE - stage), t.qkv + at.k, at.stride, map,
                                            then);
            copy_rows<D, BLOCK, S::THREADS>(values + (TILE - stage), t.qkv + at.v, at.stride, map,
                                            then);
            cp_commit();
        }
        if (strip.rows > 0)
            derivatives<D, DROP, false, LOCAL, false>({}, ds, places, c, strip, first, words,
                                                      statistics, q, dout, keys + stage,
                                                      values + stage);
        barrier();
        if (DROP && j + 1 < blocks) draw_words<D>(words, c, strip, then, head);
        if (strip.rows > 0) {
            float dq[W / 8][4];
            multiply_keys<D>(dq, places, ds, keys + stage,
                             strips_of<false>(strip, map.count - first));
            UNROLL
            for (int n = 0; n < W / 8; n++) {
                UNROLL
                for (int e = 0; e < 4; e++)
                    sum[n][e] = j == begin ? dq[n][e] : sum[n][e] + dq[n][e];
            }
        }
        cp_wait<0>();
        barrier();
    }
    if (strip.rows > 0)
        store_strip<W>(room, sum, c.scale, c.scale, t.dqkv,
                       offset(strip.row, at.stride) + (size_t)(at.q + group_of_warp() * W),
                       at.stride, strip.rows);
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
    const bool group = is_group(j.tile);
    if (group)
        backward_keys<D, DROP, LOCAL, true>(c, j.tile, j.head, false, t);
    else if (j.queries)
        backward_queries<D, DROP, LOCAL>(c, j.tile, j.head, t);
    else
        backward_keys<D, DROP, LOCAL, false>(c, j.tile, j.head, j.keys, t);
    if (t.parts && group) leave_sums<D, LOCAL, true>(c, w, t, 0);
    if (!t.parts || group) return;
    for (int i = parts_of_block<LOCAL>(c, w) - 1; i >= 0; i--)
        leave_sums<D, LOCAL, false>(c, w, t, i);
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

/* attention_forward.cu - packed self-attention on tensor cores, forward.
 *
 * Shapes    qkv (T, A + 2 K, D), out (T, A, D) in 16 bits; lse (A, T) f32, natural log
 * Block     one tile of 64 M query rows and one head, 4 warps of 16 M rows; keys and values pass in
 *           blocks of 64 rows through two stages of shared memory
 * Local     kernels of windows, causal masks and shared key heads: a tile visits the blocks of keys
 *           that its rows see, with a mask of their own for each row
 * Work      4 D n^2 flops a head; per score element 1 FMA, 1 exp2, 1 max, 1 add and 5.5
 *           instructions of dropout
 * Traffic   8 D + 4 bytes per row and head, and every key block once per tile from the L2 cache
 * Numerics  online softmax on unscaled scores, the scale folded into the exponent; sums exclude
 *           dropout; exp is rounded to 16 bits before it meets the values; 1 / sum and 256 / keep
 *           are applied once to a row
 */
#include "kernels/cuda/attention.cuh"

namespace attention {

/* Bytes of shared memory of a block. */
template <int D, int M> constexpr int forward_bytes() {
    return (BLOCK * M + 4 * BLOCK) * D * 2;
}

/* Running softmax of two rows of a lane: row l / 4 and l / 4 + 8 of a strip. */
struct softmax {
    float most[2], sum[2];
};

/* s (16, 64) = q k^T for M strips. */
template <int D, int M>
DEV void scores(float (&s)[M][8][4], const uint32_t (&q)[M][D / 16][4], shared<bf16> keys) {
    UNROLL
    for (int m = 0; m < M; m++) clear(s[m]);
    UNROLL
    for (int k = 0; k < D / 16; k++) {
        UNROLL
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            ldmatrix4(b, keys + (across<D>() + 16 * n * D) + ahead<D>(k));
            UNROLL
            for (int m = 0; m < M; m++) multiply_pair(s[m][2 * n], s[m][2 * n + 1], q[m][k], b);
        }
    }
}

/* s = exp(s - maximum); rescales what was added up before.  LOCAL: a row may see nothing so far. */
template <int D, bool LOCAL>
DEV void exponentials(float (&s)[8][4], softmax &rows, float (&o)[D / 8][4], float factor) {
    UNROLL
    for (int r = 0; r < 2; r++) {
        float most = rows.most[r];
        UNROLL
        for (int n = 0; n < 8; n++) most = fmaxf(most, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
        most = fmaxf(most, shuffle_xor(most, 1));
        most = fmaxf(most, shuffle_xor(most, 2));
        const float base = LOCAL && most == -INFINITY ? 0.0f : most * factor;
        const float fade = exp2_fast(fmaf(rows.most[r], factor, -base));
        float sum = 0.0f;
        UNROLL
        for (int n = 0; n < 8; n++) {
            s[n][2 * r] = exp2_fast(fmaf(s[n][2 * r], factor, -base));
            s[n][2 * r + 1] = exp2_fast(fmaf(s[n][2 * r + 1], factor, -base));
            sum += s[n][2 * r] + s[n][2 * r + 1];
        }
        rows.most[r] = most;
        rows.sum[r] = fmaf(rows.sum[r], fade, sum);
        UNROLL
        for (int i = 0; i < D / 8; i++) {
            o[i][2 * r] *= fade;
            o[i][2 * r + 1] *= fade;
        }
    }
}

/* p = s in 16 bits, as the left operand of a product with values; what is dropped becomes 0. */
template <bool DROP>
DEV void round_kept(uint32_t (&p)[4][4], const float (&s)[8][4], const drop_site &site,
                    const sr_strip &strip, int first, int head) {
    UNROLL
    for (int r = 0; r < 2; r++) {
        sr_u32x4 words = {};
        if (DROP)
            words = drop_words(site, strip, strip.position + (lane() >> 2) + 8 * r, first, head);
        UNROLL
        for (int n = 0; n < 8; n++) {
            const uint32_t pair = pack2_bf16(s[n][2 * r], s[n][2 * r + 1]);
            const uint32_t kept = drop_signs(words.w[n / 2], site.keep);
            p[n / 2][n % 2 * 2 + r] = DROP ? pair & sign_halves(kept, n % 2) : pair;
        }
    }
}

/* o += p v, over the strips of values that hold the sequence. */
template <int D, int M>
DEV void add_values(float (&o)[M][D / 8][4], const uint32_t (&p)[M][4][4], shared<bf16> values,
                    strip_range range) {
    UNROLL
    for (int k = 0; k < 4; k++) {
        if (k < range.from || k >= range.to) continue;
        UNROLL
        for (int n = 0; n < D / 16; n++) {
            uint32_t b[4];
            ldmatrix4_trans(b, values + (down<D>() + ahead<D>(n)) + 16 * k * D);
            UNROLL
            for (int m = 0; m < M; m++) multiply_pair(o[m][2 * n], o[m][2 * n + 1], p[m][k], b);
        }
    }
}

/* Writes a strip of out and lse. */
template <int D>
DEV void finish(shared<bf16> room, const float (&o)[D / 8][4], softmax rows, const call &c,
                const sr_strip &strip, int head, global<bf16> out, global<float> lse) {
    float factor[2];
    UNROLL
    for (int r = 0; r < 2; r++) {
        float sum = rows.sum[r];
        sum += shuffle_xor(sum, 1);
        sum += shuffle_xor(sum, 2);
        factor[r] = c.drop.scale / sum;
        const int row = (lane() >> 2) + 8 * r;
        if ((lane() & 3) == 0 && row < strip.rows)
            lse[(size_t)head * c.rows + (size_t)(strip.row + row)] =
                fmaf(rows.most[r], c.scale, math_log(sum));
    }
    store_strip<D>(room, o, factor[0], factor[1], out,
                   offset(strip.row, c.heads * D) + (size_t)(head * D), c.heads * D, strip.rows);
}

/* A row of no sequence, where this warp has one: zeros, and infinity as its lse. */
template <int D>
DEV void clear_out(const call &c, const slack_rows &slack, global<bf16> out, global<float> lse) {
    const int row = slack_row(slack, WARPS);
    if (row < 0) return;
    clear_row(out, row, c.heads * D);
    for (int head = lane(); head < c.heads; head += 32)
        lse[(size_t)head * c.rows + (size_t)row] = INFINITY;
}

/* A tile, of one sequence or of a GROUP, which is one block of keys. */
template <int D, int M, bool DROP, bool LOCAL, bool GROUP>
DEV void forward_tile(const call &c, global<const sr_tile> tile, int head, global<bf16> out,
                      global<float> lse, global<const bf16> qkv) {
    constexpr int TILE = BLOCK * D;
    shared<bf16> q = shared_at<bf16>(0, TILE * M);
    shared<bf16> keys = shared_at<bf16>(TILE * M * 2, 2 * TILE);
    shared<bf16> values = shared_at<bf16>(TILE * (M + 2) * 2, 2 * TILE);
    const row_map<GROUP> queries = queries_of<GROUP>(tile), columns = keys_of<GROUP>(tile);
    const attention::columns at = columns_of<LOCAL>(c, head, D);
    const block_range range =
        blocks_seen < LOCAL && !GROUP > (queries.top.position, queries.count, c.before, c.after,
                                         GROUP ? 1 : (columns.count + BLOCK - 1) / BLOCK);
    const int begin = range.from, blocks = range.to;
    sr_strip strip[M];
    UNROLL
    for (int m = 0; m < M; m++) strip[m] = strip_at(queries, (warp() * M + m) * STRIP);
    const bool active = strip[0].rows > 0;

    uint32_t a[M][D / 16][4], p[M][4][4];
    float s[M][8][4], o[M][D / 8][4];
    softmax rows[M];
    UNROLL
    for (int m = 0; m < M; m++) {
        clear(o[m]);
        rows[m] = softmax{{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    }
    const int entry = (begin & 1) * TILE;
    copy_rows<D, BLOCK * M, THREADS>(q, qkv + at.q, at.stride, queries, 0);
    copy_rows<D, BLOCK, THREADS>(keys + entry, qkv + at.k, at.stride, columns, begin * BLOCK);
    copy_rows<D, BLOCK, THREADS>(values + entry, qkv + at.v, at.stride, columns, begin * BLOCK);
    cp_commit();
    cp_wait<0>();
    barrier();
    UNROLL
    for (int m = 0; m < M; m++) {
        UNROLL
        for (int k = 0; k < D / 16; k++)
            ldmatrix4(a[m][k], q + (down<D>() + (warp() * M + m) * STRIP * D) + ahead<D>(k));
    }
    for (int j = begin; j < blocks; j++) {
        const int first = j * BLOCK, stage = (j & 1) * TILE;
        if (j + 1 < blocks) {
            const int next = TILE - stage;
            copy_rows<D, BLOCK, THREADS>(keys + next, qkv + at.k, at.stride, columns,
                                         first + BLOCK);
            copy_rows<D, BLOCK, THREADS>(values + next, qkv + at.v, at.stride, columns,
                                         first + BLOCK);
            cp_commit();
        }
        if (active) {
            scores<D, M>(s, a, keys + stage);
            UNROLL
            for (int m = 0; m < M; m++) {
                if (LOCAL)
                    mask_unseen<4>(s[m], strip[m], c, first);
                else
                    mask_columns<4, GROUP>(s[m], strip[m], first);
                exponentials<D, LOCAL>(s[m], rows[m], o[m], c.scale * LOG2E);
                round_kept<DROP>(p[m], s[m], c.drop, strip[m], first, head);
            }
            add_values<D, M>(o, p, values + stage,
                             strips_of<GROUP>(strip[0], columns.count - first));
        }
        cp_wait<0>();
        barrier();
    }
    if (!active) return;
    UNROLL
    for (int m = 0; m < M; m++)
        if (strip[m].rows > 0)
            finish<D>(q + (warp() * M + m) * STRIP * D, o[m], rows[m], c, strip[m], head, out, lse);
}

/* M = 2 takes tiles of one sequence only. */
template <int D, int M, bool DROP, bool LOCAL>
KERNEL(THREADS, M == 2 || D > 64 ? 2 : 3)
void forward(call c, work w, slack_rows slack, global<bf16> out, global<float> lse,
             readonly<bf16> qkv) {
    if (M == 1 && block_x() >= slack.from) {
        clear_out<D>(c, slack, out, lse);
        return;
    }
    const int head = block_x() % c.heads;
    global<const sr_tile> tile = tile_of(w, block_x() / c.heads);
    if (M == 1 && is_group(tile))
        forward_tile<D, M, DROP, LOCAL, M == 1>(c, tile, head, out, lse, qkv);
    else
        forward_tile<D, M, DROP, LOCAL, false>(c, tile, head, out, lse, qkv);
}

} // namespace attention

/* ---- launches -------------------------------------------------------------------------------- */

using namespace attention;

/* Tiles of 64 M rows; those of 64 come last, and with them the rows of no sequence. */
template <int D, int M, bool LOCAL>
static sr_status run(const attention_job *j, const attention_tiles *tiles, sr_tile_run first,
                     sr_tile_run then) {
    const work w = {gpu_pointer(tiles->tile, (size_t)tiles->list->count), first.first, first.count,
                    then.first};
    const size_t blocks = (size_t)(first.count + then.count) * (size_t)j->call.heads;
    const slack_rows slack = attention_slack(tiles, blocks);
    const dim grid(blocks + (M == 1 ? ceil_div((size_t)slack.count, WARPS) : 0));
    return launch(j->g, "attention",
                  j->call.drop.keep < 256 ? forward<D, M, true, LOCAL>
                                          : forward<D, M, false, LOCAL>,
                  grid, THREADS, forward_bytes<D, M>(), j->call, w, slack, out<bf16>(j->out),
                  out<float>(j->lse), in<bf16>(j->qkv));
}

/* Two strips a warp halve the traffic of shared memory, if the registers suffice: not for heads of
 * 128, nor with a mask for each row, where short tiles also see less that is masked. */
template <int D, bool LOCAL>
static sr_status run_all(const attention_job *j, const attention_tiles *tiles) {
    const sr_tiles *list = tiles->list;
    if constexpr (D > 64 || LOCAL) {
        return run<D, 1, LOCAL>(j, tiles, list->blocks, list->groups);
    } else {
        SR_TRY((run<D, 2, LOCAL>(j, tiles, list->wide, sr_tile_run{0, 0})));
        return run<D, 1, LOCAL>(j, tiles, list->narrow, list->groups);
    }
}

template <int D> static sr_status choose(const attention_job *j, const attention_tiles *tiles) {
    return is_local(j->call) ? run_all<D, true>(j, tiles) : run_all<D, false>(j, tiles);
}

sr_status attention_forward(const attention_job *j) {
    attention_tiles *tiles;
    SR_TRY(attention_tiles_of(&tiles, j->layout, j->g->device));
    if (j->d == 32) return choose<32>(j, tiles);
    if (j->d == 64) return choose<64>(j, tiles);
    return choose<128>(j, tiles);
}

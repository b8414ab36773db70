/* attention.cuh - what the kernels of attention share, and their launches.
 *
 * A block of 4 warps works on one tile (core/batch/tiles.h) of one head, a warp on strips of 16
 * query rows against 64 keys at a time.  Products are made of m16n8k16 fragments: lane l holds the
 * columns 8 n + 2 (l % 4) + {0, 1} of rows l / 4 and l / 4 + 8, so that one draw of the generator
 * decides all 16 columns that it has of a row.
 *
 * The bits of a strip's results depend on its sequence alone: columns of other sequences are never
 * multiplied (their rows may hold NaN), and masked columns add exact zeros.
 */
#pragma once

#include "core/batch/tiles.h"
#include "core/tensor/layout_on.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/drop.cuh"

#ifdef SR_SIMT
#define UNROLL
#else
#define UNROLL _Pragma("unroll")
#endif

namespace attention {

enum { THREADS = 128, WARPS = 4, BLOCK = SR_TILE_ROWS, STRIP = SR_STRIP_ROWS };
enum { FAR = 1 << 30 }; /* rows: a layout has fewer */
constexpr float LOG2E = 1.44269504088896f;

/* The scalars of a call. */
struct call {
    int heads, kv_heads;
    int before, after; /* row i sees rows i - before .. i + after; FAR: all of them */
    size_t rows;       /* T */
    float scale;       /* of the scores; the fast kernels need one above 0 */
    drop_site drop;
};

/* The tiles of a launch, a block for each of them and each head, heads fastest: `count` tiles
 * from `first` on, then those from `next` on. */
struct work {
    global<const sr_tile> tiles;
    int first, count, next;
};

DEV global<const sr_tile> tile_of(const work &w, int item) {
    return w.tiles + (size_t)(item < w.count ? w.first + item : w.next + item - w.count);
}

/* Rows of no sequence, and the block from which on blocks clear them, a warp a row. */
struct slack_rows {
    global<const int32_t> row;
    int count, from;
};

/* The one that this warp of `warps` in the block clears; -1 if there is none. */
DEV int slack_row(const slack_rows &s, int warps) {
    const int item = (block_x() - s.from) * warps + warp();
    return item < s.count ? s.row[item] : -1;
}

template <class T> DEV void clear_row(global<T> x, int row, int width) {
    for (int i = lane() * 8; i < width; i += 32 * 8)
        store16(x, (size_t)row * (size_t)width + (size_t)i, vec16{{0, 0, 0, 0}});
}

/* How many query heads share a head of k and v. */
DEV int members_of(const call &c) {
    return c.heads / c.kv_heads;
}

/* Where in a row of qkv and dqkv a query head, of d columns, is, and the head of k and v that it
 * uses; LOCAL: which may be shared. */
struct columns {
    int stride, q, k, v; /* elements; of a row */
};

template <bool LOCAL> DEV columns columns_of(const call &c, int head, int d) {
    const int shared = LOCAL ? head / members_of(c) : head, kv_heads = LOCAL ? c.kv_heads : c.heads;
    return columns{(c.heads + 2 * kv_heads) * d, head * d, (c.heads + shared) * d,
                   (c.heads + kv_heads + shared) * d};
}

/* Elements from the first row on to row `row`. */
DEV size_t offset(int row, int stride) {
    return (size_t)((int64_t)row * stride);
}

/* ---- rows of the buffer ---------------------------------------------------------------------- */

/* Rows of a tile: of a GROUP those of its strips, else `count` of them from strip `top` on.  A
 * kernel has code of its own for groups, as their rows are looked up. */
template <bool GROUP> struct row_map {
    global<const sr_tile> tile;
    sr_strip top;
    int count;
};

DEV bool is_group(global<const sr_tile> tile) {
    return tile[0].key_row < 0;
}

template <bool GROUP> DEV row_map<GROUP> queries_of(global<const sr_tile> tile) {
    return row_map<GROUP>{tile, tile[0].strip[0], tile[0].rows};
}

template <bool GROUP> DEV row_map<GROUP> keys_of(global<const sr_tile> tile) {
    row_map<GROUP> map = {tile, tile[0].strip[0], tile[0].keys};
    map.top.position += tile[0].key_row - map.top.row;
    map.top.row = tile[0].key_row;
    return map;
}

/* Where row r is in the buffer, if it is `valid`. */
template <bool GROUP> DEV int row_of(const row_map<GROUP> &map, int r, bool &valid) {
    if (GROUP) {
        const int strip = r / STRIP, at = r % STRIP;
        valid = at < map.tile[0].strip[strip].rows;
        return map.tile[0].strip[strip].row + at;
    }
    valid = r < map.count;
    return map.top.row + r;
}

/* The strip at row r of the map (a multiple of 16); `rows` <= 0 when there is none. */
template <bool GROUP> DEV sr_strip strip_at(const row_map<GROUP> &map, int r) {
    if (GROUP) return map.tile[0].strip[r / STRIP];
    sr_strip s = map.top;
    s.position += r;
    s.row += r;
    s.rows = map.count - r < STRIP ? map.count - r : STRIP;
    s.key_begin = 0;
    return s;
}

/* The strips [from, to) among the four of a block that hold rows of the sequence of `s`: all of
 * it in a group, else what is left of `rows` in the block. */
struct strip_range {
    int from, to;
};

template <bool GROUP> DEV strip_range strips_of(const sr_strip &s, int rows) {
    if (GROUP) return strip_range{s.key_begin / STRIP, (s.key_end + STRIP - 1) / STRIP};
    return strip_range{0, (rows + STRIP - 1) / STRIP};
}

/* ---- what rows see --------------------------------------------------------------------------- */

/* Blocks of 64 rows of a sequence: from .. to - 1. */
struct block_range {
    int from, to;
};

/* Those that any of the rows row .. row + count - 1 sees, of `blocks`: with a MASK `before` back
 * and `after` on. */
template <bool MASK>
DEV block_range blocks_seen(int row, int count, int before, int after, int blocks) {
    if (!MASK) return block_range{0, blocks};
    const int to = (row + count - 1 + after) / BLOCK + 1;
    return block_range{row > before ? (row - before) / BLOCK : 0, to < blocks ? to : blocks};
}

/* ---- tiles in shared memory ------------------------------------------------------------------ */

/* The element where piece `chunk` (of 8) of a row begins.  Pieces are permuted, so that the same
 * piece of 8 rows is in 8 different groups of banks. */
template <int D> DEV int place(int row, int chunk) {
    const int turn = D == 32 ? row >> 1 & 3 : row & 7;
    return row * D + ((chunk ^ turn) << 3);
}

/* Begins to copy rows first .. first + COUNT - 1 of D elements, `stride` apart in memory; rows
 * that are not valid become zeros. */
template <int D, int COUNT, int THREADS, bool GROUP>
DEV void copy_rows(shared<bf16> to, global<const bf16> from, int stride, const row_map<GROUP> &map,
                   int first) {
    constexpr int CHUNKS = D / 8, STEP = THREADS / CHUNKS; /* STEP rows at a time */
    const int r = thread() / CHUNKS, chunk = thread() % CHUNKS;
    to = to + place<D>(r, chunk);
    from = from + (size_t)(chunk * 8);
    UNROLL
    for (int i = 0; i < COUNT / STEP; i++) {
        bool valid;
        const int row = row_of(map, first + r + i * STEP, valid);
        cp_async16(to + i * STEP * D, from + offset(row, stride), valid);
    }
}

/* Where a lane's piece of 16 rows is for ldmatrix4, and how far from there the piece 2 k later:
 *
 *   down      row l % 16, piece l / 16: a as it is, two b transposed
 *   across    row l % 8 + l / 16 * 8, piece l / 8 % 2: a transposed, two b as they are */
template <int D> DEV int down() {
    return place<D>(lane() & 15, lane() >> 4);
}
template <int D> DEV int across() {
    return place<D>((lane() & 7) + (lane() >> 4 << 3), lane() >> 3 & 1);
}
template <int D> DEV int ahead(int k) {
    const int turn = D == 32 ? lane() >> 1 & 2 : lane() & 6;
    return ((2 * k ^ turn) - turn) << 3;
}

/* The columns [16 n, 16 n + 16) of c += a b for a pair of b. */
DEV void multiply_pair(float (&left)[4], float (&right)[4], const uint32_t (&a)[4],
                       const uint32_t (&b)[4]) {
    mma_bf16(left, a, b[0], b[1]);
    mma_bf16(right, a, b[2], b[3]);
}

template <int N> DEV void clear(float (&c)[N][4]) {
    UNROLL
    for (int n = 0; n < N; n++) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
}

/* Masks the columns outside [from, to) of row l / 4 + 8 r in the N strips of columns in s. */
template <int N> DEV void mask_row(float (&s)[2 * N][4], int r, int from, int to) {
    UNROLL
    for (int n = 0; n < 2 * N; n++) {
        UNROLL
        for (int e = 0; e < 2; e++) {
            const int col = 8 * n + 2 * (lane() & 3) + e;
            if (col < from || col >= to) s[n][2 * r + e] = -INFINITY;
        }
    }
}

/* Those that are not of a strip's sequence, from column `first` of the tile's keys on. */
template <int N, bool GROUP>
DEV void mask_columns(float (&s)[2 * N][4], const sr_strip &strip, int first) {
    const int from = GROUP ? strip.key_begin - first : 0, to = strip.key_end - first;
    if (from <= 0 && to >= 16 * N) return;
    mask_row<N>(s, 0, from, to);
    mask_row<N>(s, 1, from, to);
}

/* Those that a row does not see. */
template <int N>
DEV void mask_unseen(float (&s)[2 * N][4], const sr_strip &strip, const call &c, int first) {
    UNROLL
    for (int r = 0; r < 2; r++) {
        const int own = strip.position + (lane() >> 2) + 8 * r + strip.key_begin; /* its column */
        const int before = own - c.before, after = own + c.after + 1;
        mask_row<N>(s, r, (before > strip.key_begin ? before : strip.key_begin) - first,
                    (after < strip.key_end ? after : strip.key_end) - first);
    }
}

/* Writes 16 rows of a warp: c times `upper` (rows 0 to 7) or `lower`, the first `rows` of them,
 * through `room` of 16 rows in shared memory that only this warp uses. */
template <int W>
DEV void store_strip(shared<bf16> room, const float (&c)[W / 8][4], float upper, float lower,
                     global<bf16> to, size_t from, int stride, int rows) {
    constexpr int CHUNKS = W / 8;
    const int g = lane() >> 2, q = lane() & 3;
    UNROLL
    for (int n = 0; n < CHUNKS; n++) {
        store4(room, (size_t)(place<W>(g, n) + 2 * q),
               pack2_bf16(c[n][0] * upper, c[n][1] * upper));
        store4(room, (size_t)(place<W>(g + 8, n) + 2 * q),
               pack2_bf16(c[n][2] * lower, c[n][3] * lower));
    }
    warp_barrier();
    UNROLL
    for (int i = 0; i < STRIP * CHUNKS / 32; i++) {
        const int at = i * 32 + lane(), r = at / CHUNKS, chunk = at % CHUNKS;
        if (r < rows)
            store16(to, from + (size_t)(r * stride + chunk * 8),
                    load16(room, (size_t)place<W>(r, chunk)));
    }
    warp_barrier();
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* This lane's decisions for row `row` of the strip's sequence in the 64 columns from
 * `first` on, where its own columns begin at key_begin. */
DEV sr_u32x4 drop_words(const drop_site &drop, const sr_strip &s, int row, int first, int head) {
    const uint32_t group = (uint32_t)(first >> 6) * 4 + (uint32_t)(lane() & 3);
    sr_u32x4 x = drop_draw(drop, (uint32_t)row, group, s.uid, (uint32_t)head, s.epoch);
    const int turn = s.key_begin / STRIP; /* of a group, which is one block */
    if (turn & 1) x = sr_u32x4{{x.w[3], x.w[0], x.w[1], x.w[2]}};
    if (turn & 2) x = sr_u32x4{{x.w[2], x.w[3], x.w[0], x.w[1]}};
    return x;
}

/* The top bit of each byte of a word: whether its column is kept. */
DEV uint32_t drop_signs(uint32_t word, uint32_t keep) {
    const uint32_t all = keep * 0x01010101u;                          /* in each byte */
    const uint32_t less = (word | 0x80808080u) - (all & 0x7F7F7F7Fu); /* set: not the low bits */
    return (~word & all) | (~(word ^ all) & ~less);
}

/* ---- sums over rows, for the gradient of a bias ---------------------------------------------- */

/* part[c] = the sum of column c over the rows first .. end - 1 of the map, which this block has
 * written, for D columns from each of N on.  A thread has 8 columns of every STEP-th row; the
 * halves of what it adds are apart in shared memory, so that no bank is met twice. */
template <int D, int N, int THREADS, bool GROUP>
DEV void write_sums(global<float> part, global<bf16> x, const int (&from)[N], int stride,
                    const row_map<GROUP> &map, int first, int end) {
    constexpr int CHUNKS = D / 8, STEP = THREADS / CHUNKS, HALF = (STEP + 1) * (D / 2);
    const int chunk = thread() % CHUNKS, own = thread() / CHUNKS;
    shared<float> room = shared_at<float>(0, N * 2 * HALF);
    float sum[N][8] = {};
    barrier();
    for (int r = first + own; r < end; r += STEP) {
        bool valid;
        const size_t row = offset(row_of(map, r, valid), stride);
        if (!valid) continue;
        UNROLL
        for (int n = 0; n < N; n++) {
            const vec16 v = load16(x, row + (size_t)(from[n] + chunk * 8));
            UNROLL
            for (int i = 0; i < 4; i++) {
                sum[n][2 * i] += low_bf16(v.w[i]);
                sum[n][2 * i + 1] += high_bf16(v.w[i]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < 2 * N; i++) {
        const float(&s)[8] = sum[i / 2];
        const int e = i % 2 * 4;
        const float four[4] = {s[e], s[e + 1], s[e + 2], s[e + 3]};
        store16(room, (size_t)(i * HALF + own * (D / 2) + chunk * 4), pack(four));
    }
    barrier();
    const int half = thread() / (D / 2), at = thread() % (D / 2);
    if (half > 1) return;
    UNROLL
    for (int n = 0; n < N; n++) {
        float total = 0.0f;
        for (int r = 0; r < STEP; r++) total += room[(2 * n + half) * HALF + r * (D / 2) + at];
        part[from[n] + at / 4 * 8 + half * 4 + at % 4] = total;
    }
}

} // namespace attention

/* ---- host ------------------------------------------------------------------------------------ */

/* The tiles of a layout in device memory; made once for a layout and device. */
struct attention_tiles {
    sr_tiles *list;
    sr_tensor *block;
    const sr_tile *tile;  /* in device memory */
    const int32_t *slack; /* in device memory */
    struct {
        int heads, kv_heads, slots;
        int64_t reach;
        sr_split split;
    } known[2]; /* layers with a window may take turns with others */
    int next;   /* of `known`, to be replaced */
};

sr_status attention_tiles_of(attention_tiles **out, const sr_layout *layout, sr_device *device);

/* A call of the slot attention, or attention_backward where dqkv is set. */
struct attention_job {
    gpu *g;
    attention::call call;
    int d; /* head size */
    const sr_layout *layout;
    sr_tensor *out, *lse, *dqkv;
    sr_tensor *dbias; /* += sums of dqkv over rows, by attention_backward() alone; or NULL */
    const sr_tensor *qkv, *dout;
};

/* Whether rows do not see all others, or query heads share keys. */
inline bool is_local(const attention::call &c) {
    return c.before < attention::FAR || c.after < attention::FAR || c.kv_heads != c.heads;
}

/* The rows that no sequence owns, for a launch whose blocks from `from` on clear them. */
attention::slack_rows attention_slack(const attention_tiles *tiles, size_t from);

/* sr_tiles_split() of the job, computed once. */
sr_status attention_split(sr_split *out, attention_tiles *tiles, const attention_job *job,
                          int slots, int64_t reach);

template <class T> sr_status attention_plain(const attention_job *job);
/* Shared memory of a block of the kernels below. */
size_t attention_shared_bytes(int d);
/* For d = 32, 64 and 128, rows that begin at multiples of 16 bytes, and a scale above 0. */
sr_status attention_forward(const attention_job *job);
sr_status attention_backward(const attention_job *job);

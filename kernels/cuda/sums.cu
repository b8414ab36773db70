/* sums.cu - parts of columns in order; a radix sort of integer keys with their positions, 8 bits a
 * pass; sums of rows that share a key.
 *
 * Parts     partial (P, stride) f32, out (N) f32 +=.  A block has 32 columns of one output; its
 *           warps take every eighth part, and their sums are added in order.
 * Order     A warp owns a run of keys, and counters of its own in shared memory: it takes 32 keys
 *           at a time, and lanes with the same digit find each other by votes.  A pass is: count
 *           the digits of every run, turn counts into places (digits first, then runs), and put
 *           the keys there.  4 bytes per key to count, 16 to place; counters 1 KiB per run.
 * Segments  The rows come as a list sorted by key.  A warp takes a tile of TILE entries and 256
 *           columns, adds up each run of equal keys in the order of the list, and adds the sums of
 *           runs that lie in its tile to their rows of the table.  A run that crosses tiles leaves
 *           a part in each: the tile's `head` where it came from the tile before, its `tail` where
 *           it begins.  A second pass adds head after head to the tail.  So a key shared by half
 *           of the batch costs little more than others, and the order of a sum depends on the list
 *           alone.  Reads 4 H bytes for each row, reads and writes 4 H for each distinct key.
 */
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/sums.h"
#include "kernels/cuda/gpu.h"

/* ---- parts of columns ------------------------------------------------------------------------ */

enum { PART_WARPS = 8, PART_THREADS = PART_WARPS * 32 };

KERNEL(PART_THREADS, 4) void add_part_columns(part_sums a) {
    shared<float> room = shared_at<float>(0, PART_THREADS);
    global<float> out = block_y() == 0 ? a.out[0] : block_y() == 1 ? a.out[1] : a.out[2];
    int column = block_x() * 32 + lane();
    size_t at = (size_t)block_y() * a.columns + column;
    float sum = 0.0f;
    if (out && column < a.columns)
        for (int p = warp(); p < a.parts; p += PART_WARPS)
            sum += a.partial[(size_t)p * a.stride + at];
    room[thread()] = sum;
    barrier();
    if (warp() > 0 || !out || column >= a.columns) return;
    for (int w = 1; w < PART_WARPS; w++) sum += room[w * 32 + lane()];
    out[column] += a.scale ? sum * a.scale[0] : sum;
}

sr_status add_parts(gpu *g, const char *op, const part_sums *sums) {
    size_t outputs = 0;
    for (size_t i = 0; i < 3; i++)
        if (sums->out[i]) outputs = i + 1;
    return launch(g, op, add_part_columns, dim(ceil_div(sums->columns, 32), outputs), PART_THREADS,
                  PART_THREADS * sizeof(float), *sums);
}

/* ---- the order of keys ----------------------------------------------------------------------- */

enum { DIGITS = 256, WARPS = 4, SORT_THREADS = 32 * WARPS, SCAN_THREADS = 512, MOST_RUNS = 512 };

namespace {

struct run_of_keys {
    global<const int32_t> keys, order; /* order: NULL in the first pass */
    int64_t stride, count, limit;
    int64_t length; /* of a run, a multiple of 32 */
    int runs, shift;
};

} // namespace

DEV int32_t key_at(const run_of_keys &r, int64_t i) {
    int32_t key = r.keys[i * r.stride];
    return key < 0 || key >= r.limit ? (int32_t)r.limit : key;
}

/* The lanes whose digit is that of this lane, among those that `live`. */
DEV uint32_t peers_of(uint32_t digit, bool live) {
    uint32_t peers = vote(live);
    for (int bit = 0; bit < 8; bit++) {
        uint32_t set = vote((digit >> bit & 1) != 0);
        peers &= digit >> bit & 1 ? set : ~set;
    }
    return peers;
}

DEV int count_bits(uint32_t x) {
    x = x - (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0Fu;
    return (int)(x * 0x01010101u >> 24);
}

/* counts[digit][run] = how many keys of the run have this digit */
KERNEL(SORT_THREADS, 8) void count_digits(run_of_keys r, global<int32_t> counts) {
    shared<int32_t> mine = shared_at<int32_t>(warp() * DIGITS * 4, DIGITS);
    int run = block_x() * WARPS + warp();
    for (int d = lane(); d < DIGITS; d += 32) mine[d] = 0;
    warp_barrier();
    int64_t first = run * r.length;
    for (int64_t i = first + lane(); i - lane() < first + r.length && i - lane() < r.count;
         i += 32) {
        bool live = i < r.count;
        uint32_t digit = live ? (uint32_t)key_at(r, i) >> r.shift & 255u : 0;
        uint32_t peers = peers_of(digit, live);
        bool leads = live && (peers & ((1u << lane()) - 1)) == 0;
        if (leads) mine[digit] += count_bits(peers);
        warp_barrier();
    }
    if (run < r.runs)
        for (int d = lane(); d < DIGITS; d += 32) counts[(size_t)d * r.runs + run] = mine[d];
}

/* counts[i] = the sum of all before it; one block */
KERNEL(SCAN_THREADS, 1) void scan_counts(global<int32_t> counts, int count) {
    shared<int32_t> sums = shared_at<int32_t>(0, SCAN_THREADS);
    int each = (count + SCAN_THREADS - 1) / SCAN_THREADS, first = thread() * each;
    int end = first + each < count ? first + each : count;
    int32_t sum = 0;
    for (int i = first; i < end; i++) sum += counts[i];
    sums[thread()] = sum;
    for (int back = 1; back < SCAN_THREADS; back *= 2) {
        barrier();
        int32_t before = thread() >= back ? (int32_t)sums[thread() - back] : 0;
        barrier();
        sums[thread()] += before;
    }
    int32_t at = sums[thread()] - sum;
    for (int i = first; i < end; i++) {
        int32_t here = counts[i];
        counts[i] = at;
        at += here;
    }
}

KERNEL(SORT_THREADS, 8)
void place_keys(run_of_keys r, readonly<int32_t> places, global<int32_t> order,
                global<int32_t> sorted) {
    shared<int32_t> next = shared_at<int32_t>(warp() * DIGITS * 4, DIGITS);
    int run = block_x() * WARPS + warp();
    if (run >= r.runs) return;
    for (int d = lane(); d < DIGITS; d += 32) next[d] = places[(size_t)d * r.runs + run];
    warp_barrier();
    int64_t first = run * r.length;
    for (int64_t i = first + lane(); i - lane() < first + r.length && i - lane() < r.count;
         i += 32) {
        bool live = i < r.count;
        int32_t key = live ? key_at(r, i) : 0;
        uint32_t digit = (uint32_t)key >> r.shift & 255u, peers = peers_of(digit, live);
        uint32_t before = peers & ((1u << lane()) - 1);
        int32_t at = next[digit] + count_bits(before);
        warp_barrier();
        if (live && before == 0) next[digit] += count_bits(peers);
        warp_barrier();
        if (!live) continue;
        order[at] = r.order != NULL ? (int32_t)r.order[i] : (int32_t)i;
        sorted[at] = key;
    }
}

static sr_status order_pass(gpu *g, run_of_keys r, global<int32_t> counts, global<int32_t> order,
                            global<int32_t> sorted) {
    dim grid((r.runs + WARPS - 1) / WARPS);
    size_t room = WARPS * DIGITS * sizeof(int32_t);
    SR_TRY(launch(g, "order", count_digits, grid, SORT_THREADS, room, r, counts));
    SR_TRY(launch(g, "order", scan_counts, dim(1), SCAN_THREADS, SCAN_THREADS * sizeof(int32_t),
                  counts, DIGITS * r.runs));
    return launch(g, "order", place_keys, grid, SORT_THREADS, room, r, counts, order, sorted);
}

sr_status order_keys(global<int32_t> *order, global<int32_t> *sorted, gpu *g,
                     global<const int32_t> keys, int64_t stride, int64_t count, int64_t limit) {
    global<int32_t> room = {}, two[2][2];
    *order = *sorted = room;
    if (count == 0) return SR_OK;
    if (limit > INT32_MAX) limit = INT32_MAX;
    int64_t runs = (count + 511) / 512;
    if (runs > MOST_RUNS) runs = MOST_RUNS;
    int64_t length = ((count + runs - 1) / runs + 31) / 32 * 32;
    runs = (count + length - 1) / length;
    SR_TRY(scratch(&room, g, SCRATCH_ORDER, (size_t)(4 * count + DIGITS * runs)));
    for (int k = 0; k < 4; k++)
        two[k / 2][k % 2] = part<int32_t>(room, (size_t)(k * count), (size_t)count);
    global<int32_t> counts = part(room, (size_t)(4 * count), (size_t)(DIGITS * runs));
    run_of_keys r = {keys, {}, stride, count, limit, length, (int)runs, 0};
    int passes = 0;
    for (int shift = 0; shift == 0 || limit >> shift > 0; shift += 8, passes++) {
        global<int32_t> *to = two[passes % 2];
        r.shift = shift;
        SR_TRY(order_pass(g, r, counts, to[0], to[1]));
        r.order = to[0];
        r.keys = to[1];
        r.stride = 1;
        *order = to[0];
        *sorted = to[1];
    }
    return SR_OK;
}

/* ---- rows that share a key ------------------------------------------------------------------- */

enum { TILE = 128, AT_ONCE = 4, SEGMENT_WARPS = 8, SEGMENT_COLUMNS = 32 * EIGHT };

namespace {

/* What a warp works on: entries [from, end), and eight columns a lane. */
struct segment_tile {
    size_t index, from, end;
    int column, left;
};

/* An entry for each lane. */
struct segment_entry {
    int row, key, next; /* next: the key of the following entry */
};

} // namespace

DEV segment_tile segment_tile_of(const segment_list &l) {
    size_t unit = (size_t)block_x() * SEGMENT_WARPS + warp();
    segment_tile t;
    t.index = unit / l.blocks;
    t.from = t.index * TILE;
    t.end = t.from + TILE < l.count ? t.from + TILE : l.count;
    t.column = (int)(unit % l.blocks) * SEGMENT_COLUMNS + lane() * EIGHT;
    t.left = l.columns - t.column;
    return t;
}

/* y[at ..] += v */
template <bool VECTOR>
DEV void segment_add(global<float> y, size_t at, const float (&v)[EIGHT], int left) {
    float sum[EIGHT];
    read8<VECTOR>(sum, global<const float>(y), at, left);
    for (int i = 0; i < EIGHT; i++) sum[i] += v[i];
    write8<VECTOR>(y, at, sum, left);
}

/* A run has been summed: to the table, or to the head or tail of its tile. */
template <bool VECTOR>
DEV void segment_flush(const segment_list &l, const segment_tile &t, int key, bool head, bool tail,
                       const float (&sum)[EIGHT]) {
    if (!head && !tail)
        segment_add<VECTOR>(l.table, (size_t)key * l.columns + t.column, sum, t.left);
    else
        write8<VECTOR>(l.parts, (t.index * 2 + (head ? 0 : 1)) * l.columns + t.column, sum, t.left);
}

DEV segment_entry segment_read(const segment_list &l, size_t at) {
    segment_entry e = {0, l.limit, l.limit};
    if (at < l.count) {
        e.row = l.order[at];
        e.key = l.keys[at];
    }
    if (at + 1 < l.count) e.next = l.keys[at + 1];
    return e;
}

template <bool VECTOR> KERNEL(SEGMENT_WARPS * 32, 2) void segment_sums(segment_list l) {
    segment_tile t = segment_tile_of(l);
    if (t.from >= l.count) return;
    bool head = t.from > 0 && l.keys[t.from - 1] == l.keys[t.from];
    float sum[EIGHT] = {}, x[AT_ONCE][EIGHT];
    for (size_t base = t.from; base < t.end; base += 32) {
        segment_entry e = segment_read(l, base + lane());
        for (int j = 0; j < 32; j += AT_ONCE) {
            for (int u = 0; u < AT_ONCE; u++) {
                size_t row = (size_t)shuffle(e.row, j + u);
                bool use = shuffle(e.key, j + u) < l.limit && base + j + u < t.end;
                read8<VECTOR>(x[u], l.x, row * l.columns + t.column, use ? t.left : 0);
            }
            for (int u = 0; u < AT_ONCE; u++) {
                int key = shuffle(e.key, j + u), next = shuffle(e.next, j + u);
                size_t at = base + j + u;
                if (key >= l.limit || at >= t.end) continue;
                for (int i = 0; i < EIGHT; i++) sum[i] += x[u][i];
                if (next == key && at + 1 < t.end) continue;
                segment_flush<VECTOR>(l, t, key, head, next == key, sum);
                for (int i = 0; i < EIGHT; i++) sum[i] = 0.0f;
                head = false;
            }
        }
    }
}

/* How many of the following tiles begin within the run of `key`. */
DEV size_t segment_heads(const segment_list &l, const segment_tile &t, int key) {
    for (size_t heads = 0;; heads += 32) {
        size_t at = (t.index + 1 + heads + lane()) * TILE;
        uint32_t other = vote(at >= l.count || l.keys[at] != key);
        for (int i = 0; i < 32; i++)
            if (other >> i & 1u) return heads + i;
    }
}

/* The runs that begin in a tile and go on in the next. */
template <bool VECTOR> KERNEL(SEGMENT_WARPS * 32, 2) void segment_joins(segment_list l) {
    segment_tile t = segment_tile_of(l);
    if (t.from >= l.count || t.end >= l.count) return;
    int key = l.keys[t.end];
    if (key >= l.limit || l.keys[t.end - 1] != key) return;
    if (t.from > 0 && l.keys[t.from - 1] == key) return;
    size_t heads = segment_heads(l, t, key), tail = t.index * 2 + 1;
    global<const float> parts = l.parts;
    float sum[EIGHT], x[AT_ONCE][EIGHT];
    read8<VECTOR>(sum, parts, tail * l.columns + t.column, t.left);
    for (size_t h = 0; h < heads; h += AT_ONCE) {
        for (int u = 0; u < AT_ONCE; u++)
            read8<VECTOR>(x[u], parts, (tail + 1 + 2 * (h + u)) * l.columns + t.column,
                          h + u < heads ? t.left : 0);
        for (int u = 0; u < AT_ONCE; u++)
            for (int i = 0; i < EIGHT; i++) sum[i] += x[u][i];
    }
    segment_add<VECTOR>(l.table, (size_t)key * l.columns + t.column, sum, t.left);
}

sr_status add_segments(gpu *g, const char *op, segment_list l, bool vectors) {
    size_t tiles = ceil_div(l.count, TILE);
    l.blocks = (int)ceil_div(l.columns, SEGMENT_COLUMNS);
    dim grid(ceil_div(tiles * l.blocks, SEGMENT_WARPS));
    SR_TRY(scratch(&l.parts, g, SCRATCH_SEGMENTS, 2 * tiles * l.columns));
    SR_TRY(launch(g, op, vectors ? segment_sums<true> : segment_sums<false>, grid,
                  SEGMENT_WARPS * 32, 0, l));
    return launch(g, op, vectors ? segment_joins<true> : segment_joins<false>, grid,
                  SEGMENT_WARPS * 32, 0, l);
}

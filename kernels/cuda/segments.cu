/* segments.cu - sums of rows that share a key, without atomics.
 *
 * The rows come as a list sorted by key.  A warp takes a tile of TILE entries and 256 columns, adds
 * up each run of equal keys in the order of the list, and adds the sums of runs that lie in its
 * tile to their rows of the table.  A run that crosses tiles leaves a part in each: the tile's
 * `head` where it came from the tile before, its `tail` where it begins.  A second pass adds head
 * after head to the tail.  So a key shared by half of the batch costs little more than others, and
 * the order of a sum depends on the list alone.
 *
 * Traffic   reads 4 H bytes for each row, reads and writes 4 H for each distinct key.
 */
#include "kernels/cuda/segments.h"

#include "kernels/cuda/columns.h"
#include "kernels/cuda/eight.cuh"

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

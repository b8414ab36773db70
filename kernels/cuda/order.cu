/* order.cu - a radix sort of integer keys with their positions, 8 bits a pass.
 *
 * A warp owns a run of keys, and counters of its own in shared memory: it takes 32 keys at a time,
 * and lanes with the same digit find each other by votes.  A pass is: count the digits of every
 * run, turn counts into places (digits first, then runs), and put the keys there.
 *
 * Traffic   4 bytes per key to count, 16 to place; counters 1 KiB per run.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/order.h"

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

/* sums.h - sums over rows without atomics, in an order that follows from shapes and keys alone.
 *
 * For gradients of parameters a kernel leaves parts, rows of partial sums, whose number follows
 * from the shape; here they are added up in order.  For gradients of tables rows are put in the
 * stable order of their keys, and those that share a key are added in that order.
 */
#pragma once

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/prim.cuh"

/* ---- parts of columns ------------------------------------------------------------------------ */

/* Numbers of scratch memory of the row-wise ops' helpers. */
enum { SCRATCH_PARTS = 8, SCRATCH_SEGMENTS = 9 };

/* Up to three outputs of `columns` each, side by side in a part of `stride`; NULL is skipped.
 * out[k][c] += scale * sum over parts of partial[part][k * columns + c]; scale is a number on the
 * device, or NULL for 1. */
struct part_sums {
    global<float> out[3];
    global<const float> partial, scale;
    int parts, columns, stride;
};
sr_status add_parts(gpu *g, const char *op, const part_sums *sums);

/* Parts for `rows` rows when a block takes `each` at a time, at most `most`. */
static inline int parts_of(int64_t rows, int each, int most) {
    int64_t parts = (rows + each - 1) / each;
    return parts < most ? (int)parts : most;
}

/* True if rows of `columns` elements that begin at p, which may be NULL, move in vectors
 * (team.cuh). */
static inline bool in_vectors(const void *p, int64_t columns) {
    return columns % 8 == 0 && (uintptr_t)p % 16 == 0;
}
/* The same for all these tensors, which may be NULL. */
static inline bool all_in_vectors(const sr_tensor *const *t, int count, int64_t columns) {
    for (int i = 0; i < count; i++)
        if (!in_vectors(t[i] != nullptr ? sr_tensor_data(t[i]) : nullptr, columns)) return false;
    return true;
}

/* ---- rows by key ----------------------------------------------------------------------------- */

/* The number of its scratch memory: the op that calls it has others. */
enum { SCRATCH_ORDER = GPU_SCRATCH_SLOTS - 1 };

/* Sorts keys[0], keys[stride] ... keys[(count - 1) stride] in ascending order, equal ones by
 * position:
 *
 *   order   (count) the position of each, from 0
 *   sorted  (count) the keys in that order; those outside of [0, limit) come last, as `limit`
 *
 * Both live in scratch memory, until the next call on this device.  Queued; no atomics, no wait.
 * Cost: three small kernels for every 8 bits of `limit`.
 */
sr_status order_keys(global<int32_t> *order, global<int32_t> *sorted, gpu *g,
                     global<const int32_t> keys, int64_t stride, int64_t count, int64_t limit);

/* Adds x[order[i]] to table[keys[i]] for i in 0 .. count - 1, rows of `columns` floats, in the
 * order of the list.  `keys` ascend; those from `limit` on are ignored.  Uses SCRATCH_SEGMENTS. */
struct segment_list {
    global<float> table;
    global<const float> x;
    global<const int32_t> order, keys;
    global<float> parts; /* filled in: (tiles, 2, columns) */
    size_t count;
    int limit, columns, blocks; /* blocks: filled in */
};
sr_status add_segments(gpu *g, const char *op, segment_list list, bool vectors);

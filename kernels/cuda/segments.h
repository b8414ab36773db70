/* segments.h - table[key] += sum of the rows of x with that key, without atomics. */
#ifndef SR_CUDA_SEGMENTS_H
#define SR_CUDA_SEGMENTS_H

#include "kernels/cuda/gpu.h"

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

#endif

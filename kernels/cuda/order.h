/* order.h - the stable order of integer keys, on the device. */
#ifndef SR_CUDA_ORDER_H
#define SR_CUDA_ORDER_H

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/prim.cuh"

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

#endif

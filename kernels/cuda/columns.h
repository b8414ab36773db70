/* columns.h - sums over rows in two ordered stages, for gradients of parameters.
 *
 * In the first stage a kernel leaves parts, rows of partial sums, whose number follows from the
 * shape alone; here they are added up in order.
 */
#ifndef SR_CUDA_COLUMNS_H
#define SR_CUDA_COLUMNS_H

#include "kernels/cuda/gpu.h"

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
 * (eight.cuh). */
static inline bool in_vectors(const void *p, int64_t columns) {
    return columns % 8 == 0 && (uintptr_t)p % 16 == 0;
}
/* The same for all these tensors, which may be NULL. */
static inline bool all_in_vectors(const sr_tensor *const *t, int count, int64_t columns) {
    for (int i = 0; i < count; i++)
        if (!in_vectors(t[i] != nullptr ? sr_tensor_data(t[i]) : nullptr, columns)) return false;
    return true;
}

#endif

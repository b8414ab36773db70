/* columns.cu - the second stage of sums over rows: parts in order.
 *
 * Shapes    partial (P, stride) f32, out (N) f32 +=
 * Grid      a block for 32 columns of one output; its warps take every eighth part, and their sums
 *           are added in order.  The shape alone decides the order.
 */
#include "kernels/cuda/columns.h"

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

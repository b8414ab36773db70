/* sequence.cu - the mean of the rows of each sequence of a layout.
 *
 * Shapes    x, dx (T, K) f32 or bf16, y, dy (N, K) f32
 * Traffic   reads x once, writes y: 2 T K + 4 N K bytes in bf16; backward the other way.
 * Grid      a thread for each column of a sequence; in backward one for each element of dx.
 * Numerics  sums in f32, in the order of the rows, rounded once.
 */
#include "core/tensor/layout_on.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/map.cuh"

enum { SEQUENCE_THREADS = 128, SPREAD_THREADS = 256 };

namespace {

struct sequence_job {
    operand x; /* x or dx */
    global<const int32_t> start, len, owner;
    size_t rows;
    int columns;
};

} // namespace

KERNEL(SEQUENCE_THREADS, 8) void sequence_sums(sequence_job a, global<float> y) {
    int s = block_x(), column = block_y() * threads() + thread();
    if (column >= a.columns) return;
    int64_t at = (int64_t)a.start[s] * a.columns + column;
    int len = a.len[s];
    float sum = 0.0f;
    for (int i = 0; i < len; i++, at += a.columns) sum += load_as<float>(a.x, at);
    y[(size_t)s * a.columns + column] = sum / (float)len;
}

KERNEL(SPREAD_THREADS, 4) void sequence_spread(sequence_job a, readonly<float> dy) {
    size_t i = (size_t)block_x() * threads() + thread(), row = i / a.columns;
    if (row >= a.rows) return;
    int s = a.owner[row];
    float g = 0.0f;
    if (s >= 0) g = dy[(size_t)s * a.columns + (i - row * a.columns)] / (float)a.len[s];
    store_as(a.x, (int64_t)i, g);
}

static sr_status job_of(sequence_job *a, const sr_tensor *x, const sr_layout *layout) {
    sr_layout_on *on;
    SR_TRY(sr_layout_find_on(&on, layout, x->storage->device));
    size_t n = (size_t)layout->sequences, rows = (size_t)layout->rows;
    *a = {operand_of(x),
          gpu_pointer(on->start, n),
          gpu_pointer(on->len, n),
          gpu_pointer(on->owner, rows),
          rows,
          (int)x->shape[1]};
    return SR_OK;
}

sr_status gpu_sequence_mean(sr_tensor *y, const sr_tensor *x, const sr_layout *layout) {
    sequence_job a;
    SR_TRY(job_of(&a, x, layout));
    dim grid(layout->sequences, ceil_div(a.columns, SEQUENCE_THREADS));
    return launch(gpu_of(y), "sequence_mean", sequence_sums, grid, SEQUENCE_THREADS, 0, a,
                  out<float>(y));
}

sr_status gpu_sequence_mean_backward(sr_tensor *dx, const sr_tensor *dy, const sr_layout *layout) {
    if (dx == nullptr) return SR_OK;
    sequence_job a;
    SR_TRY(job_of(&a, dx, layout));
    size_t blocks = ceil_div(a.rows * (size_t)a.columns, SPREAD_THREADS);
    return launch(gpu_of(dx), "sequence_mean", sequence_spread, dim(blocks), SPREAD_THREADS, 0, a,
                  in<float>(dy));
}

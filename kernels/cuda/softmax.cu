/* softmax.cu - softmax and log-softmax over the last dimension, both ways.
 *
 * Traffic   reads a row two or three times; rows of up to 100,000 elements come from the
 *           cache after the first.
 * Grid      a block per row, of 32, 128 or 512 threads by its length.
 * Numerics  exponentials in f32, sums in f64, each element rounded once.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/map.cuh"

enum { MOST_THREADS = 512 };

namespace {

/* Rows of N tensors: where each begins, and the stride along it. */
template <int N> struct row_set {
    walk<N> w;
    operands<N> all;
    int64_t length, stride[N];
};

} // namespace

/* y = exp(x - max) / sum, or x - max - log sum */
KERNEL(MOST_THREADS, 2) void softmax_row(row_set<2> r, bool log) {
    shared<double> sums = shared_at<double>(0, threads());
    shared<float> tops = shared_at<float>(threads() * sizeof(double), threads());
    int64_t at[2];
    locate(at, r.w, block_x());
    float top = -INFINITY;
    for (int64_t i = thread(); i < r.length; i += threads())
        greater_f32()(top, load_as<float>(r.all.t[1], at[1] + i * r.stride[1]));
    top = join_block(tops, top, greater_f32());
    double sum = 0;
    for (int64_t i = thread(); i < r.length; i += threads())
        sum += (double)math_exp(load_as<float>(r.all.t[1], at[1] + i * r.stride[1]) - top);
    sum = join_block(sums, sum, add_f64());
    float whole = log ? (float)math_log(sum) : (float)sum;
    for (int64_t i = thread(); i < r.length; i += threads()) {
        float away = load_as<float>(r.all.t[1], at[1] + i * r.stride[1]) - top;
        store_as(r.all.t[0], at[0] + i * r.stride[0], log ? away - whole : math_exp(away) / whole);
    }
}

/* dx = y (dy - sum dy y), or dy - exp(y) sum dy */
KERNEL(MOST_THREADS, 2) void softmax_row_backward(row_set<3> r, bool log) {
    shared<double> sums = shared_at<double>(0, threads());
    int64_t at[3];
    locate(at, r.w, block_x());
    double sum = 0;
    for (int64_t i = thread(); i < r.length; i += threads()) {
        double dy = load_as<float>(r.all.t[1], at[1] + i * r.stride[1]);
        sum += log ? dy : dy * load_as<float>(r.all.t[2], at[2] + i * r.stride[2]);
    }
    float whole = (float)join_block(sums, sum, add_f64());
    for (int64_t i = thread(); i < r.length; i += threads()) {
        float dy = load_as<float>(r.all.t[1], at[1] + i * r.stride[1]);
        float y = load_as<float>(r.all.t[2], at[2] + i * r.stride[2]);
        float dx = log ? dy - math_exp(y) * whole : y * (dy - whole);
        store_as(r.all.t[0], at[0] + i * r.stride[0], dx);
    }
}

template <int N> row_set<N> row_set_over(const sr_tensor *const (&t)[N]) {
    row_set<N> r;
    int last = t[0]->ndim - 1;
    r.w = walk_over(t, 0, last);
    r.length = last >= 0 ? t[0]->shape[last] : 1;
    for (int k = 0; k < N; k++) {
        r.all.t[k] = operand_of(t[k]);
        r.stride[k] = last >= 0 ? t[k]->stride[last] : 1;
    }
    return r;
}

static int threads_for(int64_t length) {
    return length <= 256 ? 32 : length <= 2048 ? 128 : MOST_THREADS;
}

sr_status gpu_softmax(sr_tensor *y, const sr_tensor *x, bool log) {
    const sr_tensor *const all[] = {y, x};
    SR_TRY(need_no_f64("softmax", all, 2));
    row_set<2> r = row_set_over(all);
    int n = threads_for(r.length);
    if (r.w.count == 0 || r.length == 0) return SR_OK;
    return launch(gpu_of(y), "softmax", softmax_row, dim(r.w.count), n,
                  (size_t)n * (sizeof(double) + sizeof(float)), r, log);
}

sr_status gpu_softmax_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *y, bool log) {
    const sr_tensor *const all[] = {dx, dy, y};
    SR_TRY(need_no_f64("softmax_backward", all, 3));
    row_set<3> r = row_set_over(all);
    int n = threads_for(r.length);
    if (r.w.count == 0 || r.length == 0) return SR_OK;
    return launch(gpu_of(dx), "softmax_backward", softmax_row_backward, dim(r.w.count), n,
                  (size_t)n * sizeof(double), r, log);
}

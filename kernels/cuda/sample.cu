/* sample.cu - classes drawn from the softmax of logits, by the inverse of the distribution.
 *
 * Shapes    logits (M, C) f32, keys (M, 3) i32: position, uid, epoch; ids (M) i32
 * Traffic   a row is read three times, twice from the cache: 4 M C bytes.
 * Grid      a block per row; a thread adds up a stretch of neighbouring classes, and the one in
 *           whose stretch the drawn place lies goes through it once more.
 * Numerics  exponentials in f32, sums in f64: of a stretch in the order of its classes, then of
 *           the stretches in order.
 */
#include "core/base/rng.h"
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/gpu.h"

enum { SAMPLE_THREADS = 128 };

KERNEL(SAMPLE_THREADS, 2)
void sample_row(global<int32_t> ids, readonly<float> logits, readonly<int32_t> keys, int classes,
                uint64_t seed) {
    shared<double> sums = shared_at<double>(0, SAMPLE_THREADS + 1);
    shared<float> tops = shared_at<float>((SAMPLE_THREADS + 1) * sizeof(double), SAMPLE_THREADS);
    shared<int32_t> chosen = shared_at<int32_t>(
        (SAMPLE_THREADS + 1) * sizeof(double) + SAMPLE_THREADS * sizeof(float), 1);
    size_t row = block_x(), from = row * classes;
    float top = -INFINITY;
    for (int c = thread(); c < classes; c += threads()) {
        float x = logits[from + c];
        greater_f32()(top, x);
    }
    top = join_block(tops, top, greater_f32());
    int each = (classes + threads() - 1) / threads();
    int first = thread() * each, last = first + each < classes ? first + each : classes;
    double sum = 0;
    for (int c = first; c < last; c++) sum += (double)math_exp(logits[from + c] - top);
    sums[thread()] = sum;
    barrier();
    if (thread() == 0) {
        int32_t key[3];
        for (int k = 0; k < 3; k++) key[k] = keys[3 * row + k];
        double all = 0;
        for (int i = 0; i < threads(); i++) all += sums[i];
        double left = sr_sample_at(key, seed) * all;
        int32_t which = 0;
        for (int i = 0; i < threads(); i++) {
            double own = sums[i];
            if (own > 0) which = i;
            if (left < own) break;
            left -= own;
        }
        sums[SAMPLE_THREADS] = left;
        chosen[0] = which;
    }
    barrier();
    int32_t mine = chosen[0];
    if (thread() != mine) return;
    double left = sums[SAMPLE_THREADS];
    int32_t id = first;
    for (int c = first; c < last && left >= 0; c++) {
        double e = (double)math_exp(logits[from + c] - top);
        if (e > 0) id = c;
        left -= e;
    }
    ids[row] = id;
}

sr_status gpu_sample(sr_tensor *ids, const sr_tensor *logits, const sr_tensor *keys,
                     uint64_t seed) {
    size_t room = (SAMPLE_THREADS + 1) * sizeof(double) + SAMPLE_THREADS * sizeof(float) + 16;
    return launch(gpu_of(ids), "sample", sample_row, dim(logits->shape[0]), SAMPLE_THREADS, room,
                  out<int32_t>(ids), in<float>(logits), in<int32_t>(keys), (int)logits->shape[1],
                  seed);
}

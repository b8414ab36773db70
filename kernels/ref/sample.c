/* sample.c - classes drawn from the softmax of logits.
 *
 * Shapes   logits (M, C)   keys (M, 3) i32: position, uid, epoch   ids (M) i32
 *
 *   e_c = exp(logits_c - max)     u = uniform in [0, 1), keyed by (seed, uid, epoch, position)
 *   id  = the first class at which e_0 + ... + e_c > u sum_c e_c
 */
#include <math.h>

#include "core/base/rng.h"
#include "kernels/ref/ref.h"

sr_status ref_sample(sr_tensor *ids, const sr_tensor *logits, const sr_tensor *keys,
                     uint64_t seed) {
    int64_t classes = logits->shape[1];
    for (int64_t m = 0; m < logits->shape[0]; m++) {
        const double *x = SR_DATA(double, logits) + m * classes;
        double most = x[0], sum = 0, left;
        for (int64_t c = 1; c < classes; c++) most = fmax(most, x[c]);
        for (int64_t c = 0; c < classes; c++) sum += exp(x[c] - most);
        left = sr_sample_at(SR_DATA(int32_t, keys) + 3 * m, seed) * sum;
        int32_t id = 0;
        for (int64_t c = 0; c < classes && left >= 0; c++) {
            double e = exp(x[c] - most);
            if (e > 0) id = (int32_t)c;
            left -= e;
        }
        SR_DATA(int32_t, ids)[m] = id;
    }
    return SR_OK;
}

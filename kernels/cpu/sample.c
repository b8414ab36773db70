/* sample.c - classes drawn from the softmax of logits, by the inverse of the distribution.
 *
 * Shapes    logits (M, C) f32, keys (M, 3) i32: position, uid, epoch; ids (M) i32
 * Traffic   reads a row three times, twice from the cache: 4 M C bytes.
 * Numerics  exponentials in f32, their sums in f64 in the order of the classes.
 */
#include <math.h>

#include "core/base/rng.h"
#include "kernels/cpu/cpu.h"

typedef struct job {
    int32_t *ids;
    const float *logits;
    const int32_t *keys;
    int64_t classes;
    uint64_t seed;
} job;

static sr_status sample_task(void *context, int64_t m, int worker) {
    (void)worker;
    const job *j = context;
    const float *x = j->logits + m * j->classes;
    float most = x[0];
    double sum = 0, left;
    for (int64_t c = 1; c < j->classes; c++) most = x[c] > most ? x[c] : most;
    for (int64_t c = 0; c < j->classes; c++) sum += (double)expf(x[c] - most);
    left = sr_sample_at(j->keys + 3 * m, j->seed) * sum;
    int32_t id = 0;
    for (int64_t c = 0; c < j->classes && left >= 0; c++) {
        double e = (double)expf(x[c] - most);
        if (e > 0) id = (int32_t)c;
        left -= e;
    }
    j->ids[m] = id;
    return SR_OK;
}

sr_status sr_cpu_sample(sr_tensor *ids, const sr_tensor *logits, const sr_tensor *keys,
                        uint64_t seed) {
    SR_TRY(sr_cpu_need_f32("sample", SR_TENSORS(logits)));
    job j = {SR_DATA(int32_t, ids), SR_DATA(float, logits), SR_DATA(int32_t, keys),
             logits->shape[1], seed};
    return sr_cpu_run(ids, sample_task, &j, logits->shape[0]);
}

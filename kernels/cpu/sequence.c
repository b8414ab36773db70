/* sequence.c - the mean of the rows of each sequence of a layout.
 *
 * Shapes    x, dx (T, K) f32 or bf16, y, dy (N, K) f32
 * Traffic   reads x once, writes y: 4 T K + 4 N K bytes in f32; backward the other way.
 * Order     rows are added in their order, whatever the packing: a task has a stripe of columns of
 *           one sequence; in backward it has some rows.
 * Numerics  sums in f64, rounded once.
 */
#include "kernels/cpu/cpu.h"

enum { STRIPE = 128, ROWS = 32 };

typedef struct job {
    sr_tensor *to;
    const sr_tensor *from;
    const sr_layout *layout;
    int64_t columns, stripes;
} job;

static sr_status mean_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    int64_t s = i / j->stripes, first = i % j->stripes * STRIPE;
    int64_t n = sr_least(j->columns - first, STRIPE), len = j->layout->len[s];
    int64_t at = j->layout->start[s] * j->columns + first;
    double sum[STRIPE] = {0};
    float row[STRIPE];
    for (int64_t r = 0; r < len; r++, at += j->columns) {
        const float *x = SR_DATA(float, j->from) + at;
        if (j->from->dtype != SR_F32) {
            sr_cpu_load(row, j->from, at, 1, n);
            x = row;
        }
        for (int64_t c = 0; c < n; c++) sum[c] += x[c];
    }
    float *y = SR_DATA(float, j->to) + s * j->columns + first;
    for (int64_t c = 0; c < n; c++) y[c] = (float)(sum[c] / (double)len);
    return SR_OK;
}

static sr_status spread_task(void *context, int64_t i, int worker) {
    const job *j = context;
    float *row = sr_cpu_scratch(sr_cpu_of(j->to), worker);
    int32_t filled = -1; /* the sequence whose gradient is in `row` */
    for (int64_t t = i * ROWS; t < sr_least(j->layout->rows, (i + 1) * ROWS); t++) {
        int32_t s = j->layout->owner[t];
        const float *dy = s >= 0 ? SR_DATA(float, j->from) + s * j->columns : NULL;
        if (s < 0 || s != filled)
            for (int64_t c = 0; c < j->columns; c++)
                row[c] = dy != NULL ? dy[c] / (float)j->layout->len[s] : 0.0f;
        filled = s;
        sr_cpu_store(j->to, t * j->columns, 1, row, j->columns);
    }
    return SR_OK;
}

static job job_of(sr_tensor *to, const sr_tensor *from, const sr_layout *layout) {
    int64_t columns = from->shape[1];
    return (job){to, from, layout, columns, sr_blocks(columns, STRIPE)};
}

sr_status sr_cpu_sequence_mean(sr_tensor *y, const sr_tensor *x, const sr_layout *layout) {
    SR_TRY(sr_cpu_need_f32("sequence_mean", SR_TENSORS(y)));
    SR_TRY(sr_cpu_need_f32_or_bf16("sequence_mean", SR_TENSORS(x)));
    job j = job_of(y, x, layout);
    return sr_cpu_run(y, mean_task, &j, layout->sequences * j.stripes);
}

sr_status sr_cpu_sequence_mean_backward(sr_tensor *dx, const sr_tensor *dy,
                                        const sr_layout *layout) {
    if (dx == NULL) return SR_OK;
    SR_TRY(sr_cpu_need_f32("sequence_mean_backward", SR_TENSORS(dy)));
    SR_TRY(sr_cpu_need_f32_or_bf16("sequence_mean_backward", SR_TENSORS(dx)));
    job j = job_of(dx, dy, layout);
    SR_TRY(sr_cpu_reserve(sr_cpu_of(dx), (size_t)j.columns * sizeof(float), 0));
    return sr_cpu_run(dx, spread_task, &j, sr_blocks(layout->rows, ROWS));
}

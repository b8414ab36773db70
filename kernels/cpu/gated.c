/* gated.c - one half of the columns, activated, times the other half.
 *
 * Shapes    x, dx (T, 2 F), y, dy (T, F)
 * Traffic   forward reads x and writes y: 12 T F bytes; backward reads dy and x, writes dx: 20 T F;
 *           half of that in bf16.
 */
#include "kernels/cpu/cpu.h"

enum { ROWS = 16 };

typedef struct job {
    const sr_simd *simd;
    sr_float_rows x, y, dx; /* y is dy in backward, dx NULL in forward */
    int64_t rows, cols;
    sr_act act;
    bool gate_first, bf16;
} job;

/* The halves of row r of x or dx. */
static void halves(const job *j, sr_float_rows x, int64_t r, void **activated, void **gate) {
    char *row = (char *)sr_row_at(x, r), *second = row + j->cols * (j->bf16 ? 2 : 4);
    *activated = j->gate_first ? second : row;
    *gate = j->gate_first ? row : second;
}

static sr_status gated_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    for (int64_t r = i * ROWS; r < sr_least(j->rows, (i + 1) * ROWS); r++) {
        void *a, *g, *y = sr_row_at(j->y, r);
        halves(j, j->x, r, &a, &g);
        if (j->bf16)
            j->simd->gated_bf16(y, a, g, j->cols, j->act);
        else
            j->simd->gated(y, a, g, j->cols, j->act);
    }
    return SR_OK;
}

static sr_status back_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    for (int64_t r = i * ROWS; r < sr_least(j->rows, (i + 1) * ROWS); r++) {
        void *a, *g, *da, *dg;
        const void *dy = sr_row_at(j->y, r);
        halves(j, j->x, r, &a, &g);
        halves(j, j->dx, r, &da, &dg);
        if (j->bf16)
            j->simd->gated_bf16_backward(da, dg, dy, a, g, j->cols, j->act);
        else
            j->simd->gated_backward(da, dg, dy, a, g, j->cols, j->act);
    }
    return SR_OK;
}

static job job_of(const sr_tensor *y, const sr_tensor *x, const sr_tensor *dx, sr_act act,
                  bool gate_first) {
    return (job){.simd = sr_cpu_of(y)->simd,
                 .x = sr_rows_of(x),
                 .y = sr_rows_of(y),
                 .dx = sr_rows_of(dx),
                 .rows = y->shape[0],
                 .cols = y->shape[1],
                 .act = act,
                 .gate_first = gate_first,
                 .bf16 = y->dtype == SR_BF16};
}

sr_status sr_cpu_gated(sr_tensor *y, const sr_tensor *x, sr_act act, bool gate_first) {
    SR_TRY(sr_cpu_need_f32_or_bf16("gated", SR_TENSORS(y, x)));
    job j = job_of(y, x, NULL, act, gate_first);
    return sr_cpu_run(y, gated_task, &j, sr_blocks(j.rows, ROWS));
}

sr_status sr_cpu_gated_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x, sr_act act,
                                bool gate_first) {
    SR_TRY(sr_cpu_need_f32_or_bf16("gated", SR_TENSORS(dx, dy, x)));
    if (dx == NULL) return SR_OK;
    job j = job_of(dy, x, dx, act, gate_first);
    return sr_cpu_run(dx, back_task, &j, sr_blocks(j.rows, ROWS));
}

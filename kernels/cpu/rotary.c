/* rotary.c - rotary positions of query and key heads; backward turns the other way.
 *
 * Shapes    x, y (T, C), of which `heads` x D columns are turned, table (positions, D) f32
 * Traffic   in place it reads and writes the heads that turn: 8 T (A + K) D bytes, half of that in
 *           bf16; else all of x and y.  A row of the table serves all heads of a token.
 * Numerics  f32; bf16 is rounded once.
 */
#include "kernels/cpu/cpu.h"

enum { ROWS = 64 };

typedef struct job {
    const sr_simd *simd;
    sr_float_rows x, y;
    const float *table;
    const int32_t *at; /* position of each row */
    const sr_layout *layout;
    int64_t size, turned; /* columns of a head; that turn */
    bool inverse;
} job;

static sr_status rotary_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    size_t element = j->y.bf16 ? sizeof(sr_bf16) : sizeof(float);
    for (int64_t r = i * ROWS; r < sr_least(j->layout->rows, (i + 1) * ROWS); r++) {
        if (j->layout->owner[r] < 0) {
            sr_row_clear(j->y, r);
            continue;
        }
        char *y = (char *)sr_row_at(j->y, r);
        const char *x = (const char *)sr_row_at(j->x, r);
        sr_turn turn = {.table = j->table + j->at[r] * j->size,
                        .half = j->size / 2,
                        .heads = j->turned / j->size,
                        .inverse = j->inverse};
        if (j->y.bf16)
            j->simd->rotary_bf16((sr_bf16 *)y, (const sr_bf16 *)x, &turn);
        else
            j->simd->rotary((float *)y, (const float *)x, &turn);
        size_t from = (size_t)j->turned * element;
        if (y != x) memcpy(y + from, x + from, (size_t)j->y.cols * element - from);
    }
    return SR_OK;
}

static sr_status check_positions(const int32_t *at, const sr_layout *layout, int64_t limit) {
    for (int64_t r = 0; r < layout->rows; r++)
        if (layout->owner[r] >= 0 && (at[r] < 0 || at[r] >= limit))
            return sr_fail(SR_EINVAL, "rotary: positions[%lld] is %d, but the limit is %lld",
                           (long long)r, at[r], (long long)limit);
    return SR_OK;
}

sr_status sr_cpu_rotary(sr_tensor *y, const sr_tensor *x, const sr_tensor *table,
                        const sr_tensor *positions, const sr_layout *layout, int heads,
                        bool inverse) {
    SR_TRY(sr_cpu_need_f32_or_bf16("rotary", SR_TENSORS(y, x)));
    const int32_t *at = positions != NULL ? SR_DATA(int32_t, positions) : layout->position;
    if (positions != NULL) SR_TRY(check_positions(at, layout, table->shape[0]));
    job j = {.simd = sr_cpu_of(y)->simd,
             .x = sr_rows_of(x),
             .y = sr_rows_of(y),
             .table = SR_DATA(float, table),
             .at = at,
             .layout = layout,
             .size = table->shape[1],
             .turned = heads * table->shape[1],
             .inverse = inverse};
    return sr_cpu_run(y, rotary_task, &j, sr_blocks(layout->rows, ROWS));
}

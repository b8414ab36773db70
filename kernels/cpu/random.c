/* random.c - keyed random tensors, and dropout on rows of a layout.
 *
 * Traffic   random writes y; dropout reads x and writes y, 8 T H bytes.
 * Work      one Philox call per 4 random elements or 16 dropout decisions.
 */
#include <math.h>

#include "kernels/cpu/cpu.h"

typedef struct source {
    sr_random kind;
    uint64_t seed;
    uint32_t uid, purpose, epoch;
    double a, b;
} source;

static sr_u32x4 draw(const source *s, int64_t block, uint32_t attempt) {
    sr_u32x4 counter = {{(uint32_t)block, s->uid, s->purpose << 24 | (uint32_t)(block >> 32),
                         s->epoch + (attempt << 24)}};
    return sr_philox(counter, s->seed, SR_ROUNDS_DATA);
}

/* Element `which` of a block's two Box-Muller pairs. */
static double normal(sr_u32x4 w, int which) {
    int pair = which & 2;
    double radius = sqrt(-2.0 * log(1.0 - (double)sr_unit(w.w[pair])));
    double angle = 6.283185307179586 * (double)sr_unit(w.w[pair + 1]);
    return radius * (which & 1 ? sin(angle) : cos(angle));
}

static float element(const source *s, int64_t i, sr_u32x4 w) {
    int which = (int)(i & 3);
    if (s->kind == SR_UNIFORM) return (float)(s->a + (s->b - s->a) * (double)sr_unit(w.w[which]));
    double z = normal(w, which);
    for (uint32_t attempt = 1; s->kind == SR_TRUNCATED_NORMAL && fabs(z) > 2.0; attempt++)
        z = normal(draw(s, i >> 2, attempt), which);
    return (float)(s->a + s->b * z);
}

static void run_random(const void *context, void *y, const void *const *x, int64_t first,
                       int64_t n) {
    (void)x;
    const source *s = context;
    float *to = y;
    sr_u32x4 w = draw(s, first >> 2, 0);
    for (int64_t i = first; i < first + n; i++) {
        if ((i & 3) == 0) w = draw(s, i >> 2, 0);
        to[i - first] = element(s, i, w);
    }
}

sr_status sr_cpu_random(sr_tensor *y, sr_random kind, uint64_t seed, sr_purpose purpose,
                        uint32_t uid, uint32_t epoch, double a, double b) {
    source s = {kind, seed, uid, (uint32_t)purpose, epoch, a, b};
    return sr_cpu_map("random", y, 0, NULL, SR_KIND_REAL, run_random, &s);
}

/* ---- dropout --------------------------------------------------------------------------------- */

enum { ROWS = 32 };

sr_key sr_cpu_key(const sr_layout *layout, int32_t s, sr_dropout drop, uint32_t head) {
    sr_u32x4 c = sr_counter(0, 0, layout->uid[s], drop.purpose, drop.layer, head, layout->epoch[s]);
    return (sr_key){layout->seed, c.w[1], c.w[2], c.w[3], drop.keep};
}

typedef struct job {
    const sr_cpu_state *cpu;
    sr_float_rows y, x;
    const sr_layout *layout;
    sr_dropout drop;
} job;

static sr_status drop_task(void *context, int64_t i, int worker) {
    const job *j = context;
    const sr_simd *simd = j->cpu->simd;
    float *room = sr_cpu_scratch(j->cpu, worker);
    uint32_t *words = (uint32_t *)(room + j->x.cols);
    for (int64_t r = i * ROWS; r < sr_least(j->layout->rows, (i + 1) * ROWS); r++) {
        int32_t owner = j->layout->owner[r];
        if (owner < 0) {
            sr_row_clear(j->y, r);
            continue;
        }
        sr_key key = sr_cpu_key(j->layout, owner, j->drop, 0);
        const float *x = sr_row_in(simd, j->x, r, room);
        float *y = sr_row_out(j->y, r, room);
        simd->drop_row(y, x, j->x.cols, &key, j->layout->position[r], words);
        sr_row_done(simd, j->y, r, y);
    }
    return SR_OK;
}

sr_status sr_cpu_dropout(sr_tensor *y, const sr_tensor *x, const sr_layout *layout,
                         sr_dropout drop) {
    if (drop.keep >= 256) return sr_cpu_copy(y, x);
    SR_TRY(sr_cpu_need_f32_or_bf16("dropout", SR_TENSORS(y, x)));
    sr_cpu_state *cpu = sr_cpu_of(y);
    int64_t cols = x->shape[1];
    SR_TRY(sr_cpu_reserve(cpu, (size_t)(cols + sr_drop_room(cols)) * sizeof(float), 0));
    job j = {cpu, sr_rows_of(y), sr_rows_of(x), layout, drop};
    return sr_cpu_run(y, drop_task, &j, sr_blocks(layout->rows, ROWS));
}

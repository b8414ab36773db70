/* attention.c - packed self-attention: one task per sequence and head, longest first.
 *
 * Shapes    qkv, dqkv (T, 3 H), out, dout (T, H), lse (A, T)
 * Work      4 A D sum len^2 flops forward, 10 A D sum len^2 backward (layout->squares)
 * Traffic   16 T H bytes forward, 32 T H backward: compute bound for len >= 64
 * Measured  by `build/seqrun recipes/bench/ops.lua op=attention`
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef struct job {
    const sr_cpu_state *cpu;
    const sr_layout *layout;
    sr_dropout drop;
    const float *qkv, *dout;
    float *out, *lse, *dqkv;
    int64_t heads, d;
    float scale;
    bool low; /* the tensors are bf16 */
} job;

static sr_attention_unit unit(const job *j, int64_t i, int worker) {
    const sr_layout *l = j->layout;
    int32_t s = l->longest_first[i / j->heads];
    int64_t head = i % j->heads, start = l->start[s], h = j->heads * j->d;
    const float *q = j->qkv + start * 3 * h + head * j->d;
    sr_attention_unit u = {.q = q,
                           .k = q + h,
                           .v = q + 2 * h,
                           .out = j->out + start * h + head * j->d,
                           .lse = j->lse + head * l->rows + start,
                           .ld = 3 * h,
                           .ldo = h,
                           .n = l->len[s],
                           .d = j->d,
                           .scale = j->scale,
                           .low = j->low,
                           .key = sr_cpu_key(l, s, j->drop, (uint32_t)head),
                           .room = sr_cpu_scratch(j->cpu, worker)};
    if (j->dqkv != NULL) {
        u.dout = j->dout + start * h + head * j->d;
        u.dq = j->dqkv + start * 3 * h + head * j->d;
        u.dk = u.dq + h;
        u.dv = u.dq + 2 * h;
    }
    return u;
}

static sr_status unit_task(void *context, int64_t i, int worker) {
    const job *j = context;
    sr_attention_unit u = unit(j, i, worker);
    if (j->dqkv != NULL)
        j->cpu->simd->attention_backward(&u);
    else
        j->cpu->simd->attention(&u);
    return SR_OK;
}

static void clear_slack(float *x, int64_t width, const sr_layout *layout) {
    for (int64_t r = 0; r < layout->rows; r++)
        if (layout->owner[r] < 0) memset(x + r * width, 0, (size_t)width * sizeof *x);
}

static sr_status run(const sr_tensor *t, job *j) {
    sr_cpu_state *cpu = sr_cpu_of(t);
    size_t each = (size_t)cpu->simd->attention_room(j->layout->longest, j->d, j->dqkv != NULL);
    SR_TRY(sr_cpu_reserve(cpu, each, 0));
    j->cpu = cpu;
    return sr_cpu_run(t, unit_task, j, j->layout->sequences * j->heads);
}

sr_status sr_cpu_attention(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv,
                           const sr_layout *layout, int heads, double scale, sr_dropout drop) {
    sr_cpu_wide f32;
    const sr_tensor *all[] = {out, lse, qkv};
    SR_TRY(sr_cpu_widen(&f32, "attention", all, 3, 2));
    out = f32.t[0], lse = f32.t[1], qkv = f32.t[2];
    int64_t h = out->shape[1];
    job j = {.layout = layout,
             .drop = drop,
             .low = all[2]->dtype == SR_BF16,
             .qkv = SR_DATA(float, qkv),
             .out = SR_DATA(float, out),
             .lse = SR_DATA(float, lse),
             .heads = heads,
             .d = h / heads,
             .scale = (float)scale};
    clear_slack(j.out, h, layout);
    for (int64_t r = 0; r < layout->rows; r++)
        for (int64_t a = 0; layout->owner[r] < 0 && a < heads; a++)
            j.lse[a * layout->rows + r] = 0.0f;
    SR_TRY(run(out, &j));
    return sr_cpu_round(&f32);
}

sr_status sr_cpu_attention_backward(sr_tensor *dqkv, const sr_tensor *dout, const sr_tensor *qkv,
                                    const sr_tensor *out, const sr_tensor *lse,
                                    const sr_layout *layout, int heads, double scale,
                                    sr_dropout drop) {
    sr_cpu_wide f32;
    const sr_tensor *all[] = {dqkv, dout, qkv, out, lse};
    SR_TRY(sr_cpu_widen(&f32, "attention", all, 5, 1));
    dqkv = f32.t[0], dout = f32.t[1], qkv = f32.t[2], out = f32.t[3], lse = f32.t[4];
    int64_t h = out->shape[1];
    job j = {.layout = layout,
             .drop = drop,
             .low = all[2]->dtype == SR_BF16,
             .qkv = SR_DATA(float, qkv),
             .dout = SR_DATA(float, dout),
             .out = SR_DATA(float, out),
             .lse = SR_DATA(float, lse),
             .dqkv = SR_DATA(float, dqkv),
             .heads = heads,
             .d = h / heads,
             .scale = (float)scale};
    clear_slack(j.dqkv, 3 * h, layout);
    SR_TRY(run(dqkv, &j));
    return sr_cpu_round(&f32);
}

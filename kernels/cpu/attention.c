/* attention.c - packed self-attention: a task is one head of a sequence, or all heads of a short
 * one; longest first.
 *
 * Shapes    qkv, dqkv (T, 3 H), out, dout (T, H), lse (A, T)
 * Work      4 A D sum len^2 flops forward, 10 A D sum len^2 backward (layout->squares)
 * Traffic   16 T H bytes forward, 32 T H backward, half of that in bf16: compute bound for
 *           len >= 64; a short task prefetches the rows of its next head
 * bf16      instruction sets that multiply bf16 read it in place (simd/attention_bf16.c); on others
 *           a unit converts its rows to f32 in its scratch, and rounds what it writes
 * Measured  by `build/seqrun recipes/bench/ops.lua op=attention`
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { WHOLE = 64 }; /* the longest sequences that are one task */

typedef struct job {
    const sr_cpu_state *cpu;
    const sr_layout *layout;
    sr_dropout drop;
    const void *qkv, *dout; /* of one dtype, like out and dqkv */
    void *out, *dqkv;
    float *lse;
    int64_t heads, d, long_sequences;
    float scale;
    bool bf16; /* bf16 */
} job;

/* The operands of sequence s and a head: in place. */
static sr_attention_unit unit(const job *j, int32_t s, int64_t head, int worker) {
    const sr_layout *l = j->layout;
    int64_t start = l->start[s], h = j->heads * j->d;
    int64_t at = start * 3 * h + head * j->d, at_out = start * h + head * j->d;
    bool bf16 = j->bf16;
    sr_attention_unit u = {.q = sr_operand_at(j->qkv, bf16, at),
                           .k = sr_operand_at(j->qkv, bf16, at + h),
                           .v = sr_operand_at(j->qkv, bf16, at + 2 * h),
                           .out = (float *)sr_operand_at(j->out, bf16, at_out),
                           .lse = j->lse + head * l->rows + start,
                           .ld = 3 * h,
                           .ldo = h,
                           .n = l->len[s],
                           .d = j->d,
                           .scale = j->scale,
                           .bf16 = bf16,
                           .key = sr_cpu_key(l, s, j->drop, (uint32_t)head),
                           .room = sr_cpu_scratch(j->cpu, worker)};
    if (j->dqkv != NULL) {
        u.dout = sr_operand_at(j->dout, bf16, at_out);
        u.dq = (float *)sr_operand_at(j->dqkv, bf16, at);
        u.dk = (float *)sr_operand_at(j->dqkv, bf16, at + h);
        u.dv = (float *)sr_operand_at(j->dqkv, bf16, at + 2 * h);
    }
    return u;
}

/* ---- bf16 that is multiplied in f32 ---------------------------------------------------------- */

enum { LINE = 16, MATRICES = 8 }; /* floats; q, k, v, out, dout, dq, dk, dv */

/* Floats between the f32 copies of a unit's matrices. */
static int64_t copy_step(int64_t n, int64_t d) {
    return sr_blocks(n * d, LINE) * LINE;
}

static const float *widen(const sr_simd *simd, const float *bf16, int64_t ld, float *to, int64_t n,
                          int64_t d) {
    for (int64_t r = 0; r < n; r++) simd->widen(to + r * d, (const sr_bf16 *)bf16 + r * ld, d);
    return to;
}

static void narrow(const sr_simd *simd, float *bf16, int64_t ld, const float *from, int64_t n,
                   int64_t d) {
    for (int64_t r = 0; r < n; r++) simd->narrow((sr_bf16 *)bf16 + r * ld, from + r * d, d);
}

/* Computes a unit of bf16 tensors on copies in `copies`, and rounds what it wrote. */
static void run_bf16(const sr_simd *simd, const sr_attention_unit *bf16, float *copies) {
    int64_t n = bf16->n, d = bf16->d, step = copy_step(n, d);
    sr_attention_unit u = *bf16;
    u.ld = u.ldo = d;
    u.q = widen(simd, bf16->q, bf16->ld, copies, n, d);
    u.k = widen(simd, bf16->k, bf16->ld, copies + step, n, d);
    u.v = widen(simd, bf16->v, bf16->ld, copies + 2 * step, n, d);
    u.out = copies + 3 * step;
    if (bf16->dout == NULL) {
        simd->attention(&u);
        narrow(simd, bf16->out, bf16->ldo, u.out, n, d);
        return;
    }
    widen(simd, bf16->out, bf16->ldo, u.out, n, d);
    u.dout = widen(simd, bf16->dout, bf16->ldo, copies + 4 * step, n, d);
    u.dq = copies + 5 * step, u.dk = copies + 6 * step, u.dv = copies + 7 * step;
    simd->attention_backward(&u);
    narrow(simd, bf16->dq, bf16->ld, u.dq, n, d);
    narrow(simd, bf16->dk, bf16->ld, u.dk, n, d);
    narrow(simd, bf16->dv, bf16->ld, u.dv, n, d);
}

/* ---- the job --------------------------------------------------------------------------------- */

/* Whether the products are of bf16. */
static bool in_bf16(const job *j) {
    return j->bf16 && j->cpu->simd->bf16_rows > 0;
}

static size_t f32_room(const job *j) {
    return (size_t)j->cpu->simd->attention_room(j->layout->longest, j->d, j->dqkv != NULL);
}

/* What any unit of the job needs. */
static size_t most_room(const job *j) {
    const sr_simd *simd = j->cpu->simd;
    bool backward = j->dqkv != NULL;
    if (in_bf16(j)) return (size_t)simd->attention_bf16_room(j->layout->longest, j->d, backward);
    size_t room = (size_t)simd->attention_short_room(j->d, backward);
    if (j->long_sequences == 0) return room;
    int64_t copies = j->bf16 ? MATRICES * copy_step(j->layout->longest, j->d) : 0;
    size_t most = f32_room(j) + (size_t)copies * sizeof(float);
    return most > room ? most : room;
}

static void compute(const job *j, const sr_attention_unit *u) {
    const sr_simd *simd = j->cpu->simd;
    bool backward = j->dqkv != NULL;
    if (in_bf16(j))
        (backward ? simd->attention_bf16_backward : simd->attention_bf16)(u);
    else if (u->n <= SR_ATTENTION_SHORT)
        (backward ? simd->attention_short_backward : simd->attention_short)(u);
    else if (j->bf16)
        run_bf16(simd, u, (float *)((char *)u->room + f32_room(j)));
    else
        (backward ? simd->attention_backward : simd->attention)(u);
}

static void compute_heads(const job *j, int32_t s, int64_t first, int64_t last, int worker) {
    const sr_simd *simd = j->cpu->simd;
    if (in_bf16(j)) simd->bf16_begin();
    for (int64_t head = first; head < last; head++) {
        sr_attention_unit u = unit(j, s, head, worker);
        u.ahead = head + 1 < last ? j->d : 0;
        compute(j, &u);
    }
    if (in_bf16(j)) simd->bf16_end();
}

static sr_status task(void *context, int64_t i, int worker) {
    const job *j = context;
    const int32_t *order = j->layout->longest_first;
    int64_t units = j->long_sequences * j->heads, head = i % j->heads;
    if (i < units)
        compute_heads(j, order[i / j->heads], head, head + 1, worker);
    else
        compute_heads(j, order[j->long_sequences + i - units], 0, j->heads, worker);
    return SR_OK;
}

/* Sequences up to the last one whose heads are tasks of their own, in the order of the layout. */
static int64_t long_sequences(const sr_layout *l) {
    int64_t count = l->sequences;
    while (count > 0 && l->len[l->longest_first[count - 1]] <= WHOLE) count--;
    return count;
}

static void clear_slack(const sr_tensor *t, const sr_layout *layout) {
    sr_rows rows = sr_rows_of(t);
    for (int64_t r = 0; r < layout->rows; r++)
        if (layout->owner[r] < 0) sr_row_clear(rows, r);
}

static sr_status run(const sr_tensor *t, job *j) {
    sr_cpu_state *cpu = sr_cpu_of(t);
    j->cpu = cpu;
    j->long_sequences = long_sequences(j->layout);
    SR_TRY(sr_cpu_reserve(cpu, most_room(j), 0));
    return sr_cpu_run(t, task, j,
                      j->long_sequences * j->heads + j->layout->sequences - j->long_sequences);
}

static sr_status check_options(const sr_attention_opts *o) {
    if (o->window < 0 && !o->causal && o->kv_heads == o->heads) return SR_OK;
    return sr_fail(SR_EDEVICE, "attention: windows, causal masks and shared key heads are not "
                               "implemented for cpu; use device ref");
}

sr_status sr_cpu_attention(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv,
                           const sr_layout *layout, sr_attention_opts opts) {
    SR_TRY(check_options(&opts));
    const sr_tensor *all[] = {out, qkv, lse};
    SR_TRY(sr_cpu_need_f32_or_bf16("attention", all, 2));
    SR_TRY(sr_cpu_need_f32("attention", all + 2, 1));
    job j = {.layout = layout,
             .drop = opts.drop,
             .bf16 = qkv->dtype == SR_BF16,
             .qkv = sr_tensor_data(qkv),
             .out = sr_tensor_data(out),
             .lse = SR_DATA(float, lse),
             .heads = opts.heads,
             .d = out->shape[1] / opts.heads,
             .scale = (float)opts.scale};
    clear_slack(out, layout);
    for (int64_t r = 0; r < layout->rows; r++)
        for (int64_t a = 0; layout->owner[r] < 0 && a < opts.heads; a++)
            j.lse[a * layout->rows + r] = 0.0f;
    return run(out, &j);
}

sr_status sr_cpu_attention_backward(sr_tensor *dqkv, const sr_tensor *dout, const sr_tensor *qkv,
                                    const sr_tensor *out, const sr_tensor *lse,
                                    const sr_layout *layout, sr_attention_opts opts) {
    SR_TRY(check_options(&opts));
    const sr_tensor *all[] = {dqkv, dout, qkv, out, lse};
    SR_TRY(sr_cpu_need_f32_or_bf16("attention", all, 4));
    SR_TRY(sr_cpu_need_f32("attention", all + 4, 1));
    job j = {.layout = layout,
             .drop = opts.drop,
             .bf16 = qkv->dtype == SR_BF16,
             .qkv = sr_tensor_data(qkv),
             .dout = sr_tensor_data(dout),
             .out = sr_tensor_data(out),
             .lse = SR_DATA(float, lse),
             .dqkv = sr_tensor_data(dqkv),
             .heads = opts.heads,
             .d = out->shape[1] / opts.heads,
             .scale = (float)opts.scale};
    clear_slack(dqkv, layout);
    return run(dqkv, &j);
}

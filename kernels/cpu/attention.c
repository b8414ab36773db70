/* attention.c - packed self-attention: a task is some heads of a sequence, all of a short one;
 * longest first.
 *
 * Shapes    qkv, dqkv (T, (A + 2 K) D), out, dout (T, A D), lse (A, T); of M listed queries
 *           out, dout (M, A D), lse (A, M)
 * Heads     where query heads share a key head, a task of the backward pass has all of them, one
 *           after another, and adds up their dK and dV
 * Work      4 A D flops forward, 10 A D backward for each pair that is kept (sr_layout_scores())
 * Traffic   16 T H bytes forward, 32 T H backward, half of that in bf16: compute bound for
 *           len >= 64; a task prefetches the rows of its next head
 * bf16      instruction sets that multiply bf16 read it in place (simd/attention_bf16.c); on others
 *           a unit converts its rows to f32 in its scratch, and rounds what it writes
 * Queries   that are listed are copied side by side, and their gradients put back
 * Measured  by `build/seqrun recipes/bench/ops.lua op=attention`
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { WHOLE = 64 };                 /* the longest sequences that are one task */
enum { LINE_BYTES = 64, PARTS = 8 }; /* PARTS: tasks of a thread, at least */

typedef struct job {
    const sr_cpu_state *cpu;
    const sr_layout *layout;
    const sr_attention_opts *opts;
    const void *qkv, *dout; /* of one dtype, like out and dqkv */
    void *out, *dqkv;
    float *lse;
    const int32_t *rows; /* listed queries, or NULL: all rows */
    int64_t queries;     /* rows of out */
    int32_t *first;      /* (N + 1) of `rows`: the first of each sequence */
    int32_t *position;   /* (M) of `rows`: positions in their sequences */
    int64_t d, long_sequences;
    int units, members; /* of a sequence; query heads of a unit */
    int together;       /* units of a long sequence that are one task */
    bool bf16;
    size_t room; /* that a unit's functions need */
} job;

/* What all units of n rows have in common. */
static sr_attention_unit outline(const job *j, int64_t n) {
    const sr_attention_opts *o = j->opts;
    int64_t far = o->window >= 0 && o->window < n ? o->window : n;
    int64_t ld = (o->heads + 2 * (int64_t)o->kv_heads) * j->d;
    return (sr_attention_unit){.ld = ld,
                               .ldq = ld,
                               .ldo = o->heads * j->d,
                               .n = n,
                               .queries = n,
                               .position = j->position,
                               .d = j->d,
                               .before = far,
                               .after = o->causal ? 0 : far,
                               .members = j->members,
                               .scale = (float)o->scale,
                               .bf16 = j->bf16};
}

/* The operands of sequence s and a query head: in place. */
static sr_attention_unit unit(const job *j, int32_t s, int head, int worker) {
    const sr_layout *l = j->layout;
    const sr_attention_opts *o = j->opts;
    int64_t start = l->start[s], shared = head / (o->heads / o->kv_heads), first = start;
    bool bf16 = j->bf16;
    sr_attention_unit u = outline(j, l->len[s]);
    if (j->rows != NULL) {
        first = j->first[s];
        u.queries = j->first[s + 1] - first;
        u.position = j->position + first;
    }
    int64_t q = start * u.ld + head * j->d, out = first * u.ldo + head * j->d;
    int64_t k = start * u.ld + (o->heads + shared) * j->d, v = k + o->kv_heads * j->d;
    u.q = sr_operand_at(j->qkv, bf16, q);
    u.k = sr_operand_at(j->qkv, bf16, k);
    u.v = sr_operand_at(j->qkv, bf16, v);
    u.out = (float *)sr_operand_at(j->out, bf16, out);
    u.lse = j->lse + head * j->queries + first;
    u.member = head % j->members;
    u.key = sr_cpu_key(l, s, o->drop, (uint32_t)head);
    u.room = sr_cpu_scratch(j->cpu, worker);
    if (j->dqkv != NULL) {
        u.dout = sr_operand_at(j->dout, bf16, out);
        u.dq = (float *)sr_operand_at(j->dqkv, bf16, q);
        u.dk = (float *)sr_operand_at(j->dqkv, bf16, k);
        u.dv = (float *)sr_operand_at(j->dqkv, bf16, v);
    }
    return u;
}

/* ---- bf16 that is multiplied in f32 ---------------------------------------------------------- */

enum { LINE = LINE_BYTES / sizeof(float), MATRICES = 8 }; /* q, k, v, out, dout, dq, dk, dv */

/* Floats between the f32 copies of a unit's matrices. */
static int64_t copy_step(int64_t n, int64_t d) {
    return sr_round_up(n * d, LINE);
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
    int64_t n = bf16->n, queries = bf16->queries, d = bf16->d, step = copy_step(n, d);
    sr_attention_unit u = *bf16;
    u.ld = u.ldq = u.ldo = d, u.ahead = 0;
    u.q = widen(simd, bf16->q, bf16->ldq, copies, queries, d);
    u.k = widen(simd, bf16->k, bf16->ld, copies + step, n, d);
    u.v = widen(simd, bf16->v, bf16->ld, copies + 2 * step, n, d);
    u.out = copies + 3 * step;
    if (bf16->dout == NULL) {
        simd->attention(&u);
        narrow(simd, bf16->out, bf16->ldo, u.out, queries, d);
        return;
    }
    widen(simd, bf16->out, bf16->ldo, u.out, queries, d);
    u.dout = widen(simd, bf16->dout, bf16->ldo, copies + 4 * step, queries, d);
    u.dq = copies + 5 * step, u.dk = copies + 6 * step, u.dv = copies + 7 * step;
    simd->attention_backward(&u);
    narrow(simd, bf16->dq, bf16->ldq, u.dq, queries, d);
    if (u.member < u.members - 1) return;
    narrow(simd, bf16->dk, bf16->ld, u.dk, n, d);
    narrow(simd, bf16->dv, bf16->ld, u.dv, n, d);
}

/* ---- a unit ---------------------------------------------------------------------------------- */

/* Whether the products are of bf16. */
static bool in_bf16(const job *j) {
    return j->bf16 && j->cpu->simd->bf16_rows > 0;
}

/* What the longest unit of the job needs, but for copies in f32. */
static size_t f32_room(const job *j) {
    sr_attention_unit longest = outline(j, j->layout->longest);
    return (size_t)j->cpu->simd->attention_room(&longest, j->dqkv != NULL);
}

/* Whether a unit is for the functions of short sequences. */
static bool is_short(const job *j, int64_t n) {
    return n <= SR_ATTENTION_SHORT && (j->dqkv == NULL || j->members == 1);
}

/* What any unit of the job needs. */
static size_t most_room(const job *j) {
    const sr_simd *simd = j->cpu->simd;
    bool backward = j->dqkv != NULL;
    sr_attention_unit longest = outline(j, j->layout->longest);
    if (in_bf16(j)) return (size_t)simd->attention_bf16_room(&longest, backward);
    size_t room = (size_t)simd->attention_short_room(j->d, backward);
    if (is_short(j, longest.n)) return room;
    int64_t copies = j->bf16 ? MATRICES * copy_step(longest.n, j->d) : 0;
    size_t most = f32_room(j) + (size_t)copies * sizeof(float);
    return most > room ? most : room;
}

static void compute(const job *j, const sr_attention_unit *u) {
    const sr_simd *simd = j->cpu->simd;
    bool backward = j->dqkv != NULL;
    if (in_bf16(j))
        (backward ? simd->attention_bf16_backward : simd->attention_bf16)(u);
    else if (is_short(j, u->n))
        (backward ? simd->attention_short_backward : simd->attention_short)(u);
    else if (j->bf16)
        run_bf16(simd, u, (float *)((char *)u->room + f32_room(j)));
    else
        (backward ? simd->attention_backward : simd->attention)(u);
}

/* ---- listed queries -------------------------------------------------------------------------- */

/* Where the queries of each sequence begin, and their positions. */
static void list_queries(job *j) {
    const sr_layout *l = j->layout;
    int32_t m = 0;
    for (int32_t s = 0; s < l->sequences; s++) {
        j->first[s] = m;
        for (; m < j->queries && l->owner[j->rows[m]] == s; m++)
            j->position[m] = l->position[j->rows[m]];
    }
    j->first[l->sequences] = m;
}

static size_t row_bytes(bool bf16, int64_t d) {
    return (size_t)d * (bf16 ? sizeof(sr_bf16) : sizeof(float));
}

/* Bytes of copies of the longest sequence's queries and of their gradients. */
static size_t copied_bytes(const job *j) {
    return j->rows == NULL ? 0 : 2 * (size_t)j->layout->longest * row_bytes(j->bf16, j->d);
}

static void clear_rows(const sr_attention_unit *u, float *x) {
    for (int64_t i = 0; i < u->n; i++)
        memset((void *)sr_operand_at(x, u->bf16, i * u->ld), 0, row_bytes(u->bf16, u->d));
}

/* Computes a unit, whose q and dq are rows of its sequence, on copies of its queries. */
static void compute_listed(const job *j, const sr_attention_unit *given) {
    sr_attention_unit u = *given;
    size_t row = row_bytes(u.bf16, u.d);
    char *copy = (char *)u.room + j->room, *made = copy + copied_bytes(j) / 2;
    for (int64_t i = 0; i < u.queries; i++)
        memcpy(copy + (size_t)i * row, sr_operand_at(u.q, u.bf16, u.position[i] * u.ld), row);
    u.q = (float *)copy, u.dq = (float *)made, u.ldq = u.d;
    if (u.queries > 0) compute(j, &u);
    if (j->dqkv == NULL) return;
    clear_rows(given, given->dq);
    for (int64_t i = 0; i < u.queries; i++)
        memcpy((void *)sr_operand_at(given->dq, u.bf16, u.position[i] * u.ld),
               made + (size_t)i * row, row);
    if (u.queries > 0) return;
    clear_rows(given, given->dk);
    clear_rows(given, given->dv);
}

/* ---- the job --------------------------------------------------------------------------------- */

static void compute_heads(const job *j, int32_t s, int first, int last, int worker) {
    const sr_simd *simd = j->cpu->simd;
    bool follow = j->opts->kv_heads == j->opts->heads; /* q, k and v of the next head */
    if (in_bf16(j)) simd->bf16_begin();
    for (int head = first; head < last; head++) {
        sr_attention_unit u = unit(j, s, head, worker);
        u.ahead = follow && head + 1 < last ? j->d : 0;
        (j->rows != NULL ? compute_listed : compute)(j, &u);
    }
    if (in_bf16(j)) simd->bf16_end();
}

/* Tasks of a long sequence. */
static int64_t tasks_each(const job *j) {
    return sr_blocks(j->units, j->together);
}

static sr_status task(void *context, int64_t i, int worker) {
    const job *j = context;
    const int32_t *order = j->layout->longest_first;
    int64_t each = tasks_each(j), tasks = j->long_sequences * each;
    int64_t first = i % each * j->together, last = sr_least(first + j->together, j->units);
    if (i < tasks)
        compute_heads(j, order[i / each], (int)first * j->members, (int)last * j->members, worker);
    else
        compute_heads(j, order[j->long_sequences + i - tasks], 0, j->opts->heads, worker);
    return SR_OK;
}

/* Sequences up to the last one whose heads are tasks of their own, in the order of the layout. */
static int64_t long_sequences(const sr_layout *l) {
    int64_t count = l->sequences;
    while (count > 0 && l->len[l->longest_first[count - 1]] <= WHOLE) count--;
    return count;
}

/* As many as leave every thread PARTS tasks of the longest sequence's size: each but the first
 * finds its rows in the cache.  Query heads that share keys do not ask for them.  Tasks that are
 * recorded predict those on more threads. */
static int units_together(const job *j, const sr_device *device) {
    const sr_layout *l = j->layout;
    if (j->cpu->jobs != NULL || j->opts->heads != j->opts->kv_heads || l->longest == 0) return 1;
    int64_t parts = (int64_t)PARTS * sr_threads_count(device->threads);
    int64_t sequences = l->squares / ((int64_t)l->longest * l->longest);
    int64_t most = sequences * j->units / parts;
    return (int)(most < 1 ? 1 : sr_least(most, j->units));
}

static void clear_slack(const sr_tensor *t, const sr_layout *layout) {
    sr_float_rows rows = sr_rows_of(t);
    for (int64_t r = 0; r < layout->rows; r++)
        if (layout->owner[r] < 0) sr_row_clear(rows, r);
}

/* Lists the queries in the memory that an op's tasks share. */
static sr_status take_queries(sr_cpu_state *cpu, job *j, const sr_tensor *rows) {
    int64_t ends = j->layout->sequences + 1;
    j->rows = SR_DATA(const int32_t, rows);
    j->queries = rows->shape[0];
    SR_TRY(sr_layout_check_rows("attention", j->layout, j->rows, j->queries));
    SR_TRY(sr_cpu_reserve(cpu, 0, (size_t)(ends + j->queries) * sizeof *j->first));
    j->first = cpu->shared.data;
    j->position = j->first + ends;
    list_queries(j);
    return SR_OK;
}

static sr_status run(const sr_tensor *t, job *j, const sr_tensor *rows) {
    sr_cpu_state *cpu = sr_cpu_of(t);
    const sr_layout *l = j->layout;
    j->cpu = cpu;
    j->units = j->dqkv != NULL ? j->opts->kv_heads : j->opts->heads;
    j->members = j->opts->heads / j->units;
    j->long_sequences = long_sequences(l);
    j->together = units_together(j, t->storage->device);
    j->queries = l->rows;
    if (rows != NULL) SR_TRY(take_queries(cpu, j, rows));
    j->room = (most_room(j) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    SR_TRY(sr_cpu_reserve(cpu, j->room + copied_bytes(j), 0));
    return sr_cpu_run(t, task, j,
                      j->long_sequences * tasks_each(j) + l->sequences - j->long_sequences);
}

sr_status sr_cpu_attention(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv,
                           const sr_tensor *rows, const sr_layout *layout, sr_attention_opts opts) {
    SR_TRY(sr_cpu_need_f32_or_bf16("attention", SR_TENSORS(out, qkv)));
    SR_TRY(sr_cpu_need_f32("attention", SR_TENSORS(lse)));
    job j = {.layout = layout,
             .opts = &opts,
             .bf16 = qkv->dtype == SR_BF16,
             .qkv = sr_tensor_data(qkv),
             .out = sr_tensor_data(out),
             .lse = SR_DATA(float, lse),
             .d = out->shape[1] / opts.heads};
    if (rows == NULL) clear_slack(out, layout);
    for (int64_t r = 0; rows == NULL && r < layout->rows; r++)
        for (int64_t a = 0; layout->owner[r] < 0 && a < opts.heads; a++)
            j.lse[a * layout->rows + r] = 0.0f;
    return run(out, &j, rows);
}

sr_status sr_cpu_attention_backward(sr_tensor *dqkv, sr_tensor *dbias, const sr_tensor *dout,
                                    const sr_tensor *qkv, const sr_tensor *out,
                                    const sr_tensor *lse, const sr_tensor *rows,
                                    const sr_layout *layout, sr_attention_opts opts) {
    (void)dbias; /* this device does not add */
    SR_TRY(sr_cpu_need_f32_or_bf16("attention", SR_TENSORS(dqkv, dout, qkv, out)));
    SR_TRY(sr_cpu_need_f32("attention", SR_TENSORS(lse)));
    job j = {.layout = layout,
             .opts = &opts,
             .bf16 = qkv->dtype == SR_BF16,
             .qkv = sr_tensor_data(qkv),
             .dout = sr_tensor_data(dout),
             .out = sr_tensor_data(out),
             .lse = SR_DATA(float, lse),
             .dqkv = sr_tensor_data(dqkv),
             .d = out->shape[1] / opts.heads};
    clear_slack(dqkv, layout);
    return run(dqkv, &j, rows);
}

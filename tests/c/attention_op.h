/* attention_op.h - the op of attention on bf16 over a pack of sequences, with the kernels of any
 * class: the same bits on any number of threads and whatever a neighbour holds; allocation failure.
 */
#pragma once

#include <stdlib.h>

#include "core/base/thread.h"
#include "core/tensor/dtype.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/fail.h"

enum { LENGTHS = 8, HEADS = 3, SIZE = 20, ROWS = 384, WIDTH = HEADS * SIZE };

static float random_at(uint32_t key, int64_t i) {
    sr_u32x4 c = {{(uint32_t)i, key, 0, 0}};
    return sr_unit(sr_philox(c, 1, 10).w[0]) * 2 - 1;
}

/* ---- the op -----------------------------------------------------------------------------------
 */

/* The tensors of both passes; dout is out. */
typedef struct op {
    sr_bf16 qkv[ROWS * 3 * WIDTH], out[ROWS * WIDTH], dqkv[ROWS * 3 * WIDTH];
    float lse[HEADS * ROWS];
} op;

static sr_tensor tensor_of(sr_storage *s, sr_device *device, void *data, sr_dtype dtype,
                           int64_t rows, int64_t cols) {
    *s = (sr_storage){.device = device, .data = data, .refs = 1};
    return (sr_tensor){.storage = s,
                       .dtype = dtype,
                       .ndim = 2,
                       .refs = 1,
                       .shape = {rows, cols},
                       .stride = {cols, 1}};
}

/* The variants of the op: all rows; a window; a causal mask and one key head; the first and the
 * last with a list of queries. */
enum { VARIANTS = 5 };

static bool is_listed(int variant) {
    return variant > 2;
}

static sr_attention_opts variant_of(int variant) {
    bool last = variant == 2 || variant == 4;
    return (sr_attention_opts){.heads = HEADS,
                               .kv_heads = last ? 1 : HEADS,
                               .window = variant == 1 ? 40 : -1,
                               .causal = last,
                               .scale = 0.2,
                               .drop = {230, SR_PURPOSE_DROP_ATTENTION, 1}};
}

/* The rows that are queries, two of five but none of the fourth sequence; their number. */
static int64_t list_rows(int32_t rows[ROWS], const sr_layout *l, int variant) {
    int64_t count = 0;
    for (int32_t r = 0; r < ROWS; r++)
        if (!is_listed(variant) || (l->owner[r] >= 0 && l->owner[r] != 3 && l->position[r] % 5 < 2))
            rows[count++] = r;
    return count;
}

static sr_status run_op(sr_device *device, op *o, const sr_layout *layout, int variant) {
    int32_t list[ROWS];
    int64_t count = list_rows(list, layout, variant);
    sr_storage s[5];
    sr_attention_opts opts = variant_of(variant);
    int64_t columns = (HEADS + 2 * opts.kv_heads) * SIZE;
    sr_tensor qkv = tensor_of(&s[0], device, o->qkv, SR_BF16, ROWS, columns);
    sr_tensor out = tensor_of(&s[1], device, o->out, SR_BF16, count, WIDTH);
    sr_tensor dqkv = tensor_of(&s[2], device, o->dqkv, SR_BF16, ROWS, columns);
    sr_tensor lse = tensor_of(&s[3], device, o->lse, SR_F32, HEADS, count);
    sr_tensor listed = tensor_of(&s[4], device, list, SR_I32, count, 1);
    const sr_tensor *rows = is_listed(variant) ? &listed : NULL;
    SR_TRY(sr_cpu_attention(&out, &lse, &qkv, rows, layout, opts));
    return sr_cpu_attention_backward(&dqkv, NULL, &out, &qkv, &out, &lse, rows, layout, opts);
}

/* The op on a device with these kernels. */
static sr_status run_with(const sr_simd *simd, op *o, const sr_layout *layout, int variant,
                          int threads, int64_t fail_at) {
    sr_device device = {.name = "cpu", .backend = &sr_backend_cpu, .real = SR_F32};
    CHECK_OK(sr_threads_new(&device.threads, threads));
    CHECK_OK(sr_backend_cpu.open(&device));
    ((sr_cpu_state *)device.state)->simd = simd;
    sr_mem_fail_at(fail_at, false);
    sr_status st = run_op(&device, o, layout, variant);
    sr_mem_fail_at(0, false);
    sr_backend_cpu.close(&device);
    sr_threads_free(device.threads);
    return st;
}

static int64_t columns_of(int variant) {
    return (HEADS + 2 * (int64_t)variant_of(variant).kv_heads) * SIZE;
}

/* Sequences with NaN in gaps of three rows and, if spoiled >= 0, in all rows of one of them. */
static op *op_new(const sr_layout *l, int variant, int spoiled) {
    op *o = malloc(sizeof *o);
    int64_t columns = columns_of(variant);
    memset(o, 0xFF, sizeof *o);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; l->owner[r] >= 0 && l->owner[r] != spoiled && c < columns; c++)
            o->qkv[r * columns + c] = sr_bf16_from_f32(2 * random_at(9, r * columns + c));
    return o;
}

static bool rows_equal(const op *a, const op *b, const sr_layout *l, int variant, int but) {
    int64_t columns = columns_of(variant);
    int32_t rows[ROWS];
    int64_t count = list_rows(rows, l, variant);
    for (int64_t m = 0; m < count; m++)
        if (l->owner[rows[m]] != but &&
            memcmp(a->out + m * WIDTH, b->out + m * WIDTH, WIDTH * sizeof(sr_bf16)) != 0)
            return false;
    for (int64_t r = 0; r < ROWS; r++)
        if (l->owner[r] != but && memcmp(a->dqkv + r * columns, b->dqkv + r * columns,
                                         (size_t)columns * sizeof(sr_bf16)) != 0)
            return false;
    return true;
}

/* Longest first, the longest of several strips, with gaps of three rows. */
static sr_layout packed(void) {
    static int32_t len[LENGTHS] = {129, 65, 64, 33, 17, 8, 1, 1}, first[LENGTHS], start[LENGTHS];
    static uint32_t uid[LENGTHS], epoch[LENGTHS];
    static int32_t owner[ROWS], position[ROWS];
    for (int r = 0; r < ROWS; r++) owner[r] = -1;
    for (int32_t s = 0, at = 2; s < LENGTHS; at += len[s++] + 3) {
        first[s] = s, start[s] = at, uid[s] = 10u * (uint32_t)s;
        for (int32_t i = 0; i < len[s]; i++) owner[at + i] = s, position[at + i] = i;
    }
    return (sr_layout){.rows = ROWS,
                       .sequences = LENGTHS,
                       .longest = len[0],
                       .seed = 77,
                       .start = start,
                       .len = len,
                       .uid = uid,
                       .epoch = epoch,
                       .longest_first = first,
                       .owner = owner,
                       .position = position};
}

/* The same bits on any number of threads, and whatever a neighbour holds. */
static void test_bits(const sr_simd *simd, int variant) {
    static const int threads[] = {2, 3, 8};
    sr_layout l = packed();
    op *alone = op_new(&l, variant, -1);
    CHECK_OK(run_with(simd, alone, &l, variant, 1, 0));
    for (int i = 0; i < 3 + LENGTHS; i++) {
        int spoiled = i < 3 ? -1 : i - 3;
        op *other = op_new(&l, variant, spoiled);
        CHECK_OK(run_with(simd, other, &l, variant, i < 3 ? threads[i] : 2, 0));
        CHECK(rows_equal(alone, other, &l, variant, i < 3 ? -2 : spoiled));
        free(other);
    }
    free(alone);
}

static void test_memory(const sr_simd *simd, int variant) {
    sr_layout l = packed();
    op *o = op_new(&l, variant, -1);
    int64_t n = 1;
    for (sr_status st; (st = run_with(simd, o, &l, variant, 2, n)) != SR_OK; n++)
        CHECK(st == SR_ENOMEM);
    CHECK(n > 1);
    free(o);
}

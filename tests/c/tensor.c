/* tensor.c - storages, scopes, layouts and the tape where Lua cannot test them: failing
 * allocations, devices closed while tensors are alive, blocks of the pool. */
#include <math.h>

#include "core/tensor/pool.h"
#include "tests/c/owners.h"
#include "tests/support/fail.h"

/* ---- memory that runs out -------------------------------------------------------------------- */

enum { ROWS = 12, HIDDEN = 8, WORDS = 11, HEADS = 2, MASKED = 3 };

/* All tensors of a pass, so that they can be released together. */
typedef struct bag {
    sr_tensor *t[48];
    int count;
} bag;

static void empty_bag(bag *b) {
    while (b->count > 0) sr_tensor_release(b->t[--b->count]);
}

/* A place for one more tensor. */
static sr_tensor **next(bag *b) {
    b->t[b->count] = NULL;
    return &b->t[b->count++];
}

static sr_status leaf(sr_tensor **out, bag *b, sr_device *d, int ndim, const int64_t *shape,
                      uint32_t uid) {
    sr_tensor **t = next(b);
    SR_TRY(sr_tensor_new(t, d, d->real, ndim, shape));
    SR_TRY(sr_op_random_in_place(*t, SR_NORMAL, 1, SR_PURPOSE_TENSOR, uid, 0, 0.0, 1.0));
    (*t)->requires_grad = true;
    *out = *t;
    return SR_OK;
}

static sr_status whole(sr_tensor **out, bag *b, sr_device *d, const int32_t *values, int64_t n) {
    sr_tensor **t = next(b);
    SR_TRY(sr_tensor_new(t, d, SR_I32, 1, &n));
    *out = *t;
    return sr_tensor_write(*t, values, SR_I32);
}

/* The leaves of a small model. */
typedef struct model {
    sr_embeddings tables;
    sr_tensor *qkv_w, *inner_w, *inner_b, *bias;
} model;

static sr_status make_model(model *m, bag *b, sr_device *d) {
    SR_TRY(leaf(&m->tables.word, b, d, 2, (int64_t[]){WORDS, HIDDEN}, 1));
    SR_TRY(leaf(&m->tables.position, b, d, 2, (int64_t[]){ROWS, HIDDEN}, 2));
    SR_TRY(leaf(&m->tables.type, b, d, 2, (int64_t[]){2, HIDDEN}, 3));
    SR_TRY(leaf(&m->tables.gamma, b, d, 1, (int64_t[]){HIDDEN}, 4));
    SR_TRY(leaf(&m->tables.beta, b, d, 1, (int64_t[]){HIDDEN}, 5));
    SR_TRY(leaf(&m->qkv_w, b, d, 2, (int64_t[]){3 * HIDDEN, HIDDEN}, 6));
    SR_TRY(leaf(&m->inner_w, b, d, 2, (int64_t[]){HIDDEN, HIDDEN}, 7));
    SR_TRY(leaf(&m->inner_b, b, d, 1, (int64_t[]){HIDDEN}, 8));
    return leaf(&m->bias, b, d, 1, (int64_t[]){WORDS}, 9);
}

static sr_status forward(sr_tensor **loss, bag *b, const model *m, sr_device *d,
                         const sr_layout *layout) {
    static const int32_t ids[ROWS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, zeros[ROWS] = {0};
    static const int32_t rows[MASKED] = {0, 4, 7}, labels[MASKED] = {3, 1, 2};
    sr_tensor *id, *type, *row, *label;
    SR_TRY(whole(&id, b, d, ids, ROWS));
    SR_TRY(whole(&type, b, d, zeros, ROWS));
    SR_TRY(whole(&row, b, d, rows, MASKED));
    SR_TRY(whole(&label, b, d, labels, MASKED));
    sr_dropout drop = {230, SR_PURPOSE_DROP_USER, 1};
    sr_norm norm = {1e-12, false};
    sr_tensor **x = next(b), **qkv = next(b), **mixed = next(b), **inner = next(b), **y = next(b);
    SR_TRY(sr_op_embed(x, id, type, NULL, &m->tables, layout, norm, drop));
    SR_TRY(sr_op_linear(qkv, *x, m->qkv_w, NULL, SR_ACT_NONE));
    sr_tensor **turned_qkv = next(b), **gated = next(b), **gates = next(b), **both = next(b);
    SR_TRY(sr_op_rotary(turned_qkv, *qkv, NULL, layout,
                        (sr_rotary_opts){.heads = HEADS, .theta = 10000, .in_place = true}));
    SR_TRY(sr_op_attention(mixed, *turned_qkv, NULL, layout,
                           (sr_attention_opts){.heads = HEADS, .window = -1, .drop = drop}));
    SR_TRY(sr_op_linear(inner, *mixed, m->inner_w, m->inner_b, SR_ACT_GELU));
    SR_TRY(sr_op_residual_norm(y, next(b), *inner, *x, m->tables.gamma, m->tables.beta, layout,
                               norm, drop));
    sr_tensor **taken = next(b), **rest = next(b), **back = next(b);
    SR_TRY(sr_op_take_rows(taken, rest, *y, row, MASKED + 2));
    SR_TRY(sr_op_return_rows(back, *rest, row, *taken, true));
    y = back;
    sr_tensor **picked = next(b), **weights = next(b), **mean = next(b), **sum = next(b);
    SR_TRY(sr_op_gather_rows(picked, *y, row));
    SR_TRY(sr_tensor_full(weights, d, d->real, 1, (int64_t[]){MASKED}, 0.5));
    sr_tensor **nll = next(b), **correct = next(b), **total = next(b), **turned = next(b);
    SR_TRY(sr_op_mlm_loss(total, nll, correct, *picked, m->tables.word, m->bias, label, *weights));
    SR_TRY(sr_op_transpose(turned, *y, 0, 1)); /* a strided gradient in backward */
    SR_TRY(sr_op_mean(mean, *turned, SR_ALL_DIMS, false));
    SR_TRY(sr_op_binary(sum, *mean, *total, SR_MUL));
    SR_TRY(sr_op_gated(gated, *turned_qkv, SR_ACT_SILU, true));
    SR_TRY(sr_op_mean(gates, *gated, SR_ALL_DIMS, false));
    SR_TRY(sr_op_binary(both, *sum, *gates, SR_ADD));
    *loss = *both;
    return SR_OK;
}

static sr_status pass(sr_device *d) {
    bag b = {.count = 0};
    model m;
    sr_layout *layout = NULL;
    sr_scope *scope = NULL;
    sr_tensor *loss = NULL;
    sr_backward how = {.retain = false};
    sr_status st;
    SR_GO(done, st, sr_layout_new(&layout, 2, NULL, (int32_t[]){5, 4}, NULL, NULL, ROWS, 7));
    SR_GO(done, st, make_model(&m, &b, d));
    SR_GO(done, st, sr_scope_open(&scope, d));
    SR_GO(done, st, forward(&loss, &b, &m, d, layout));
    SR_GO(done, st, sr_grad_backward(1, &loss, NULL, &how));
done:
    if (scope != NULL) sr_scope_close(scope);
    sr_scope_free(scope);
    empty_bag(&b);
    sr_layout_release(layout);
    return st;
}

static sr_status pass_on_new_device(const sr_backend *backend) {
    TRY_OWN(sr_device, *d, sr_device_open(&d, backend, 0, NULL));
    SR_TRY(pass(d));
    return pass(d); /* again, with memory from the pool */
}

/* ---- devices, scopes, tensors ---------------------------------------------------------------- */

static sr_device *open_ref(void) {
    sr_device *d = NULL;
    CHECK_OK(sr_device_open(&d, &sr_backend_ref, 0, NULL));
    return d;
}

static void test_close_under_tensors(void) {
    int64_t before = sr_mem_live();
    sr_device *d = open_ref();
    sr_tensor *x = NULL, *y = NULL;
    sr_scope *scope = NULL;
    CHECK_OK(sr_tensor_full(&x, d, SR_F64, 1, (int64_t[]){4}, 1.0));
    x->requires_grad = true;
    CHECK_OK(sr_scope_open(&scope, d));
    CHECK_OK(sr_op_unary(&y, x, SR_EXP));
    sr_device_close(d);
    CHECK_FAILS(sr_tensor_check("exp", y), SR_EINVAL, "expired");
    CHECK_FAILS(sr_tensor_check("exp", x), SR_EINVAL, "expired");
    sr_scope_close(scope);
    sr_scope_free(scope);
    sr_tensor_release(x);
    sr_tensor_release(y);
    CHECK(sr_mem_live() == before);
}

static void test_views_stay_inside(void) {
    OWNED(sr_device) *d = open_ref();
    OWNED(sr_tensor) *v = NULL;
    OWN(sr_tensor, *t, sr_tensor_full(&t, d, SR_F64, 1, (int64_t[]){10}, 0.0));
    CHECK_FAILS(sr_tensor_view(&v, t, 1, (int64_t[]){11}, (int64_t[]){1}, 0), SR_EINVAL, "view");
    CHECK_FAILS(sr_tensor_view(&v, t, 1, (int64_t[]){2}, (int64_t[]){1}, 9), SR_EINVAL, "view");
    CHECK_FAILS(sr_tensor_view(&v, t, 1, (int64_t[]){2}, (int64_t[]){-1}, 0), SR_EINVAL, "view");
    CHECK_FAILS(sr_tensor_view(&v, t, 1, (int64_t[]){3}, (int64_t[]){INT64_MAX / 2}, 0), SR_EINVAL,
                "view");
    CHECK_FAILS(sr_tensor_new(&v, d, SR_F64, 7, (int64_t[]){1, 1, 1, 1, 1, 1, 1}), SR_EINVAL, "6");
    CHECK_FAILS(sr_tensor_new(&v, d, SR_F64, 2, (int64_t[]){INT64_MAX, 64}), SR_ENOMEM, "memory");
    CHECK_OK(sr_tensor_view(&v, t, 1, (int64_t[]){10}, (int64_t[]){-1}, 9));
}

/* What a block of this many bytes takes. */
static size_t held_for(sr_device *d, size_t bytes) {
    void *block;
    CHECK_OK(sr_device_take(d, &block, bytes));
    size_t held = d->bytes_held;
    sr_device_give(d, block, bytes);
    sr_device_trim(d);
    return held;
}

static void test_pool(void) {
    OWNED(sr_device) *d = open_ref();
    bool fits = true, tight = true, rising = true;
    size_t last = 0;
    for (size_t bytes = 1; bytes < 1000000; bytes += 1 + bytes / 37) {
        size_t size = held_for(d, bytes);
        fits = fits && size >= bytes && size % 16 == 0;
        tight = tight && (bytes < 64 || size <= bytes + bytes / 4 + 16);
        rising = rising && size >= last && held_for(d, size) == size;
        last = size;
    }
    CHECK(fits);
    CHECK(tight);
    CHECK(rising);

    void *a, *b;
    size_t held = held_for(d, 1000);
    int64_t before = d->allocations;
    CHECK_OK(sr_device_take(d, &a, 1000));
    sr_device_give(d, a, 1000);
    CHECK_OK(sr_device_take(d, &b, 990)); /* the same class */
    CHECK(a == b && d->allocations == before + 1);
    sr_device_give(d, b, 990);
    CHECK(d->bytes_used == 0 && d->bytes_held == held);
    sr_device_trim(d);
    CHECK(d->bytes_held == 0);
    CHECK_FAILS(sr_device_take(d, &a, (size_t)1 << 62), SR_ENOMEM, "cannot allocate a tensor");
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

static void test_dtypes(void) {
    const double in[] = {1.5, -2.7, 3e10, -3e10, NAN, 0.0};
    int32_t whole_out[6];
    uint8_t truth[6];
    sr_dtype_convert(whole_out, SR_I32, in, SR_F64, 6);
    CHECK(whole_out[0] == 1 && whole_out[1] == -2);
    CHECK(whole_out[2] == INT32_MAX && whole_out[3] == INT32_MIN && whole_out[4] == 0);
    sr_dtype_convert(truth, SR_BOOL, in, SR_F64, 6);
    CHECK(truth[0] == 1 && truth[4] == 1 && truth[5] == 0);
    CHECK(sr_bf16_from_f32(1.00390625f) == 0x3F80); /* ties round to even */
    CHECK(sr_bf16_from_f32(1.01171875f) == 0x3F82);
    CHECK(isnan(sr_bf16_to_f32(sr_bf16_from_f32(NAN))));
    CHECK(isinf(sr_bf16_to_f32(sr_bf16_from_f32(INFINITY))));
    sr_dtype dtype;
    CHECK(sr_dtype_parse(&dtype, "bf16") && dtype == SR_BF16 && !sr_dtype_parse(&dtype, "f16"));
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void test_layout(void) {
    int64_t before = sr_mem_live();
    sr_layout *l = NULL, *fewer = NULL;
    int32_t *rows = NULL;
    CHECK_OK(sr_layout_new(&l, 4, (int32_t[]){0, 4, 9, 12}, (int32_t[]){3, 5, 3, 1},
                           (uint32_t[]){9, 8, 7, 6}, (uint32_t[]){1, 2, 3, 4}, 16, 5));
    CHECK(l->tokens == 12 && l->squares == 44 && l->longest == 5 && !l->gapless);
    CHECK(memcmp(l->longest_first, (int32_t[]){1, 0, 2, 3}, 16) == 0);
    CHECK(l->owner[3] == -1 && l->owner[4] == 1 && l->position[8] == 4 && l->position[3] == 0);
    uint8_t keep[16] = {[2] = 1, [3] = 1, [4] = 1, [7] = 1, [12] = 1}; /* 3 is slack */
    CHECK_OK(sr_layout_shorten(&fewer, &rows, l, keep));
    CHECK(fewer->rows == 4 && fewer->sequences == 3 && fewer->seed == 5 && fewer->gapless);
    CHECK(memcmp(rows, (int32_t[]){2, 4, 7, 12}, 16) == 0);
    CHECK(memcmp(fewer->uid, (uint32_t[]){9, 8, 6}, 12) == 0 && fewer->len[1] == 2);
    CHECK(memcmp(fewer->epoch, (uint32_t[]){1, 2, 4}, 12) == 0);
    sr_free(rows);
    sr_layout_release(sr_layout_retain(l));
    sr_layout_release(fewer);
    sr_layout_release(l);
    CHECK_OK(sr_layout_new(&l, 0, NULL, NULL, NULL, NULL, 128, 0));
    CHECK(l->tokens == 0 && l->longest == 0 && l->owner[127] == -1);
    sr_layout_release(l);
    CHECK_FAILS(sr_layout_new(&l, 2, NULL, (int32_t[]){3, 0}, NULL, NULL, 0, 0), SR_EINVAL,
                "sequence 2 has length 0");
    CHECK_FAILS(sr_layout_new(&l, 2, (int32_t[]){0, 2}, (int32_t[]){3, 1}, NULL, NULL, 0, 0),
                SR_EINVAL, "sequence 2 starts at row 2");
    CHECK_FAILS(sr_layout_new(&l, 1, NULL, (int32_t[]){3}, NULL, NULL, 2, 0), SR_EINVAL, "row 3");
    CHECK_FAILS(sr_layout_new(&l, 2, NULL, (int32_t[]){INT32_MAX, 1}, NULL, NULL, 0, 0), SR_EINVAL,
                "beyond");
    CHECK(l == NULL && sr_mem_live() == before);
    sr_status st;
    STARVE(st, false, sr_layout_new(&l, 1, NULL, (int32_t[]){3}, NULL, NULL, 0, 0)) {
        sr_layout_release(l);
        CHECK(sr_mem_live() == before);
    }
}

/* ---- a device that lacks an op --------------------------------------------------------------- */

static void test_missing_op(void) {
    sr_backend poor = sr_backend_ref;
    poor.name = "poor";
    poor.attention = NULL;
    poor.softmax_backward = NULL;
    OWNED(sr_tensor) *y = NULL;
    sr_backward how = {.retain = false};
    OWN(sr_device, *d, sr_device_open(&d, &poor, 0, NULL));
    OWN(sr_layout, *l, sr_layout_new(&l, 1, NULL, (int32_t[]){2}, NULL, NULL, 0, 0));
    OWN(sr_tensor, *x, sr_tensor_full(&x, d, SR_F64, 2, (int64_t[]){2, 6}, 1.0));
    x->requires_grad = true;
    CHECK_FAILS(sr_op_attention(&y, x, NULL, l, (sr_attention_opts){.heads = 1, .drop.keep = 256}),
                SR_EDEVICE, "attention is not implemented for poor");
    CHECK_OK(sr_op_softmax(&y, x, 1, false));
    OWN(sr_tensor, *sum, sr_op_reduce(&sum, y, SR_SUM, SR_ALL_DIMS, false));
    CHECK_FAILS(sr_grad_backward(1, &sum, NULL, &how), SR_EDEVICE, "softmax_backward");
}

/* A stop requested at the prompt ends a slow op with an error and without leaks. */
static void test_stop(const sr_backend *backend) {
    int64_t before = sr_mem_live();
    sr_stop_request();
    CHECK(pass_on_new_device(backend) == SR_ESTOP);
    sr_stop_clear();
    CHECK(sr_mem_live() == before);
    CHECK_OK(pass_on_new_device(backend));
}

/* A world of one rank: sums and gathers are the rank's own. */
static void test_world_of_one(void) {
    sr_comm comm;
    int64_t n = 3;
    float values[3] = {1, 2, 3}, back[3];
    OWN(sr_device, *device, sr_device_open(&device, &sr_backend_cpu, 0, NULL));
    OWN(sr_tensor, *x, sr_tensor_new(&x, device, SR_F32, 1, &n));
    OWN(sr_tensor, *y, sr_tensor_like(&y, x));
    CHECK_OK(sr_tensor_write(x, values, SR_F32));
    CHECK_OK(sr_comm_open(&comm, sr_comm_at(0), device));
    CHECK(comm.rank == 0 && comm.ranks == 1);
    CHECK_OK(sr_comm_all_reduce(&comm, x));
    CHECK_OK(sr_comm_broadcast(&comm, x, 0));
    CHECK_OK(sr_comm_reduce_scatter(&comm, y, x));
    CHECK_OK(sr_comm_barrier(&comm));
    CHECK_OK(sr_comm_wait(&comm));
    CHECK_OK(sr_tensor_read(y, back, SR_F32));
    CHECK(memcmp(values, back, sizeof values) == 0);
    CHECK_FAILS(sr_comm_send(&comm, x, 1), SR_EINVAL, "no rank 1 in a world of 1");
    CHECK_FAILS(sr_comm_receive(&comm, x, 1), SR_EINVAL, "no rank 1 in a world of 1");
    CHECK_FAILS(sr_comm_broadcast(&comm, x, 2), SR_EINVAL, "no rank 2");
    sr_comm_close(&comm);
}

int main(void) {
    test_world_of_one();
    int64_t before = sr_mem_live();
    for (int i = 0; i < sr_backend_count(); i++) {
        for (int sticky = 0; sticky < 2; sticky++)
            CHECK_SPARED(sticky, pass_on_new_device(sr_backend_at(i)));
        CHECK(sr_grad_recording());
    }
    for (int i = 0; i < sr_backend_count(); i++) test_stop(sr_backend_at(i));
    test_close_under_tensors();
    test_views_stay_inside();
    test_pool();
    test_dtypes();
    test_layout();
    test_missing_op();
    CHECK(sr_mem_live() == before);
    return CHECK_DONE();
}

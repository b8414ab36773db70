/* precision.c - parameters that ops read in bf16, and the layouts that a device keeps of them. */
#include "tests/c/owners.h"
#include "tests/support/fail.h"

enum { ROWS = 3, HIDDEN = 8, COUNT = 4 };

static const sr_param_spec specs[COUNT] = {
    {.name = "query", .ndim = 2, .shape = {4, HIDDEN}, .std = 0.5, .fuse = "both"},
    {.name = "key", .ndim = 2, .shape = {4, HIDDEN}, .std = 0.5, .fuse = "both"},
    {.name = "bias", .ndim = 1, .shape = {8}, .std = 0.5},
    {.name = "norm", .ndim = 1, .shape = {HIDDEN}, .init = SR_INIT_ONES, .keep_f32 = true},
};
static const sr_optim_opts adam = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .power = 1, .max_skipped = 3};

typedef struct setup {
    sr_device *device;
    sr_params *p;
    sr_optim *o;
    sr_tensor *x;
} setup;

static void clear(setup *s) {
    sr_tensor_release(s->x);
    sr_optim_free(s->o);
    sr_params_free(s->p);
}

static sr_status prepare(setup *s, sr_dtype precision) {
    sr_segment segments[COUNT] = {{.rate = 1}, {.rate = 1}, {.rate = 1}, {.rate = 1}};
    SR_TRY(sr_params_new(&s->p, s->device, specs, COUNT, precision));
    SR_TRY(sr_params_initialise(s->p, 3));
    SR_TRY(sr_optim_new(&s->o, s->p, segments, &adam));
    return sr_tensor_full(&s->x, s->device, precision, 2, (int64_t[]){ROWS, HIDDEN}, 0.5);
}

/* A micro-batch: x through the fused matrix, its bias and the norm, and all the way back. */
static sr_status go(setup *s) {
    sr_dropout none = {.keep = 256};
    sr_backward pass = {0};
    sr_params *p = s->p;
    TRY_OWN(sr_tensor, *y, sr_op_linear(&y, s->x, p->fused[0].leaf, p->list[2].leaf, SR_ACT_GELU));
    TRY_OWN(sr_tensor, *z,
            sr_op_residual_norm(&z, NULL, y, NULL, p->list[3].leaf, p->list[3].leaf, NULL,
                                (sr_norm){1e-5, false}, none));
    TRY_OWN(sr_tensor, *sum, sr_op_reduce(&sum, z, SR_SUM, SR_ALL_DIMS, false));
    return sr_grad_backward(1, &sum, NULL, &pass);
}

static sr_status update(setup *s, int micro_batches) {
    for (int i = 0; i < micro_batches; i++) SR_TRY(go(s));
    SR_TRY(sr_optim_step(s->o, 0.1, 1.0, NULL));
    return sr_optim_read_results(s->o);
}

/* What ops read is what the masters are, rounded. */
static bool is_fresh(const sr_params *p) {
    for (int i = 0; i < COUNT; i++) {
        const sr_param *param = &p->list[i];
        float master[64], read[64];
        CHECK_OK(sr_tensor_read(param->master, master, SR_F32));
        CHECK_OK(sr_tensor_read(param->leaf, read, SR_F32));
        for (int64_t k = 0; k < param->size; k++) {
            float rounded = sr_bf16_to_f32(sr_bf16_from_f32(master[k]));
            if (read[k] != (param->keep_f32 ? master[k] : rounded)) return false;
        }
    }
    return true;
}

static void test_bf16(void) {
    setup s = {0};
    CHECK_OK(sr_device_open(&s.device, &sr_backend_cpu, 0, NULL));
    CHECK_OK(prepare(&s, SR_BF16));
    const sr_param *query = &s.p->list[0], *norm = &s.p->list[3];
    CHECK(query->leaf->dtype == SR_BF16 && query->leaf->grad->dtype == SR_F32);
    CHECK(query->master->dtype == SR_F32 && norm->leaf->dtype == SR_F32);
    CHECK(norm->master == norm->leaf);
    CHECK(is_fresh(s.p));
    float before[32], after[32];
    CHECK_OK(sr_tensor_read(query->master, before, SR_F32));
    CHECK_OK(update(&s, 2));
    CHECK_OK(sr_tensor_read(query->master, after, SR_F32));
    CHECK(memcmp(before, after, sizeof before) != 0);
    CHECK(is_fresh(s.p));

    memset(before, 0, sizeof before);
    CHECK_OK(sr_tensor_write(query->master, before, SR_F32));
    CHECK(!is_fresh(s.p));
    CHECK_OK(sr_params_refresh(s.p));
    CHECK(is_fresh(s.p));

    CHECK_OK(sr_tensor_write(query->leaf, before, SR_F32)); /* lost at the next step */
    CHECK(sr_optim_step(s.o, 0.1, 1.0, NULL) == SR_EINVAL);
    clear(&s);
    sr_device_close(s.device);
}

static void test_refusals(void) {
    sr_params *p;
    OWN(sr_device, *ref, sr_device_open(&ref, &sr_backend_ref, 0, NULL));
    OWN(sr_device, *cpu, sr_device_open(&cpu, &sr_backend_cpu, 0, NULL));
    CHECK(sr_params_new(&p, ref, specs, COUNT, SR_BF16) == SR_EINVAL);
    CHECK(sr_params_new(&p, cpu, specs, COUNT, SR_I32) == SR_EINVAL);
    sr_param_spec mixed[2] = {specs[0], specs[1]};
    mixed[1].keep_f32 = true;
    CHECK(sr_params_new(&p, cpu, mixed, 2, SR_BF16) == SR_EINVAL);
}

/* ---- a device that keeps its weights transposed ---------------------------------------------- */

static int builds, held;

static sr_status toy_build(sr_weight *w, const sr_tensor *t) {
    CHECK(t->weight == w && t->shape[0] == w->rows && t->shape[1] == w->cols);
    if (w->layout == NULL) {
        float *made;
        SR_TRY(sr_new(&made, w->rows * w->cols));
        w->layout = made;
        held++;
    }
    builds++;
    float *to = w->layout;
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t c = 0; c < w->cols; c++)
            to[c * w->rows + r] =
                (float)sr_element_load(sr_tensor_data(t), t->dtype, r * w->cols + c);
    return SR_OK;
}

static void toy_free(sr_weight *w) {
    sr_free(w->layout);
    held--;
}

/* The layout of w holds what w holds. */
static sr_status check_layout(const sr_tensor *w) {
    void *layout;
    SR_TRY(sr_weight_layout(&layout, w));
    CHECK((layout != NULL) == (w->weight != NULL));
    for (int64_t r = 0; layout != NULL && r < w->shape[0]; r++)
        for (int64_t c = 0; c < w->shape[1]; c++)
            CHECK(((float *)layout)[c * w->shape[0] + r] ==
                  (float)sr_element_load(sr_tensor_data(w), w->dtype, r * w->shape[1] + c));
    return SR_OK;
}

static sr_status toy_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                            const sr_tensor *b, sr_act act) {
    SR_TRY(check_layout(w));
    return sr_backend_cpu.linear(y, pre, x, w, b, act);
}

/* The tape saved the weight: its alias has the same handle. */
static sr_status toy_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db,
                                     const sr_tensor *dy, const sr_tensor *x, const sr_tensor *w,
                                     const sr_tensor *pre, const sr_tensor *y, sr_act act,
                                     bool add_x, bool set_w) {
    CHECK(w->weight != NULL);
    SR_TRY(check_layout(w));
    return sr_backend_cpu.linear_backward(dx, dw, db, dy, x, w, pre, y, act, add_x, set_w);
}

static sr_backend toy;

/* A layout is built once an update, however many micro-batches read it both ways. */
static void test_layouts(sr_dtype precision) {
    setup s = {0};
    builds = 0;
    CHECK_OK(sr_device_open(&s.device, &toy, 0, NULL));
    CHECK_OK(prepare(&s, precision));
    CHECK(builds == 0); /* nobody has asked */
    CHECK_OK(update(&s, 3));
    CHECK(builds == 2 && held == 1); /* at the first product, and after the step */
    CHECK_OK(update(&s, 2));
    CHECK_OK(update(&s, 1));
    CHECK(builds == 4 && held == 1);
    CHECK_OK(sr_params_initialise(s.p, 4));
    CHECK(builds == 5);

    sr_tensor *leaf = s.p->fused[0].leaf, *half = NULL, *detached = NULL;
    CHECK_OK(sr_op_narrow(&half, leaf, 0, 0, 2));
    CHECK(half->weight == NULL); /* other elements */
    CHECK_OK(sr_op_detach(&detached, leaf));
    CHECK(detached->weight == leaf->weight);
    sr_tensor_release(half);
    clear(&s);
    CHECK(held == 1); /* somebody still has the tensor */
    sr_tensor_release(detached);
    CHECK(held == 0);
    sr_device_close(s.device);
}

/* A device that is closed first takes its layouts along. */
static void test_close(void) {
    setup s = {0};
    CHECK_OK(sr_device_open(&s.device, &toy, 0, NULL));
    CHECK_OK(prepare(&s, SR_BF16));
    CHECK_OK(update(&s, 1));
    CHECK(held == 1);
    sr_device_close(s.device);
    CHECK(held == 0);
    clear(&s);
}

static sr_status whole_life(void) {
    setup s = {0};
    sr_status st = sr_device_open(&s.device, &toy, 0, NULL);
    if (st == SR_OK) st = prepare(&s, SR_BF16);
    if (st == SR_OK) st = update(&s, 2);
    clear(&s);
    sr_device_close(s.device);
    return st;
}

/* Every allocation fails once: a clean error, and nothing is held afterwards. */
static void test_memory(void) {
    CHECK_SPARED(false, whole_life());
    CHECK(held == 0);
}

int main(void) {
    int64_t live = sr_mem_live();
    toy = sr_backend_cpu;
    toy.name = "toy";
    toy.weight_build = toy_build;
    toy.weight_free = toy_free;
    toy.linear = toy_linear;
    toy.linear_backward = toy_linear_backward;
    test_bf16();
    test_refusals();
    test_layouts(SR_F32);
    test_layouts(SR_BF16);
    test_close();
    test_memory();
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}

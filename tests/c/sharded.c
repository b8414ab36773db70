/* sharded.c - an optimizer sharded over ranks equals one optimizer bit for bit. */
#include <math.h>

#include "tests/support/fail.h"
#include "tests/c/optimizing.h"
#include "tests/c/world.h"

enum { STEPS = 4, BAD = 2 };

/* One way to train, and its result. */
typedef struct task {
    sr_method method;
    sr_dtype precision;
    float *values, *bf16, *kept; /* of one optimizer: masters, their copy, a weight kept in f32 */
    sr_optim_result last;
    int64_t stored;
} task;

/* The gradient of a step; NaN outside of the part, which must not be read. */
static sr_status draw_gradients(sr_params *p, int step, sr_range part) {
    const sr_backend *b = p->device->backend;
    SR_TRY(draw_all(p, step));
    sr_tensor outside = *p->grad;
    outside.shape[0] = part.first;
    if (outside.shape[0] > 0) SR_TRY(b->fill(&outside, (double)NAN));
    outside.offset = part.last;
    outside.shape[0] = p->stored - part.last;
    return outside.shape[0] > 0 ? b->fill(&outside, (double)NAN) : SR_OK;
}

static sr_status loss_of(sr_tensor **out, sr_device *d, bool bad) {
    return sr_tensor_full(out, d, d->real, 0, NULL, bad ? (double)INFINITY : 1.5);
}

static sr_status read_all(const sr_params *p, float *values, float *bf16, float *kept) {
    SR_TRY(sr_tensor_read(p->value, values, SR_F32));
    SR_TRY(sr_tensor_read(p->list[NORM].leaf, kept, SR_F32));
    return p->bf16 != NULL ? sr_tensor_read(p->bf16, bf16, SR_F32) : SR_OK;
}

/* ---- one optimizer --------------------------------------------------------------------------- */

static void train_whole(sr_device *d, task *t) {
    sr_segment segments[COUNT];
    sr_optim_opts opts = opts_of(t->method);
    fill_segments(segments);
    OWN(sr_params, *p, sr_params_new(&p, d, specs, COUNT, t->precision));
    CHECK_OK(sr_params_initialise(p, 3));
    OWN(sr_optim, *o, sr_optim_new(&o, p, segments, &opts));
    for (int s = 0; s < STEPS; s++) {
        CHECK_OK(draw_gradients(p, s, (sr_range){0, p->stored}));
        OWN(sr_tensor, *loss, loss_of(&loss, d, s == BAD));
        CHECK_OK(sr_optim_step(o, 0.01, 1.0, loss));
    }
    CHECK_OK(sr_optim_read_results(o));
    t->last = sr_optim_result_of(o, STEPS);
    CHECK(t->last.applied && o->skipped == 1);
    t->stored = p->stored;
    CHECK_OK(sr_new(&t->values, p->stored));
    CHECK_OK(sr_new(&t->bf16, p->stored));
    CHECK_OK(sr_new(&t->kept, p->stored));
    CHECK_OK(read_all(p, t->values, t->bf16, t->kept));
}

/* ---- the same on ranks ----------------------------------------------------------------------- */

static sr_status same(const float *a, const float *b, int64_t n, const char *what) {
    if (memcmp(a, b, (size_t)n * sizeof *a) == 0) return SR_OK;
    return sr_fail(SR_EINTERNAL, "%s differ from those of one optimizer", what);
}

/* Most masters of other parts have no memory. */
static sr_status look_at_masters(const float *values, int64_t stored, sr_range own) {
    int64_t zeros = 0;
    for (int64_t i = 0; i < stored; i++)
        zeros += (i < own.first || i >= own.last) && values[i] == 0;
    int64_t others = stored - (own.last - own.first);
    if (zeros > others / 2) return SR_OK;
    return sr_fail(SR_EINTERNAL, "%d of %d masters are held", (int)(others - zeros), (int)others);
}

static sr_status compare(sr_sharded *s, const task *t, float *buffer) {
    sr_params *p = s->optim->params;
    float *values = buffer, *bf16 = buffer + t->stored, *kept = buffer + 2 * t->stored;
    SR_TRY(read_all(p, values, bf16, kept));
    SR_TRY(same(kept, t->kept, 5000, "weights kept in f32"));
    SR_TRY(same(bf16, t->bf16, t->stored, "copies"));
    if (p->bf16 == NULL) return same(values, t->values, t->stored, "values");
    if (s->comm->ranks > 1) {
        SR_TRY(look_at_masters(values, t->stored, s->optim->range));
        if (sr_params_refresh(p) != SR_EINVAL)
            return sr_fail(SR_EINTERNAL, "stale masters were used");
    }
    SR_TRY(sr_sharded_gather(s));
    SR_TRY(sr_sharded_gather(s));
    if (s->comm->rank != 0) return SR_OK;
    SR_TRY(sr_params_refresh(p));
    SR_TRY(read_all(p, values, bf16, kept));
    SR_TRY(same(values, t->values, t->stored, "masters"));
    return same(bf16, t->bf16, t->stored, "copies of masters");
}

static sr_status steps(sr_sharded *s) {
    sr_optim *o = s->optim;
    for (int n = 0; n < STEPS; n++) {
        OWNED(sr_tensor) *loss = NULL;
        bool bad = n == BAD && s->comm->rank == s->comm->ranks - 1;
        SR_TRY(draw_gradients(o->params, n, o->range));
        if (bad || s->comm->rank != 0) SR_TRY(loss_of(&loss, s->comm->device, bad));
        SR_TRY(sr_sharded_step(s, 0.01, 1.0, loss));
    }
    return sr_optim_read_results(o);
}

static sr_status check_result(const sr_optim *o, const task *t) {
    sr_optim_result r = sr_optim_result_of(o, STEPS);
    if (r.applied && r.norm == t->last.norm && o->skipped == 1) return SR_OK;
    return sr_fail(SR_EINTERNAL, "norm %g instead of %g, %d skipped", r.norm, t->last.norm,
                   (int)o->skipped);
}

static sr_status train_on(sr_comm *comm, sr_params *p, const task *t, float *buffer) {
    sr_segment segments[COUNT];
    sr_optim_opts opts = opts_of(t->method);
    fill_segments(segments);
    opts.range = sr_optim_cut(p, comm->rank, comm->ranks);
    SR_TRY(sr_params_initialise(p, 3));
    TRY_OWN(sr_optim, *o, sr_optim_new(&o, p, segments, &opts));
    TRY_OWN(sr_sharded, *s, sr_sharded_new(&s, comm, o));
    SR_TRY(steps(s));
    SR_TRY(check_result(o, t));
    return compare(s, t, buffer);
}

static sr_status train_rank(sr_comm *comm, void *context) {
    const task *t = context;
    float *buffer;
    TRY_OWN(sr_params, *p, sr_params_new(&p, comm->device, specs, COUNT, t->precision));
    sr_status st = sr_new(&buffer, 3 * t->stored);
    if (st == SR_OK) st = train_on(comm, p, t, buffer);
    sr_free(buffer);
    return st;
}

static void train_part(sr_comm *comm, void *context) {
    CHECK_OK(train_rank(comm, context));
}

static void test_ranks(const sr_backend *backend, bool lamb, bool bf16) {
    OWN(sr_device, *d, sr_device_open(&d, backend, 0, NULL));
    task t = {.method = lamb ? SR_LAMB : SR_ADAMW, .precision = bf16 ? SR_BF16 : d->real};
    if (sr_device_computes(d, t.precision)) {
        train_whole(d, &t);
        for (int i = 0; i < (backend == &sr_backend_ref ? 2 : 4); i++)
            world_run((int[]){1, 2, 3, 9}[i], backend, train_part, &t);
    }
    sr_free(t.values);
    sr_free(t.bf16);
    sr_free(t.kept);
}

/* ---- memory and mistakes --------------------------------------------------------------------- */

static void look_at_memory(sr_comm *comm, void *context) {
    sr_optim *o;
    sr_sharded *s;
    sr_segment segments[COUNT];
    sr_optim_opts opts = opts_of(SR_LAMB);
    (void)context;
    fill_segments(segments);
    OWN(sr_params, *p, sr_params_new(&p, comm->device, specs, COUNT, comm->device->real));
    CHECK_OK(sr_optim_new(&o, p, segments, &opts));
    CHECK_FAILS(sr_sharded_new(&s, comm, o), SR_EINVAL, "it owns elements");
    sr_optim_free(o);
    opts.range = sr_optim_cut(p, comm->rank, comm->ranks);
    CHECK_OK(sr_optim_new(&o, p, segments, &opts));
    CHECK(llabs(sr_tensor_elements(o->m) - p->stored / comm->ranks) <= SR_CHUNK);
    sr_optim_free(o);
}

static sr_status build_alone(sr_device *d) {
    sr_params *p = NULL;
    sr_optim *o = NULL;
    sr_sharded *s = NULL;
    sr_comm comm;
    sr_segment segments[COUNT];
    sr_optim_opts opts = opts_of(SR_LAMB);
    fill_segments(segments);
    SR_TRY(sr_comm_open(&comm, sr_comm_at(0), d));
    sr_status st = sr_params_new(&p, d, specs, COUNT, d->real);
    if (st == SR_OK) st = sr_optim_new(&o, p, segments, &opts);
    if (st == SR_OK) st = sr_sharded_new(&s, &comm, o);
    if (st == SR_OK) st = sr_sharded_step(s, 0.1, 1, NULL);
    sr_sharded_free(s);
    sr_optim_free(o);
    sr_params_free(p);
    sr_comm_close(&comm);
    return st;
}

static void test_allocations(void) {
    OWN(sr_device, *d, sr_device_open(&d, &sr_backend_cpu, 0, NULL));
    CHECK_OK(build_alone(d));
    sr_device_trim(d);
    sr_status st;
    int64_t live = sr_mem_live();
    STARVE(st, false, build_alone(d)) {
        sr_device_trim(d);
        CHECK(sr_mem_live() <= live);
    }
}

int main(void) {
    int64_t live = sr_mem_live();
    for (int lamb = 0; lamb < 2; lamb++) {
        test_ranks(&sr_backend_ref, lamb, false);
        test_ranks(&sr_backend_cpu, lamb, false);
        test_ranks(&sr_backend_cpu, lamb, true);
    }
    world_run(3, &sr_backend_cpu, look_at_memory, NULL);
    test_allocations();
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}

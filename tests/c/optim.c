/* optim.c - optimizers that share a store, each with a range of it, equal one optimizer bit for
 * bit. */
#include <math.h>

#include "tests/c/optimizing.h"

enum { MOST = 4, STEPS = 3 };

/* Makes q and k matrices of Muon. */
static void mark_matrices(sr_params *p, sr_segment segments[COUNT]) {
    for (int i = QUERY; i <= KEY; i++) {
        p->list[i].whole = true;
        segments[i].rows = specs[i].shape[0];
        segments[i].columns = specs[i].shape[1];
    }
}

/* Copies the elements that one optimizer has worked out to another, as an exchange would. */
static void send(sr_tensor *to, const sr_tensor *from, int64_t first, int64_t n) {
    if (n == 0) return;
    OWN(sr_tensor, *a, sr_tensor_view(&a, from, 1, &n, (int64_t[]){1}, first));
    OWN(sr_tensor, *b, sr_tensor_view(&b, to, 1, &n, (int64_t[]){1}, first));
    CHECK_OK(to->storage->device->backend->copy(b, a));
}

static void exchange(sr_optim **o, int parts, bool norms) {
    for (int i = 0; i < parts; i++)
        for (int k = 0; k < parts; k++) {
            int64_t first = o[i]->from, n = o[i]->upto - first;
            if (i == k) continue;
            if (norms)
                send(o[k]->norms, o[i]->norms, 2 * first, 2 * n);
            else
                send(o[k]->squares, o[i]->squares, first, n);
        }
}

static void step_together(sr_optim **o, int parts) {
    for (int i = 0; i < parts; i++) CHECK_OK(sr_optim_begin(o[i], 0.01, 1.0));
    exchange(o, parts, false);
    for (int i = 0; i < parts; i++) CHECK_OK(sr_optim_moments(o[i], NULL));
    if (sr_optim_shares_norms(o[0])) exchange(o, parts, true);
    for (int i = 0; i < parts; i++) {
        CHECK_OK(sr_optim_update(o[i]));
        CHECK_OK(sr_optim_finish(o[i]));
    }
}

/* The values after some steps of `parts` optimizers. */
static float *train(sr_device *d, sr_method method, int parts) {
    sr_optim *o[MOST];
    sr_segment segments[COUNT];
    sr_optim_opts opts = opts_of(method);
    float *values = NULL;
    int64_t end = 0;
    fill_segments(segments);
    OWN(sr_params, *p, sr_params_new(&p, d, specs, COUNT, d->real));
    CHECK_OK(sr_params_initialise(p, 3));
    if (method == SR_MUON) mark_matrices(p, segments);
    for (int i = 0; i < parts; i++) {
        opts.range = parts > 1 ? sr_optim_cut(p, i, parts) : (sr_range){0, 0};
        CHECK(parts == 1 || opts.range.first == end);
        end = opts.range.last;
        CHECK_OK(sr_optim_new(&o[i], p, segments, &opts));
    }
    CHECK(parts == 1 || end == p->stored);
    for (int s = 0; s < STEPS; s++) {
        CHECK_OK(draw_all(p, s));
        if (parts == 1)
            CHECK_OK(sr_optim_step(o[0], 0.01, 1.0, NULL));
        else
            step_together(o, parts);
    }
    CHECK_OK(sr_optim_read_results(o[parts - 1]));
    sr_optim_result result = sr_optim_result_of(o[parts - 1], STEPS);
    CHECK(result.applied && result.norm > 1 && (o[0]->norms != NULL) == (method != SR_ADAMW));
    CHECK_OK(sr_new(&values, p->stored));
    CHECK_OK(sr_tensor_read(p->value, values, SR_F32));
    for (int i = 0; i < parts; i++) sr_optim_free(o[i]);
    return values;
}

static void test_parts(sr_device *d, sr_method method) {
    OWN(sr_params, *p, sr_params_new(&p, d, specs, COUNT, d->real));
    float *whole = train(d, method, 1);
    for (int parts = 2; parts <= MOST; parts++) {
        float *together = train(d, method, parts);
        CHECK(memcmp(whole, together, (size_t)p->stored * sizeof(float)) == 0);
        sr_free(together);
    }
    sr_free(whole);
}

/* What a range holds of each parameter; all ranges together hold each element once. */
static void test_pieces(sr_device *d) {
    sr_segment segments[COUNT];
    int64_t held[COUNT] = {0};
    fill_segments(segments);
    OWN(sr_params, *p, sr_params_new(&p, d, specs, COUNT, d->real));
    for (int part = 0; part < 3; part++) {
        sr_optim_opts opts = opts_of(SR_LAMB);
        opts.range = sr_optim_cut(p, part, 3);
        OWN(sr_optim, *o, sr_optim_new(&o, p, segments, &opts));
        for (int i = 0; i < COUNT; i++) {
            OWNED(sr_tensor) *v;
            sr_range range;
            OWN(sr_tensor, *m, sr_optim_moments_of(&m, &v, &range, o, i));
            CHECK((m != NULL) == (range.last > range.first));
            CHECK(m == NULL || (range.first == held[i] && m->shape[0] == range.last - range.first));
            held[i] += range.last - range.first;
        }
        CHECK_FAILS(sr_optim_step(o, 0.1, 0, NULL), SR_EINVAL, "needs the norms of the other");
    }
    for (int i = 0; i < COUNT; i++) CHECK(held[i] == p->list[i].size);
}

static void test_ranges(sr_device *d) {
    sr_optim *o;
    sr_segment segments[COUNT];
    sr_optim_opts opts = opts_of(SR_ADAMW);
    fill_segments(segments);
    OWN(sr_params, *p, sr_params_new(&p, d, specs, COUNT, d->real));
    opts.range = (sr_range){0, 100};
    CHECK_FAILS(sr_optim_new(&o, p, segments, &opts), SR_EINVAL, "cut a chunk");
    opts.range = (sr_range){0, p->stored + 1};
    CHECK_FAILS(sr_optim_new(&o, p, segments, &opts), SR_EINVAL, "of a store of");
    for (int parts = 5; parts < 40; parts += 17) { /* more parts than chunks: some are empty */
        int64_t end = 0;
        for (int i = 0; i < parts; i++) {
            sr_range range = sr_optim_cut(p, i, parts);
            CHECK(range.first == end && range.last >= end);
            end = range.last;
        }
        CHECK(end == p->stored);
    }
}

/* A matrix of Muon has one owner, whatever the number of parts. */
static void test_matrices(sr_device *d) {
    sr_optim *o;
    sr_segment segments[COUNT];
    sr_optim_opts opts = opts_of(SR_MUON);
    fill_segments(segments);
    OWN(sr_params, *p, sr_params_new(&p, d, specs, COUNT, d->real));
    segments[QUERY].rows = segments[QUERY].columns = 200;
    CHECK_FAILS(sr_optim_new(&o, p, segments, &opts), SR_EINVAL, "kept whole");
    mark_matrices(p, segments);
    p->list[WORD].whole = true;
    for (int parts = 2; parts < 9; parts++) {
        int64_t end = 0;
        for (int i = 0; i < parts; i++) {
            sr_range range = sr_optim_cut(p, i, parts);
            CHECK(range.first == end && range.last >= end && (i > 0 || range.last > 0));
            for (int k = WORD; k <= KEY; k++)
                CHECK(range.last <= p->list[k].offset ||
                      range.last >= p->list[k].offset + p->list[k].size);
            end = range.last;
        }
        CHECK(end == p->stored);
    }
    opts.range = (sr_range){0, p->list[QUERY].offset + SR_CHUNK};
    CHECK_FAILS(sr_optim_new(&o, p, segments, &opts), SR_EINVAL, "cut a matrix of 200 x 200");
    segments[QUERY].rows = 7;
    CHECK_FAILS(sr_optim_new(&o, p, segments, &opts), SR_EINVAL, "not a matrix of 7 x 200");
    opts.momentum = 1;
    CHECK_FAILS(sr_optim_new(&o, p, segments, &opts), SR_EINVAL, "momentum is 1");
}

int main(void) {
    int64_t live = sr_mem_live();
    const sr_backend *backends[] = {&sr_backend_ref, &sr_backend_cpu};
    for (int b = 0; b < 2; b++) {
        OWN(sr_device, *d, sr_device_open(&d, backends[b], 0, NULL));
        for (int method = 0; method < SR_METHOD_COUNT; method++) test_parts(d, (sr_method)method);
        test_matrices(d);
        test_pieces(d);
        test_ranges(d);
    }
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}

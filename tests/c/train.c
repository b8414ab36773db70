/* train.c - parameters, optimizers, safetensors and growing files under failing allocations and
 * disk errors. */
#include <errno.h>
#include <fcntl.h>

#include "tests/c/owners.h"
#include "tests/support/fail.h"
#include "tests/support/scratch.h"

static const sr_param_spec specs[] = {
    {.name = "word", .ndim = 2, .shape = {5, 3}, .std = 0.02, .pad_rows_to = 8},
    {.name = "q", .ndim = 2, .shape = {2, 3}, .std = 0.02, .fuse = "qkv"},
    {.name = "k", .ndim = 2, .shape = {2, 3}, .std = 0.02, .fuse = "qkv"},
    {.name = "bias", .ndim = 1, .shape = {7}, .init = SR_INIT_ONES},
};
enum { COUNT = sizeof specs / sizeof *specs };

static sr_status put(void *context, const void *bytes, size_t size) {
    return sr_append_write(context, bytes, size);
}

/* Writes the parameters to a file and reads them back. */
static sr_status round_trip(sr_params *p, const char *path) {
    sr_st_item items[COUNT] = {{0}};
    for (int i = 0; i < COUNT; i++) {
        items[i].name = p->list[i].name;
        items[i].tensor = p->list[i].leaf;
    }
    sr_st_plan *plan = NULL;
    sr_append *file = NULL;
    sr_safetensors *st = NULL;
    sr_status status = sr_st_plan_new(&plan, items, COUNT, NULL, 0);
    if (status == SR_OK) status = sr_append_open(&file, path, 0);
    if (status == SR_OK) status = sr_st_plan_write(plan, put, file);
    if (status == SR_OK) status = sr_safetensors_open(&st, path, 0);
    for (int i = 0; i < COUNT && status == SR_OK; i++) {
        const sr_st_entry *e = sr_safetensors_find(st, specs[i].name);
        status = sr_safetensors_read_tensor(st, e, p->list[i].leaf, p->list[i].size);
    }
    sr_safetensors_close(st);
    sr_append_close(file);
    sr_st_plan_free(plan);
    return status;
}

static sr_status whole_life(sr_device *device, bool lamb) {
    sr_segment segments[COUNT] = {{0}};
    for (int i = 0; i < COUNT; i++) segments[i].rate = 1;
    sr_optim_opts opts = {.method = lamb ? SR_LAMB : SR_ADAMW,
                          .beta1 = 0.9,
                          .beta2 = 0.999,
                          .eps = 1e-6,
                          .power = 1,
                          .max_skipped = 3};
    TRY_OWN(sr_params, *p, sr_params_new(&p, device, specs, COUNT, device->real));
    SR_TRY(sr_params_initialise(p, 3));
    TRY_OWN(sr_optim, *o, sr_optim_new(&o, p, segments, &opts));
    SR_TRY(sr_optim_step(o, 0.1, 1.0, NULL));
    SR_TRY(sr_optim_read_results(o));
    return round_trip(p, at("params"));
}

/* If any allocation fails, there is a clean error, and no memory is leaked. */
static void test_memory(const sr_backend *backend, bool lamb) {
    OWN(sr_device, *device, sr_device_open(&device, backend, 0, NULL));
    CHECK_OK(whole_life(device, lamb)); /* fills the pool, so that only leaks are counted */
    CHECK_STARVED_BUT(false, whole_life(device, lamb), device->bytes_used);
}

static void test_layout(void) {
    OWN(sr_device, *device, sr_device_open(&device, &sr_backend_ref, 0, NULL));
    OWN(sr_params, *p, sr_params_new(&p, device, specs, COUNT, device->real));
    CHECK(p->list[0].offset == 0 && p->list[0].size == 15 && p->list[0].stored == 24);
    CHECK(p->list[1].offset == 64 && p->list[2].offset == 70); /* fused: no gap */
    CHECK(p->list[3].offset == 128 && p->stored == 192);
    CHECK(p->elements == 15 + 6 + 6 + 7);
    CHECK(p->fused_count == 1 && p->fused[0].leaf->shape[0] == 4);
    CHECK(p->fused[0].leaf->grad->storage == p->grad->storage);
}

/* An update refreshes the bf16 copies of the masters, if any, but not frozen ones. */
static void test_bf16(const sr_backend *backend, bool lamb) {
    enum { N = 6 };
    sr_tensor *t[5]; /* value, grad, m, v, result */
    double start[N] = {1, -2, 3, 0.1, 5, 6}, gradient[N] = {1, -1, 2, 0.5, 7, 7};
    double result[5] = {1, 1}, value[N], copy[N];
    const sr_segment segments[] = {{.size = 4, .rate = 1, .trust = true},
                                   {.offset = 4, .size = 2, .rate = 1, .frozen = true}};
    const sr_chunk chunk = {.size = 4};
    OWN(sr_device, *d, sr_device_open(&d, backend, 0, NULL));
    OWN(sr_tensor, *norms, sr_tensor_full(&norms, d, SR_F64, 1, (int64_t[]){2}, 0));
    for (int i = 0; i < 5; i++) CHECK_OK(sr_params_flat(&t[i], d, i < 4 ? N : 5));
    OWN(sr_tensor, *low, sr_tensor_full(&low, d, SR_BF16, 1, (int64_t[]){N}, 9));
    CHECK_OK(sr_tensor_write(t[0], start, SR_F64));
    CHECK_OK(sr_tensor_write(t[1], gradient, SR_F64));
    CHECK_OK(sr_tensor_write(t[4], result, SR_F64));
    sr_step u = {.method = lamb ? SR_LAMB : SR_ADAMW,
                 .value = t[0],
                 .grad = t[1],
                 .m = t[2],
                 .v = t[3],
                 .bf16_copy = low,
                 .segments = segments,
                 .count = 2,
                 .chunks = &chunk,
                 .chunk_count = 1,
                 .last = 1,
                 .norms = norms,
                 .rate = 0.01,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-6,
                 .result = t[4]};
    if (lamb) CHECK_OK(backend->moments(&u));
    CHECK_OK(backend->step(&u));
    CHECK_OK(sr_tensor_read(t[0], value, SR_F64));
    CHECK_OK(sr_tensor_read(low, copy, SR_F64));
    for (int i = 0; i < N; i++) {
        bool frozen = i >= 4;
        CHECK((value[i] == start[i]) == frozen);
        CHECK(copy[i] == (frozen ? 9 : sr_bf16_to_f32(sr_bf16_from_f32((float)value[i]))));
    }
    for (int i = 0; i < 5; i++) sr_tensor_release(t[i]);
}

/* ---- growing files --------------------------------------------------------------------------- */

static sr_io sound;
static int writes_left, cuts_left;

/* Writes half of the data, then fails, like a disk that fills up. */
static ssize_t full_write(int fd, const void *bytes, size_t size) {
    if (writes_left-- > 0) return sound.write(fd, bytes, (size + 1) / 2);
    errno = ENOSPC;
    return -1;
}

static int full_truncate(int fd, off_t size) {
    if (cuts_left-- > 0) return sound.ftruncate(fd, size);
    errno = EIO;
    return -1;
}

static void test_append(void) {
    sr_append *a;
    CHECK_OK(sr_append_open(&a, at("log"), 0));
    CHECK_OK(sr_append_write(a, "one\n", 4));
    for (int torn = 0; torn < 2; torn++) {
        writes_left = 1;
        cuts_left = !torn;
        sr_io_now.write = full_write;
        sr_io_now.ftruncate = full_truncate;
        CHECK_FAILS(sr_append_write(a, "two, which is longer\n", 21), SR_EIO, "free some space");
        sr_io_now = sound;
        CHECK(file_is(at("log"), torn ? "one\nthree\ntwo, which " : "one\n"));
        if (torn == 0) CHECK_OK(sr_append_write(a, "three\n", 6));
    }
    CHECK_OK(sr_append_write(a, "four\n", 5)); /* the incomplete record is removed first */
    CHECK_OK(sr_append_sync(a));
    sr_append_close(a);
    CHECK(file_is(at("log"), "one\nthree\nfour\n"));
    CHECK_OK(sr_append_open(&a, at("log"), 4)); /* cut */
    CHECK_OK(sr_append_write(a, "2\n", 2));
    sr_append_close(a);
    CHECK(file_is(at("log"), "one\n2\n"));
    CHECK_FAILS(sr_append_open(&a, scratch, 0), SR_EIO, "cannot open");
}

static sr_status write_events(void) {
    const char *tags[] = {"train/loss", "train/lr"};
    const double values[] = {1.5, 2.5};
    sr_events *e;
    SR_TRY(sr_events_open(&e, scratch, 1000, 5));
    sr_status st = sr_events_scalars(e, 1000, 1, tags, values, 2);
    if (st == SR_OK) st = sr_events_text(e, 1000, 1, "config", "a text that is a little longer");
    sr_events_close(e);
    return st;
}

int main(void) {
    if (!scratch_begin()) return 1;
    sound = sr_io_now;
    int64_t live = sr_mem_live();
    test_layout();
    for (int lamb = 0; lamb < 2; lamb++) {
        test_bf16(&sr_backend_ref, lamb);
        test_bf16(&sr_backend_cpu, lamb);
        test_memory(&sr_backend_ref, lamb);
        test_memory(&sr_backend_cpu, lamb);
    }
    test_append();
    CHECK_STARVED(false, write_events());
    CHECK(sr_mem_live() == live);
    scratch_end();
    return CHECK_DONE();
}

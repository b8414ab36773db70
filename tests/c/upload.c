/* upload.c - batches and layouts on a device: one upload, every array whole, nothing left behind.
 */
#include "tests/c/owners.h"
#include "tests/support/fail.h"

enum { ROWS = 128, ITEMS = 3, WIDE = 2 };

static int32_t ids[ROWS], types[ROWS], last_rows[ITEMS] = {0, 2, 4};
static int32_t rows[ITEMS] = {0, 2, 4}, spans[2 * ITEMS] = {0, 1, 2, 3, 4, 5};
static int32_t whole[ITEMS] = {7, 8, 9};
static float weights[ITEMS] = {0.5f, 0.25f, 0.125f}, wide[WIDE * ITEMS] = {1, 2, 3, 4, 5, 6};

/* The cpu backend as if its memory were elsewhere. */
static sr_backend far;

static sr_device *open_device(const sr_backend *backend) {
    sr_device *d;
    CHECK_OK(sr_device_open(&d, backend, 0, NULL));
    return d;
}

static sr_layout *new_layout(int32_t sequences, int64_t count) {
    sr_layout *l;
    const int32_t len[] = {2, 4}, one[] = {3};
    CHECK_OK(sr_layout_new(&l, sequences, NULL, sequences == 2 ? len : one, NULL, NULL, count, 5));
    return l;
}

/* Two targets: classes of sequences, and spans with two numbers each. */
static sr_batch new_batch(sr_target target[2]) {
    target[0] = (sr_target){.name = "class",
                            .columns = 1,
                            .count = ITEMS,
                            .rows = rows,
                            .places = rows,
                            .labels = whole,
                            .weights = weights};
    target[1] = (sr_target){.name = "wide",
                            .reads = SR_READS_SPANS,
                            .type = SR_LABEL_F32,
                            .columns = WIDE,
                            .count = ITEMS,
                            .rows = spans,
                            .places = spans,
                            .labels = wide,
                            .weights = weights};
    return (sr_batch){.layout = new_layout(2, ROWS),
                      .ids = ids,
                      .types = types,
                      .target = target,
                      .targets = 2,
                      .last = new_layout(1, 0),
                      .last_rows = last_rows,
                      .slots = ROWS};
}

static void drop_batch(const sr_batch *b) {
    sr_layout_release(b->layout);
    sr_layout_release(b->last);
}

static void check_i32(const sr_tensor *t, const int32_t *wanted, int64_t n) {
    int32_t got[ROWS];
    CHECK(t->dtype == SR_I32 && sr_tensor_elements(t) == n);
    CHECK_OK(sr_tensor_read(t, got, SR_I32));
    CHECK(memcmp(got, wanted, (size_t)n * sizeof *got) == 0);
}

static void check_real(const sr_tensor *t, const float *wanted, int64_t n) {
    float got[ROWS];
    CHECK(t->dtype == t->storage->device->real && sr_tensor_elements(t) == n);
    CHECK_OK(sr_tensor_read(t, got, SR_F32));
    CHECK(memcmp(got, wanted, (size_t)n * sizeof *got) == 0);
}

static void test_batch(const sr_backend *backend) {
    sr_target target[2];
    sr_batch b = new_batch(target);
    OWNED(sr_device) *d = open_device(backend);
    sr_batch_on *on;
    CHECK_OK(sr_batch_upload(&on, d, &b));
    CHECK(d->uploads == 1 && on->targets == 2 && on->original_ids == NULL);
    check_i32(on->ids, ids, ROWS);
    check_i32(on->types, types, ROWS);
    check_i32(on->last_rows, last_rows, ITEMS);
    check_i32(on->target[0].rows, rows, ITEMS);
    check_i32(on->target[0].labels, whole, ITEMS);
    check_real(on->target[0].weights, weights, ITEMS);
    check_i32(on->target[1].places, spans, 2 * ITEMS);
    check_real(on->target[1].labels, wide, WIDE * ITEMS);
    CHECK(on->target[1].labels->ndim == 2 && on->target[1].labels->shape[1] == WIDE);
    CHECK(on->target[1].rows->ndim == 2 && on->ids->storage == on->target[1].weights->storage);

    sr_layout_on *l;
    CHECK_OK(sr_layout_find_on(&l, b.layout, d));
    CHECK_OK(sr_layout_find_on(&l, b.last, d));
    CHECK(d->uploads == 1); /* both came with the batch, or need no copy */
    sr_batch_on_free(on);
    drop_batch(&b);
    CHECK(d->bytes_used == 0);
}

static bool holds(sr_device *d, const void *at, const void *wanted, int64_t n) {
    int32_t got[ROWS];
    CHECK_OK(sr_device_download(d, got, at, (size_t)n * sizeof *got));
    return memcmp(got, wanted, (size_t)n * sizeof *got) == 0;
}

static void test_layout(const sr_backend *backend) {
    OWNED(sr_device) *d = open_device(backend);
    sr_layout *l = new_layout(2, ROWS);
    sr_layout_on *on, *again;
    CHECK_OK(sr_layout_find_on(&on, l, d));
    CHECK(holds(d, on->start, l->start, 2) && holds(d, on->len, l->len, 2));
    CHECK(holds(d, on->uid, l->uid, 2) && holds(d, on->epoch, l->epoch, 2));
    CHECK(holds(d, on->longest_first, l->longest_first, 2));
    CHECK(holds(d, on->owner, l->owner, ROWS) && holds(d, on->position, l->position, ROWS));
    CHECK((on->start == l->start) == backend->host && d->uploads == !backend->host);
    CHECK_OK(sr_layout_find_on(&again, l, d));
    CHECK(again == on);

    sr_device *other = open_device(&sr_backend_ref);
    CHECK_OK(sr_layout_find_on(&again, l, other));
    CHECK(again != on && again->device == other);
    sr_device_close(other); /* the copy there goes with the layout, later */
    sr_layout_release(l);
    CHECK(d->bytes_used == 0);
}

/* The copy that came with a batch ends with its scope; the next one does not. */
static void test_scope(void) {
    sr_target target[2];
    sr_batch b = new_batch(target);
    OWNED(sr_device) *d = open_device(&far);
    sr_scope *scope;
    sr_batch_on *on;
    sr_layout_on *l;
    CHECK_OK(sr_scope_open(&scope, d));
    CHECK_OK(sr_batch_upload(&on, d, &b));
    sr_scope_close(scope);
    sr_scope_free(scope);
    sr_batch_on_free(on);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sr_scope_open(&scope, d));
        CHECK_OK(sr_layout_find_on(&l, b.layout, d));
        CHECK(holds(d, l->start, b.layout->start, 2) && d->uploads == 2);
        sr_scope_close(scope);
        sr_scope_free(scope);
    }
    drop_batch(&b);
}

static int copies(const sr_layout *layout) {
    int n = 0;
    for (const sr_mirror *m = layout->mirrors; m != NULL; m = m->next) n++;
    return n;
}

/* A batch that is used in many scopes does not collect expired copies. */
static void test_repeated(void) {
    sr_target target[2];
    sr_batch b = new_batch(target);
    OWNED(sr_device) *d = open_device(&far);
    for (int i = 0; i < 5; i++) {
        sr_scope *scope;
        sr_batch_on *on;
        CHECK_OK(sr_scope_open(&scope, d));
        CHECK_OK(sr_batch_upload(&on, d, &b));
        CHECK(copies(b.layout) == 1 && copies(b.last) == 1);
        sr_batch_on_free(on);
        sr_scope_close(scope);
        sr_scope_free(scope);
    }
    drop_batch(&b);
    CHECK(d->bytes_used == 0);
}

/* What a backend keeps with a layout goes with it. */
static int freed;

static void free_own(sr_device *device, void *own) {
    CHECK(device->backend == &far && own == &freed);
    freed++;
}

static void test_own(void) {
    OWNED(sr_device) *d = open_device(&far);
    sr_layout *l = new_layout(2, ROWS);
    sr_layout_on *on;
    CHECK_OK(sr_layout_find_on(&on, l, d));
    on->own = &freed;
    on->free_own = free_own;
    sr_layout_release(l);
    CHECK(freed == 1);
}

static void test_memory(const sr_backend *backend) {
    sr_target target[2];
    OWNED(sr_device) *d = open_device(backend);
    sr_status st;
    sr_layout_on *l;
    sr_layout *alone = new_layout(2, ROWS);
    STARVE_ANY(st, 0, true, false, sr_layout_find_on(&l, alone, d)) {
        sr_layout_release(alone);
        CHECK(d->bytes_used == 0);
        alone = new_layout(2, ROWS);
    }
    sr_layout_release(alone);
    sr_batch b = new_batch(target);
    sr_batch_on *on;
    STARVE_ANY(st, 0, true, false, sr_batch_upload(&on, d, &b)) {
        CHECK((on != NULL) == (st == SR_OK));
        sr_batch_on_free(on);
        drop_batch(&b);
        CHECK(d->bytes_used == 0);
        b = new_batch(target);
    }
    drop_batch(&b);
}

int main(void) {
    int64_t live = sr_mem_live();
    for (int i = 0; i < ROWS; i++) ids[i] = 3 * i, types[i] = i % 2;
    far = sr_backend_cpu;
    far.name = "far";
    far.host = false;
    const sr_backend *backends[] = {&sr_backend_ref, &sr_backend_cpu, &far};
    for (int i = 0; i < 3; i++) {
        test_batch(backends[i]);
        test_layout(backends[i]);
        test_memory(backends[i]);
    }
    test_scope();
    test_repeated();
    test_own();
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}

/* Columns of values: what is declared is checked, what is damaged is refused, and the targets made
 * of them survive every failure of memory. */
#include "core/data/field.h"

#include "tests/support/fail.h"
#include "tests/c/sample.h"

static const char *path;

enum { EXAMPLES = 30 };

/* One column beside the tokens: `count` elements of zero, and what the metadata says of it. */
typedef struct extra {
    const char *name, *shape;
    sr_column_type type;
    uint64_t count;
    int64_t lengths; /* of lists, each; -1: no such column */
} extra;

static sr_status add_extra(sr_shard_writer *w, const extra *x) {
    char key[128];
    int column;
    const uint64_t zero = 0;
    snprintf(key, sizeof key, SR_FIELD_KEY "%s", x->name);
    SR_TRY(sr_shard_set_meta(w, key, x->shape));
    if (x->type != 0) SR_TRY(sr_shard_add_column(w, &column, x->name, x->type));
    for (uint64_t i = 0; x->type != 0 && i < x->count; i++)
        SR_TRY(sr_shard_append(w, column, &zero, 1));
    if (x->lengths < 0) return SR_OK;
    snprintf(key, sizeof key, "%s" SR_FIELD_COUNTS, x->name);
    SR_TRY(sr_shard_add_column(w, &column, key, SR_COLUMN_U32));
    for (int i = 0; i < EXAMPLES; i++) {
        uint32_t n = (uint32_t)x->lengths;
        SR_TRY(sr_shard_append(w, column, &n, 1));
    }
    return SR_OK;
}

/* Examples of 4 + i % 7 tokens of A and i % 3 of B. */
static sr_status add_tokens(sr_shard_writer *w, uint32_t *tokens) {
    int a, b;
    *tokens = 0;
    SR_TRY(sr_shard_add_column(w, &a, "a_tokens", SR_COLUMN_U32));
    SR_TRY(sr_shard_add_column(w, &b, "b_tokens", SR_COLUMN_U32));
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        uint32_t na = 4 + i % 7, nb = i % 3;
        SR_TRY(sr_shard_append(w, a, &na, 1));
        SR_TRY(sr_shard_append(w, b, &nb, 1));
        *tokens += na + nb;
    }
    SR_TRY(sample_ids(w, *tokens, 100));
    SR_TRY(sr_shard_set_meta(w, "kind", "examples"));
    return sample_vocab(w, 100);
}

static sr_status write_extra(const extra *x) {
    sr_shard_writer *w;
    uint32_t tokens;
    SR_TRY(sr_shard_create(&w, path));
    sr_status st = add_tokens(w, &tokens);
    extra filled = *x;
    if (x->count == UINT64_MAX) filled.count = tokens;
    if (st == SR_OK) st = add_extra(w, &filled);
    if (st == SR_OK) return sr_shard_commit(w);
    sr_shard_abort(w);
    return st;
}

static void declarations_are_checked(void) {
    static const struct {
        extra x;
        const char *message; /* NULL: good */
    } cases[] = {
        {{"x", "example", SR_COLUMN_I32, EXAMPLES, -1}, NULL},
        {{"x", "example 3", SR_COLUMN_F32, 3 * EXAMPLES, -1}, NULL},
        {{"x", "token", SR_COLUMN_I64, UINT64_MAX, -1}, NULL},
        {{"x", "example ragged", SR_COLUMN_BYTES, 5 * EXAMPLES, 5}, NULL},
        {{"x", "example ragged", SR_COLUMN_I32, 0, 0}, NULL},
        {{"x", "example", SR_COLUMN_I32, EXAMPLES - 1, -1}, "'x' does not have its values"},
        {{"x", "example 2", SR_COLUMN_I32, EXAMPLES, -1}, "'x' does not have its values"},
        {{"x", "token 2", SR_COLUMN_I32, UINT64_MAX, -1}, "its values for each token"},
        {{"x", "example ragged", SR_COLUMN_I32, 5, -1}, "no column 'x.counts'"},
        {{"x", "example ragged", SR_COLUMN_I32, 7, 1}, "more or fewer values than its lists"},
        {{"x", "example", SR_COLUMN_F64, EXAMPLES, -1}, "has f64 of shape"},
        {{"x", "example", SR_COLUMN_BYTES, EXAMPLES, -1}, "has bytes of shape"},
        {{"x", "example 0", SR_COLUMN_I32, EXAMPLES, -1}, "shape 'example 0' is not"},
        {{"x", "example 65537", SR_COLUMN_I32, EXAMPLES, -1}, "shape 'example 65537' is not"},
        {{"x", "example 99999999999999999999", SR_COLUMN_I32, EXAMPLES, -1}, "is not 'example'"},
        {{"x", "example 1x", SR_COLUMN_I32, EXAMPLES, -1}, "is not 'example'"},
        {{"x", "example ", SR_COLUMN_I32, EXAMPLES, -1}, "is not 'example'"},
        {{"x", "token ragged", SR_COLUMN_I32, EXAMPLES, -1}, "shape 'token ragged' is not"},
        {{"x", "sentence", SR_COLUMN_I32, EXAMPLES, -1}, "shape 'sentence' is not"},
        {{"x", "", SR_COLUMN_I32, EXAMPLES, -1}, "shape '' is not"},
        {{"x", "example", 0, 0, -1}, "but there is no such column"},
        {{"source", "example", SR_COLUMN_F32, EXAMPLES, -1}, "'source' must have one i32 or i64"},
        {{"offset", "example", SR_COLUMN_I32, EXAMPLES, -1}, "but no column 'source'"},
    };
    sr_dataset_opts none = {0};
    int64_t live = sr_mem_live();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_dataset *d;
        CHECK_OK(write_extra(&cases[i].x));
        if (cases[i].message == NULL)
            CHECK_OK(sr_dataset_open(&d, path, &none));
        else
            CHECK_FAILS(sr_dataset_open(&d, path, &none), SR_EDATA, cases[i].message);
        CHECK(cases[i].message == NULL || strstr(sr_message(), path) != NULL);
        sr_dataset_close(d);
        CHECK(sr_mem_live() == live);
    }
}

/* ---- targets ---- */

/* label i; wide 2^33 for example 3; tag: the token's index, -100 for each fourth; span 1..2. */
static sr_status add_labels(sr_shard_writer *w, uint32_t tokens) {
    sr_field_column label, wide, tag, span;
    SR_TRY(sr_field_add(&label, w, "label", SR_COLUMN_I32, false, 1));
    SR_TRY(sr_field_add(&wide, w, "wide", SR_COLUMN_I64, false, 1));
    SR_TRY(sr_field_add(&tag, w, "tag", SR_COLUMN_I32, true, 1));
    SR_TRY(sr_field_add(&span, w, "span", SR_COLUMN_I32, false, 2));
    for (int32_t i = 0; i < EXAMPLES; i++) {
        int64_t big = i == 3 ? (int64_t)1 << 33 : i;
        int32_t ends[] = {1, i == 5 ? 1000 : 2};
        SR_TRY(sr_shard_append(w, label.values, &i, 1));
        SR_TRY(sr_shard_append(w, wide.values, &big, 1));
        SR_TRY(sr_shard_append(w, span.values, ends, 2));
    }
    for (int32_t i = 0; i < (int32_t)tokens; i++)
        SR_TRY(sr_shard_append(w, tag.values, i % 4 == 3 ? &(int32_t){SR_IGNORE} : &i, 1));
    return SR_OK;
}

static sr_dataset *open_labels(void) {
    sr_shard_writer *w;
    uint32_t tokens;
    CHECK_OK(sr_shard_create(&w, path));
    CHECK_OK(add_tokens(w, &tokens));
    CHECK_OK(add_labels(w, tokens));
    CHECK_OK(sr_shard_commit(w));
    return sample_open(path, 0);
}

static const sr_target_opts three[] = {
    {.name = "mlm", .kind = "mlm"}, {.name = "tag"}, {.name = "late", .kind = "deferred"}};

static sr_loader_opts with(const sr_target_opts *target, int targets) {
    return (sr_loader_opts){.examples = {.max_len = 64, .seed = 9},
                            .solve = {.solver = "lpfhp"},
                            .packs = 3,
                            .micro = 2,
                            .target = target,
                            .targets = targets,
                            .keep_ids = true,
                            .mask_prob = 0.15,
                            .mask_max = 20};
}

static sr_status take_one(const sr_dataset *d, const sr_target_opts *target, int targets) {
    sr_loader_opts o = with(target, targets);
    TRY_OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    TRY_OWN(sr_update, *u, sr_loader_next(&u, l));
    for (int64_t b = 0; b < u->batches && targets == 3; b++) {
        sr_batch *batch = u->batch[b];
        int32_t labels[64] = {7};
        SR_TRY(sr_batch_set_target(batch, 2, batch->sequences, batch->layout->start, labels));
    }
    return sr_update_finish(u);
}

static void bad_labels_name_their_example(void) {
    OWNED(sr_dataset) *d = open_labels();
    sr_target_opts wide = {.name = "wide"}, span = {.name = "span", .reads = "spans"};
    for (int i = 0; i < 2; i++) { /* whichever update has the bad example */
        sr_loader_opts o = with(i == 0 ? &wide : &span, 1);
        sr_update *u = NULL;
        o.packs = 1000, o.epochs = 1;
        OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
        CHECK_FAILS(sr_loader_next(&u, l), SR_EDATA,
                    i == 0 ? "value 3 of column 'wide' is 8589934592" : "example 5 has the span");
    }
}

static void late_targets_are_checked(void) {
    OWNED(sr_dataset) *d = open_labels();
    sr_loader_opts o = with(three, 3);
    OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    OWN(sr_update, *u, sr_loader_next(&u, l));
    sr_batch *b = u->batch[0];
    int32_t label[] = {1, 2, 3}, last = (int32_t)b->slots;
    int32_t first = b->layout->start[0], second = b->layout->start[1];
    CHECK(b->last == NULL);
    CHECK_FAILS(sr_batch_set_target(b, 0, 1, &first, label), SR_EINVAL, "made by the loader");
    CHECK_FAILS(sr_batch_set_target(b, 2, 1, &last, label), SR_EINVAL, "is in no sequence");
    int32_t back[] = {second, first}, good[] = {first, first + 1, second};
    CHECK_FAILS(sr_batch_set_target(b, 2, 2, back, label), SR_EINVAL, "out of order");
    CHECK_OK(sr_batch_set_target(b, 2, 3, good, label));
    CHECK_OK(sr_batch_set_target(b, 2, 3, good, label)); /* again */
    CHECK(b->target[2].sequences == 2 && b->target[2].weights[0] == 2);
    CHECK_OK(sr_update_finish(u));
    CHECK(b->target[2].denominator == 3 && b->target[2].weights[2] == (float)(1.0 / 3));
    for (int i = 0; i < 3; i++) CHECK(b->last_rows[b->target[2].places[i]] == good[i]);
}

static sr_status open_and_close(void) {
    OWNED(sr_dataset) *d = NULL;
    sr_dataset_opts none = {0};
    return sr_dataset_open(&d, path, &none);
}

static void memory_runs_out(void) {
    sr_dataset *d = open_labels();
    CHECK_OK(take_one(d, three, 3)); /* fills the block cache, which stays */
    CHECK_STARVED(true, take_one(d, three, 3));
    sr_dataset_close(d);
    CHECK_STARVED(true, open_and_close());
}

int main(void) {
    if (!scratch_begin()) return 1;
    path = at("a.sqr");
    declarations_are_checked();
    bad_labels_name_their_example();
    late_targets_are_checked();
    memory_runs_out();
    scratch_end();
    return CHECK_DONE();
}

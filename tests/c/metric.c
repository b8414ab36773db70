/* metric.c - metric files: order, values, what they are of; with failing memory. */
#include "core/data/metric.h"

#include <math.h>

#include "core/data/ranking.h"
#include "tests/support/fail.h"
#include "tests/c/sample.h"

OWNER(sr_metric, sr_metric_close)
OWNER(sr_ranking, sr_ranking_free)

enum { COUNT = 1000 };

static const char *text_path, *other_path, *metric_path, *sorted;

/* Numbers with many ties, both signs and magnitudes. */
static void fill(double *value, int count) {
    for (int i = 0; i < count; i++) {
        uint32_t word = sr_philox(sr_counter(0, 0, (uint32_t)i, 0, 0, 0, 0), 5, 10).w[0];
        value[i] = ldexp((double)(word % 41) - 20, (int)(word >> 8) % 3 * 30);
        if (value[i] == 0 && i % 2 == 0) value[i] = -0.0;
    }
}

/* The order is that of a sort by value, then by index, whatever the length of a run. */
static void ranking(int64_t run) {
    static double value[COUNT];
    static bool seen[COUNT];
    sr_ranked got[64], last = {-INFINITY, 0};
    int64_t n = 1, total = 0;
    fill(value, COUNT);
    memset(seen, 0, sizeof seen);
    OWN(sr_ranking, *r, sr_ranking_new(&r, sorted, run));
    CHECK_OK(sr_ranking_add(r, value, 300));
    CHECK_OK(sr_ranking_add(r, value + 300, COUNT - 300));
    while (n > 0) {
        CHECK_OK(sr_ranking_next(&n, r, got, 64));
        for (int64_t i = 0; i < n; i++, total++) {
            CHECK(got[i].index < COUNT && !seen[got[i].index]);
            CHECK(got[i].value == value[got[i].index]);
            CHECK(got[i].value > last.value ||
                  (got[i].value == last.value && got[i].index > last.index));
            seen[got[i].index] = true;
            last = got[i];
        }
    }
    CHECK(total == COUNT);
    CHECK(access(sorted, F_OK) != 0);
}

static void ranking_rejects(void) {
    double nan = NAN;
    OWN(sr_ranking, *r, sr_ranking_new(&r, sorted, 4));
    CHECK_FAILS(sr_ranking_add(r, &nan, 1), SR_EINVAL, "NaN");
}

static void memory(void) {
    const double value[] = {3, 1, 2, 1, -1.5};
    const uint32_t order[] = {4, 1, 3, 2, 0};
    sr_metric *m;
    uint32_t uid[5];
    double there;
    int64_t n;
    CHECK_OK(sr_metric_of(&m, value, 5));
    CHECK_OK(sr_metric_order(uid, m, 0, 5));
    CHECK(memcmp(uid, order, sizeof order) == 0 && !m->whole);
    CHECK_OK(sr_metric_upto(&n, m, 1));
    CHECK(n == 3);
    CHECK_OK(sr_metric_upto(&n, m, -2));
    CHECK(n == 0);
    CHECK_OK(sr_metric_upto(&n, m, 1e9));
    CHECK(n == 5);
    CHECK_OK(sr_metric_at(&there, m, 4));
    CHECK(there == 3);
    CHECK_FAILS(sr_metric_order(uid, m, 4, 2), SR_EINVAL, "outside");
    sr_metric_close(m);
    CHECK_FAILS(sr_metric_of(&m, value, 0), SR_EINVAL, "0 values");
}

static sr_status write_metric(const sr_dataset *d, const sr_examples_opts *opts,
                              sr_column_type type, const double *value, int64_t count) {
    sr_metric_about about = {"some", d, opts, "", type, false};
    sr_metric_writer *w;
    SR_TRY(sr_metric_create(&w, metric_path, &about));
    sr_status st = sr_metric_append(w, value, count);
    if (st == SR_OK) return sr_metric_commit(w);
    sr_metric_abort(w);
    return st;
}

static void file(void) {
    static double value[COUNT], back[COUNT];
    static uint32_t uid[COUNT], same[COUNT];
    sr_examples_opts opts = {.max_len = 128, .nsp = true, .short_seq_prob = 0.1};
    OWNED(sr_dataset) *d = sample_open(text_path, SR_HELD_USUAL);
    OWNED(sr_dataset) *other = sample_open(other_path, SR_HELD_USUAL);
    sr_metric *m, *twin;
    fill(value, COUNT);
    value[7] = M_PI;
    CHECK_OK(write_metric(d, &opts, SR_COLUMN_F64, value, COUNT));
    CHECK_OK(sr_metric_open(&m, metric_path));
    CHECK(m->count == COUNT && strcmp(sr_metric_name(m), "some") == 0);
    CHECK_OK(sr_metric_values(back, m, 0, COUNT));
    CHECK(memcmp(back, value, sizeof value) == 0);
    CHECK_OK(sr_metric_order(uid, m, 0, COUNT));
    CHECK_OK(sr_metric_of(&twin, value, COUNT));
    CHECK_OK(sr_metric_order(same, twin, 0, COUNT));
    CHECK(memcmp(uid, same, sizeof uid) == 0);
    CHECK_OK(sr_metric_check(m, d, &opts, COUNT));
    CHECK_OK(sr_metric_check(m, other, NULL, -1) == SR_EDATA ? SR_OK : SR_EINTERNAL);
    CHECK_FAILS(sr_metric_check(m, other, &opts, COUNT), SR_EDATA, "another data set");
    CHECK_FAILS(sr_metric_check(m, d, &opts, COUNT - 1), SR_EDATA, "1000 values for 999");
    opts.max_len = 64;
    CHECK_FAILS(sr_metric_check(m, d, &opts, COUNT), SR_EDATA, "choice of examples");
    sr_metric_close(m);
    sr_metric_close(twin);
    CHECK_FAILS(sr_metric_open(&m, text_path), SR_EDATA, "not a metric");
    CHECK_FAILS(sr_metric_open(&m, "/nowhere"), SR_ENOENT, "seqrun analyze");
}

static void integers(sr_column_type type, double largest) {
    const double value[] = {3, largest, -largest, 0};
    double back[4];
    sr_examples_opts opts = {.max_len = 128};
    OWNED(sr_dataset) *d = sample_open(text_path, SR_HELD_USUAL);
    CHECK_OK(write_metric(d, &opts, type, value, 4));
    OWN(sr_metric, *m, sr_metric_open(&m, metric_path));
    CHECK_OK(sr_metric_values(back, m, 0, 4));
    CHECK(memcmp(back, value, sizeof value) == 0 && m->whole);
}

static sr_status everything(const sr_dataset *d) {
    double value[20];
    sr_examples_opts opts = {.max_len = 128};
    sr_ranked first;
    int64_t n;
    fill(value, 20);
    SR_TRY(write_metric(d, &opts, SR_COLUMN_F64, value, 20));
    TRY_OWN(sr_metric, *m, sr_metric_open(&m, metric_path));
    SR_TRY(sr_metric_upto(&n, m, 0));
    TRY_OWN(sr_metric, *twin, sr_metric_of(&twin, value, 20));
    TRY_OWN(sr_ranking, *r, sr_ranking_new(&r, sorted, 8));
    SR_TRY(sr_ranking_add(r, value, 20));
    return sr_ranking_next(&n, r, &first, 1);
}

static void failing_memory(void) {
    OWNED(sr_dataset) *d = sample_open(text_path, SR_HELD_USUAL);
    CHECK_STARVED(true, everything(d));
}

int main(void) {
    if (!scratch_begin()) return 1;
    text_path = at("text.sqr"), other_path = at("other.sqr");
    metric_path = at("a.metric"), sorted = at("a.sort");
    CHECK_OK(sample_text(text_path, 50, 20, 30, 500));
    CHECK_OK(sample_text(other_path, 51, 20, 30, 500));
    ranking(0);
    ranking(COUNT);
    ranking(7);
    ranking(1);
    ranking_rejects();
    memory();
    file();
    integers(SR_COLUMN_I32, 2147483647);
    integers(SR_COLUMN_I64, 9007199254740992);
    failing_memory();
    scratch_end();
    return CHECK_DONE();
}

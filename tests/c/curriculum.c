/* Samplers and windows of updates: what is unlocked and drawn, how tightly batches are filled, and
 * memory that runs out anywhere. */
#include "core/loader/sampler.h"
#include "core/loader/window.h"
#include "tests/support/fail.h"
#include "tests/c/sample.h"

static const char *path;

enum { EXAMPLES = 1500, LONGEST = 60 };

static sr_loader_opts usual(void) {
    return (sr_loader_opts){.examples = {.max_len = LONGEST, .seed = 3},
                            .by = SR_BY_ORDER,
                            .micro = 10,
                            .mask = true,
                            .mask_prob = 0.15,
                            .mask_max = 9};
}

static uint32_t draw_below(uint32_t i, uint32_t n) {
    return sr_below(sr_philox(sr_counter(i, i >> 16, 0, 0, 0, 0, 0), 5, SR_ROUNDS_DATA).w[0], n);
}

/* ---- fill ---- */

static void check_fill(const sr_window_packing *f, const uint16_t *length, int64_t n,
                       const sr_window_pack_opts *o) {
    static int64_t used[4096];
    int64_t rows = 0;
    CHECK(f->batches % o->updates == 0 && f->batches <= 4096);
    for (int64_t b = 0; b < f->batches; b++) used[b] = 0;
    for (int64_t i = 0; i < n; i++) used[f->batch[i]] += length[i];
    for (int64_t b = 0; b < f->batches; b++) {
        CHECK(used[b] > 0 && used[b] <= f->rows[b] && f->rows[b] - used[b] < 128);
        CHECK(o->rows == 0 || f->rows[b] <= (o->rows + 127) / 128 * 128);
        rows += f->rows[b];
    }
    CHECK(rows == f->tiles * 128 && f->tiles >= f->bound);
    static int64_t count[4096];
    for (int64_t u = 0; u < o->updates; u++) count[u] = 0;
    for (int64_t i = 0; i < n; i++) count[f->batch[i] % o->updates]++;
    for (int64_t u = 0; u < o->updates; u++)
        CHECK(count[u] == n / o->updates + (u < n % o->updates));
}

/* Lengths of all kinds, mostly of one length as truncation makes them. */
static void batches_are_full(void) {
    static uint16_t length[3000];
    double worst = 1;
    for (uint32_t limit = 64; limit <= 512; limit += 8) {
        int64_t tokens = 0, n = 0;
        while (tokens < 40000) {
            uint32_t len = 5 + draw_below(limit * 4096 + (uint32_t)n, 900);
            length[n] = (uint16_t)(len < limit ? len : limit);
            tokens += length[n++];
        }
        sr_window_packing f;
        sr_window_pack_opts o = {.updates = 2, .rows = 4096};
        CHECK_OK(sr_window_pack(&f, length, n, &o));
        check_fill(&f, length, n, &o);
        double full = (double)tokens / (double)(f.tiles * 128);
        if (full < worst) worst = full;
        sr_window_packing_free(&f);
    }
    CHECK(worst > 0.99);
}

static void fills_of_any_shape(void) {
    static uint16_t length[400];
    for (uint32_t trial = 0; trial < 3000; trial++) {
        uint32_t n = 1 + draw_below(trial * 1000, 400),
                 most = 1 + draw_below(trial * 1000 + 1, 300);
        for (uint32_t i = 0; i < n; i++)
            length[i] = (uint16_t)(1 + draw_below(trial * 1000 + 2 + i, most));
        sr_window_pack_opts o = {.updates = 1 + draw_below(trial * 1000 + 900, n < 9 ? n : 9),
                                 .rows = trial % 3 == 0 ? 0 : 300 * (1 + trial % 7),
                                 .shares = trial % 5};
        sr_window_packing f;
        CHECK_OK(sr_window_pack(&f, length, n, &o));
        check_fill(&f, length, n, &o);
        if (o.shares > 0 && n / o.updates >= o.shares * (f.batches / o.updates / o.shares + 1))
            CHECK(f.batches / o.updates % o.shares == 0);
        sr_window_packing_free(&f);
    }
    sr_window_packing f;
    sr_window_pack_opts o = {.updates = 3};
    CHECK_FAILS(sr_window_pack(&f, length, 2, &o), SR_EINVAL, "too few for a window of 3");
}

/* ---- samplers ---- */

/* Unlocked is what every metric has in its prefix, however it got there. */
static void prefixes_are_all_that_counts(void) {
    OWNED(sr_dataset) *d = sample_open_fixed(path, EXAMPLES, true);
    sr_loader_opts o = usual();
    sr_loader *l;
    sr_epoch *e;
    sr_sampler *s;
    static double value[EXAMPLES];
    static uint32_t order[EXAMPLES], uid[EXAMPLES];
    for (uint32_t i = 0; i < EXAMPLES; i++) value[i] = draw_below(i, 300);
    sr_sampler_metric m[3] = {{0}, {.reverse = true}, {0}};
    CHECK_OK(sr_metric_of((sr_metric **)&m[0].metric, value, EXAMPLES));
    for (uint32_t i = 0; i < EXAMPLES; i++) value[i] = draw_below(90000 + i, 4) / 3.0;
    CHECK_OK(sr_metric_of((sr_metric **)&m[1].metric, value, EXAMPLES));
    CHECK_OK(sr_loader_open(&l, d, &o, NULL));
    CHECK_OK(sr_loader_epoch(&e, l, 0));
    CHECK_OK(sr_sampler_new(&s, e, m, 3));
    for (uint32_t trial = 0; trial < 40; trial++) {
        int64_t prefix[3];
        for (uint32_t k = 0; k < 3; k++)
            prefix[k] = trial % 4 == 3 ? EXAMPLES : draw_below(trial * 3 + k, EXAMPLES + 1);
        if (trial % 5 < 2) prefix[2] = EXAMPLES;
        CHECK_OK(sr_sampler_unlock(s, prefix));
        static uint8_t have[EXAMPLES];
        for (int i = 0; i < EXAMPLES; i++) have[i] = 0;
        CHECK_OK(sr_metric_order(order, m[0].metric, 0, EXAMPLES));
        for (int64_t i = 0; i < prefix[0]; i++) have[order[i]]++;
        CHECK_OK(sr_metric_order(order, m[1].metric, 0, EXAMPLES));
        for (int64_t i = 0; i < prefix[1]; i++) have[order[EXAMPLES - 1 - i]]++;
        int64_t both = 0, tokens = 0, k = sr_sampler_unlocked(s);
        for (int i = 0; i < EXAMPLES; i++) both += have[i] == 2;
        CHECK(prefix[2] == EXAMPLES ? k == both : k <= both);
        if (k == 0) continue;
        CHECK(sr_sampler_run(s, 0, k) == 1 && sr_sampler_run(s, 0, k + 1) == 0);
        sr_sampler_draw(uid, s, trial, k, 1); /* all of them, once */
        for (int64_t i = 0; i < k; i++) {
            CHECK(have[uid[i]] == 2);
            have[uid[i]] = 0;
            int32_t len = sr_example_length(&e->examples->example[uid[i]]);
            tokens += len < 20 ? len : 20;
        }
        CHECK(tokens == sr_sampler_tokens(s, 20, false));
    }
    int64_t wrong[3] = {0, EXAMPLES + 1, 0};
    CHECK_FAILS(sr_sampler_unlock(s, wrong), SR_EINVAL, "metric 2 unlocks 1501 examples of 1500");
    sr_sampler_free(s);
    sr_epoch_release(e);
    sr_loader_close(l);
    sr_metric_close((sr_metric *)m[0].metric);
    CHECK_OK(sr_metric_of((sr_metric **)&m[0].metric, value, EXAMPLES - 1));
    CHECK_OK(sr_loader_open(&l, d, &o, NULL));
    CHECK_OK(sr_loader_epoch(&e, l, 0));
    CHECK_FAILS(sr_sampler_new(&s, e, m, 1), SR_EINVAL, "has 1499 values, but there are 1500");
    sr_epoch_release(e);
    sr_loader_close(l);
    sr_metric_close((sr_metric *)m[0].metric);
    sr_metric_close((sr_metric *)m[1].metric);
}

/* ---- windows ---- */

static sr_status push(sr_loader *l, int64_t update, int64_t each, int64_t updates, int32_t max_len,
                      bool pieces, int64_t from) {
    static uint32_t uid[EXAMPLES];
    sr_counters end;
    for (int64_t i = 0; i < each * updates; i++) uid[i] = (uint32_t)((i * 7 + update) % EXAMPLES);
    sr_window_opts o = {.uid = uid,
                        .sequences = each * updates,
                        .updates = updates,
                        .max_len = max_len,
                        .pieces = pieces,
                        .begin = {.drawn = {.updates = update}}};
    return sr_loader_push_window(l, &o, from, &end);
}

static sr_status run(const sr_dataset *d, int threads, bool pieces) {
    sr_loader_opts o = usual();
    o.threads = threads;
    o.prefetch = 2;
    TRY_OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    SR_TRY(push(l, 0, 90, 3, 20, pieces, 0));
    SR_TRY(push(l, 3, 50, 2, 0, pieces, 0));
    for (int64_t i = 0; i < 4; i++) { /* the last stays pending */
        TRY_OWN(sr_update, *u, sr_loader_next(&u, l));
        CHECK(u->index == i && u->end.drawn.sequences - u->begin.drawn.sequences == u->sequences);
        CHECK(u->batch[0]->layout->epoch[0] % 65536 == (uint32_t)i);
    }
    return SR_OK;
}

static void windows_continue_anywhere(void) {
    OWNED(sr_dataset) *d = sample_open_fixed(path, EXAMPLES, true);
    sr_loader_opts o = usual();
    CHECK_OK(run(d, 0, false));
    CHECK_OK(run(d, 3, false));
    OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    CHECK_FAILS(push(l, 1, 9, 3, 0, false, 0), SR_EINVAL, "cannot continue at update 0");
    CHECK_FAILS(push(l, 0, 9, 3, 0, false, 3), SR_EINVAL, "cannot continue");
    CHECK_FAILS(push(l, 0, 9, 3, 4, false, 0), SR_EINVAL, "max_len is 4; must be 5..60");
    CHECK_FAILS(push(l, 0, 9, 3, 20, true, 0), SR_EINVAL, "is a pair");
    CHECK_OK(sr_loader_seek(l, &(sr_cursor){.packs = 1, .drawn = {.updates = 7}}));
    CHECK_OK(push(l, 5, 9, 3, 0, false, 2));
    OWN(sr_update, *u, sr_loader_next(&u, l));
    CHECK(u->index == 7 && u->end.drawn.updates == 8);
}

static void memory_runs_out(void) {
    OWNED(sr_dataset) *d = sample_open_fixed(path, EXAMPLES, false);
    CHECK_OK(run(d, 0, true));
    CHECK_STARVED(true, run(d, 0, true));
}

int main(void) {
    if (!scratch_begin()) return 1;
    path = at("a.sqr");
    batches_are_full();
    fills_of_any_shape();
    prefixes_are_all_that_counts();
    windows_continue_anywhere();
    memory_runs_out();
    scratch_end();
    return CHECK_DONE();
}

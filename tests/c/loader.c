/* Loaders: every example once an epoch, the same updates however they are made, from any place. */
#include "core/loader/loader.h"

#include <math.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/support/fail.h"
#include "tests/c/sample.h"

static const char *path;

static sr_dataset *open_sample(double held) {
    CHECK_OK(sample_text(path, 400, 8, 12, 5000));
    return sample_open(path, held);
}

static sr_loader_opts usual(void) {
    return (sr_loader_opts){
        .examples = {.max_len = 64, .nsp = true, .short_seq_prob = 0.1, .seed = 9},
        .solve = {.solver = "lpfhp"},
        .packs = 7,
        .micro = 3,
        .mask = true,
        .mask_prob = 0.15,
        .mask_max = 20};
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
    return XXH3_64bits_withSeed(bytes, size, hash);
}

/* All that a model would see of an update, in one number. */
static uint64_t digest(const sr_update *u) {
    uint64_t h = (uint64_t)u->index;
    for (int64_t i = 0; i < u->batches; i++) {
        const sr_batch *b = u->batch[i];
        size_t rows = (size_t)b->slots, n = (size_t)b->sequences;
        h = mix(h, b->ids, rows * 4);
        h = mix(h, b->types, rows * 4);
        h = mix(h, b->layout->start, n * 4);
        h = mix(h, b->layout->uid, n * 4);
        h = mix(h, b->layout->epoch, n * 4);
        for (int k = 0; k < b->targets; k++) {
            size_t bytes = (size_t)b->target[k].count * 4;
            h = mix(h, b->target[k].rows, bytes);
            h = mix(h, b->target[k].labels, bytes);
            h = mix(h, b->target[k].weights, bytes);
        }
    }
    return h;
}

/* The digests of the next n updates; 0 after the end. */
static void take(sr_loader *l, uint64_t *out, int n) {
    for (int i = 0; i < n; i++) {
        OWN(sr_update, *u, sr_loader_next(&u, l));
        out[i] = u != NULL ? digest(u) : 0;
    }
}

static void every_example_once(void) {
    OWNED(sr_dataset) *d = open_sample(0.05);
    for (int i = 0; i < 6; i++) {
        sr_loader_opts o = usual();
        o.epochs = 2;
        o.arrange = (sr_arrange)(i % 3);
        o.packs = i < 3 ? 7 : 100000; /* fewer packs than an update, more than all epochs */
        OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
        int64_t count[2], wrong = 0, sequences = 0, tokens = 0;
        uint8_t *seen[2];
        for (uint32_t k = 0; k < 2; k++) {
            OWN(sr_epoch, *e, sr_loader_epoch(&e, l, k));
            count[k] = e->examples->count;
            tokens -= e->examples->tokens;
            seen[k] = calloc((size_t)count[k], 1);
        }
        for (sr_update *u;; sr_update_free(u)) {
            CHECK_OK(sr_loader_next(&u, l));
            if (u == NULL) break;
            CHECK(u->begin.drawn.sequences == sequences);
            for (int64_t b = 0; b < u->batches; b++) {
                const sr_layout *at = u->batch[b]->layout;
                for (int32_t s = 0; s < at->sequences; s++) {
                    wrong += at->epoch[s] > 1 || at->uid[s] >= count[at->epoch[s]] ||
                             seen[at->epoch[s]][at->uid[s]]++;
                }
            }
            sequences += u->sequences;
            tokens += u->tokens;
        }
        CHECK(wrong == 0 && sequences == count[0] + count[1] && tokens == 0);
        free(seen[0]);
        free(seen[1]);
    }
}

enum { MANY = 120 }; /* updates: several epochs */

static void workers_change_nothing(void) {
    OWNED(sr_dataset) *d = open_sample(0.05);
    uint64_t want[MANY], got[MANY];
    sr_loader_opts o = usual();
    sr_loader *l;
    CHECK_OK(sr_loader_open(&l, d, &o, NULL));
    take(l, want, MANY);
    CHECK(sr_loader_cursor(l).epoch >= 2);
    sr_loader_close(l);
    for (int threads = 1; threads <= 4; threads++) {
        sr_threads *team;
        o.threads = threads;
        o.prefetch = threads * 2 - 1;
        CHECK_OK(sr_threads_new(&team, threads));
        CHECK_OK(sr_loader_open(&l, d, &o, team));
        sr_threads_free(team);
        take(l, got, MANY);
        CHECK(memcmp(want, got, sizeof want) == 0);
        sr_loader_close(l);
    }
    o.examples.seed++;
    CHECK_OK(sr_loader_open(&l, d, &o, NULL));
    take(l, got, 1);
    CHECK(want[0] != got[0]);
    sr_loader_close(l); /* with updates still waiting */
}

static void seeking_equals_never_having_stopped(void) {
    OWNED(sr_dataset) *d = open_sample(0.05);
    uint64_t want[MANY], got[MANY];
    sr_cursor cursor[MANY];
    sr_loader_opts o = usual();
    o.packs = 0;
    o.sequences = 16;
    OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    for (int i = 0; i < MANY; i++) {
        cursor[i] = sr_loader_cursor(l);
        take(l, &want[i], 1);
    }
    o.threads = 2;
    o.prefetch = 3;
    OWN(sr_loader, *other, sr_loader_open(&other, d, &o, NULL));
    for (int from = MANY - 2; from >= 0; from -= 7) {
        CHECK_OK(sr_loader_seek(other, &cursor[from]));
        take(other, got, 2);
        CHECK(got[0] == want[from] && got[1] == want[from + 1]);
        sr_cursor c = sr_loader_cursor(other);
        CHECK(from + 2 >= MANY || memcmp(&c, &cursor[from + 2], sizeof c) == 0);
    }
    sr_cursor nowhere = cursor[1];
    nowhere.position = 1 << 30;
    CHECK_FAILS(sr_loader_seek(other, &nowhere), SR_EINVAL, "its options have changed");
}

/* One sequence of a batch as a number: tokens, types, masks, labels, wherever it stands. */
static uint64_t sequence_digest(const sr_batch *b, int32_t s) {
    int32_t start = b->layout->start[s], n = b->layout->len[s];
    uint64_t h = mix(b->layout->uid[s], b->ids + start, (size_t)n * 4);
    h = mix(h, b->types + start, (size_t)n * 4);
    for (int k = 0; k < b->targets; k++) {
        const sr_target *t = &b->target[k];
        for (int64_t i = 0; i < t->count; i++) {
            int32_t at = t->rows[i] - start;
            if (at < 0 || at >= n) continue;
            h = mix(h, &at, 4);
            h = mix(h, (int32_t *)t->labels + i, 4);
            h = mix(h, &t->weights[i], 4);
        }
    }
    return h;
}

static int by_value(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The digests of an update's sequences, in rising order: batches may take them in any. */
static void sequences(const sr_update *u, uint64_t *out) {
    int64_t n = 0;
    for (int64_t b = 0; b < u->batches; b++)
        for (int32_t s = 0; s < u->batch[b]->layout->sequences; s++)
            out[n++] = sequence_digest(u->batch[b], s);
    qsort(out, (size_t)n, sizeof *out, by_value);
}

static void arrangements_hold_the_same(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    for (int mean = 0; mean < 2; mean++) {
        sr_update *u[3];
        sr_loader *l[3];
        for (int i = 0; i < 3; i++) {
            sr_loader_opts o = usual();
            o.arrange = (sr_arrange)i;
            o.mean = (sr_mean)mean;
            o.whole_word = true;
            CHECK_OK(sr_loader_open(&l[i], d, &o, NULL));
            CHECK_OK(sr_loader_next(&u[i], l[i]));
        }
        uint64_t *want = calloc((size_t)u[0]->sequences, 8),
                 *got = calloc((size_t)u[0]->sequences, 8);
        sequences(u[0], want);
        for (int i = 1; i < 3; i++) {
            CHECK(u[i]->sequences == u[0]->sequences && u[i]->masked == u[0]->masked);
            sequences(u[i], got);
            CHECK(memcmp(want, got, (size_t)u[0]->sequences * 8) == 0);
        }
        CHECK(u[0]->batches == 3 && u[0]->batch[0]->layout->gapless &&
              u[0]->slots == 256 + 2 * 128); /* 3, 2 and 2 packs of 64 */
        CHECK(!u[1]->batch[0]->layout->gapless && u[1]->batch[0]->layout->start[1] == 64);
        CHECK(u[2]->batches == u[2]->sequences);
        free(want);
        free(got);
        for (int i = 0; i < 3; i++) {
            sr_update_free(u[i]);
            sr_loader_close(l[i]);
        }
    }
}

static void weights_sum_to_one(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    for (int mean = 0; mean < 2; mean++) {
        for (int64_t micro = 0; micro < 8; micro++) {
            sr_loader_opts o = usual();
            o.micro = micro;
            o.mean = (sr_mean)mean;
            OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
            OWN(sr_update, *u, sr_loader_next(&u, l));
            double sum[2] = {0, 0};
            for (int64_t b = 0; b < u->batches; b++)
                for (int k = 0; k < 2; k++)
                    for (int64_t i = 0; i < u->batch[b]->target[k].count; i++)
                        sum[k] += (double)u->batch[b]->target[k].weights[i];
            CHECK(fabs(sum[0] - 1) < 1e-5 && fabs(sum[1] - 1) < 1e-5);
            CHECK(u->batches == (micro == 0 ? 1 : (7 + micro - 1) / micro));
        }
    }
}

/* Weights, labels and rows of a batch, one by one. */
static int wrong_targets(const sr_batch *b, const sr_update *u, const sr_examples *t,
                         sr_mean mean) {
    const sr_layout *l = b->layout;
    const sr_target *mlm = &b->target[0], *nsp = &b->target[1];
    int *masked = calloc((size_t)l->sequences, sizeof *masked);
    int wrong = mlm->count != b->masked || nsp->count != l->sequences;
    for (int64_t i = 0; i < mlm->count; i++) masked[l->owner[mlm->rows[i]]]++;
    for (int64_t i = 0; i < mlm->count; i++) {
        double own = (double)u->sequences * masked[l->owner[mlm->rows[i]]];
        wrong += mlm->weights[i] != (float)(1 / (mean == SR_MEAN_TOKEN ? (double)u->masked : own));
    }
    free(masked);
    for (int64_t s = 0; s < nsp->count; s++) {
        bool random = t->example[l->uid[s]].flags & SR_EXAMPLE_RANDOM;
        wrong += nsp->rows[s] != l->start[s] || ((int32_t *)nsp->labels)[s] != random;
        wrong += nsp->weights[s] != (float)(1 / (double)u->sequences);
    }
    return wrong;
}

/* The rows that targets need are found again, under the keys they had; slack is [PAD] of type 0. */
static int wrong_rows(const sr_batch *b) {
    const sr_layout *l = b->layout, *last = b->last;
    int wrong = last->seed != l->seed;
    for (int k = 0; k < b->targets; k++)
        for (int64_t i = 0; i < b->target[k].count; i++)
            wrong += b->last_rows[b->target[k].places[i]] != b->target[k].rows[i];
    for (int64_t i = 0; i < last->rows; i++) {
        int32_t from = l->owner[b->last_rows[i]], to = last->owner[i];
        wrong += last->uid[to] != l->uid[from] || last->epoch[to] != l->epoch[from];
    }
    for (int64_t i = 0; i < l->rows; i++)
        wrong += l->owner[i] < 0 && (b->ids[i] != 0 || b->types[i] != 0);
    return wrong;
}

static void targets_are_what_they_say(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    for (int i = 0; i < 6; i++) {
        sr_loader_opts o = usual();
        int wrong = 0;
        o.examples.epoch = 3;
        o.examples.max_len = 128;
        o.mean = (sr_mean)(i % 2);
        o.arrange = (sr_arrange)(i / 2);
        OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
        OWN(sr_epoch, *e, sr_loader_epoch(&e, l, 3));
        OWN(sr_update, *u, sr_loader_next(&u, l));
        for (int64_t b = 0; b < u->batches; b++) {
            wrong += wrong_targets(u->batch[b], u, e->examples, o.mean) + wrong_rows(u->batch[b]);
        }
        CHECK(wrong == 0);
    }
}

static void a_full_batch_has_no_slack(void) {
    CHECK_OK(sample_examples(path, (uint32_t[]){126}, (uint32_t[]){0}, 1));
    OWNED(sr_dataset) *d = sample_open(path, 0);
    sr_loader_opts o = usual();
    o.examples.nsp = false, o.examples.max_len = 128;
    o.arrange = SR_SINGLE;
    OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    OWN(sr_update, *u, sr_loader_next(&u, l));
    CHECK(u->tokens == 128 * u->sequences && u->slots == u->tokens);
}

static void packs_of_an_update(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    sr_loader_opts o = usual();
    o.packs = 0;
    o.sequences = 1;
    o.examples.max_len = 512; /* a pack holds several */
    OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    CHECK(sr_loader_cursor(l).packs == 1);
    sr_cursor c = sr_loader_cursor(l);
    c.packs = 5; /* as the run that was saved had resolved it */
    CHECK_OK(sr_loader_seek(l, &c));
    OWN(sr_update, *u, sr_loader_next(&u, l));
    CHECK(u->packs == 5 && u->end.packs == 5);
}

static void given_uids_make_an_update(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    sr_loader_opts o = usual();
    sr_update *u;
    uint32_t uids[] = {5, 0, 17};
    OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    for (int a = 0; a < 3; a++) {
        CHECK_OK(sr_loader_update_of(&u, l, uids, 3, 4, (sr_arrange)a));
        CHECK(u->sequences == 3 && u->batches == (a == SR_SINGLE ? 3 : 1));
        CHECK(u->batch[0]->layout->uid[0] == 5 && u->batch[0]->layout->epoch[0] == 4);
        CHECK(u->slots % SR_ROWS_UNIT == 0);
        sr_update_free(u);
    }
    uids[1] = 1 << 30;
    CHECK_FAILS(sr_loader_update_of(&u, l, uids, 3, 0, SR_PACKED), SR_EINVAL, "is out of range");
}

/* One plan forever: the examples of a fixed set are the same each epoch, their masks and partners
 * are not. */
static void fixed_sets_keep_their_examples(void) {
    uint32_t a[40], b[40];
    for (uint32_t i = 0; i < 40; i++) {
        a[i] = 5 + i % 13;
        b[i] = i % 3 == 0 ? 0 : 7;
    }
    CHECK_OK(sample_examples(path, a, b, 40));
    OWNED(sr_dataset) *d = sample_open(path, 0);
    sr_loader_opts o = usual();
    o.examples.nsp = false;
    o.packs = 1 << 20;
    o.epochs = 3;
    OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    OWN(sr_update, *u, sr_loader_next(&u, l));
    CHECK(u != NULL && u->sequences == 120);
    int wrong = 0, moved = 0;
    uint64_t masked[3] = {0}; /* the ids of an epoch, regardless of order */
    for (int64_t i = 0; i < u->batches; i++) {
        const sr_layout *at = u->batch[i]->layout;
        const sr_target *t = &u->batch[i]->target[1];
        CHECK(strcmp(t->name, "label") == 0);
        for (int64_t k = 0; k < t->count; k++) wrong += ((uint32_t *)t->labels)[k] != at->uid[k];
        moved += at->uid[0] != u->batch[0]->layout->uid[0];
        for (int32_t s = 0; s < at->sequences; s++)
            masked[at->epoch[s]] ^=
                mix(at->uid[s], u->batch[i]->ids + at->start[s], (size_t)at->len[s] * 4);
    }
    CHECK(wrong == 0 && moved > 0);
    CHECK(masked[0] != masked[1] && masked[1] != masked[2] && masked[0] != masked[2]);
}

static void damage_stops_the_loader(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    CHECK(truncate(path, 100) == 0); /* tokens are not in memory */
    for (int threads = 0; threads < 3; threads++) {
        sr_loader_opts o = usual();
        sr_update *u;
        o.threads = threads;
        o.prefetch = 3;
        OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
        CHECK_FAILS(sr_loader_next(&u, l), SR_EDATA, "truncated");
        CHECK_FAILS(sr_loader_next(&u, l), SR_EDATA, "truncated"); /* again, not the end */
    }
}

/* A stop in the middle of a solver, at the prompt say: what follows is what would have followed. */
static void a_stop_is_no_end(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    uint64_t want[8], got[8];
    sr_loader_opts o = usual();
    sr_loader *l;
    o.solve.solver = "optimal"; /* which polls */
    o.packs = 500;
    CHECK_OK(sr_loader_open(&l, d, &o, NULL));
    take(l, want, 8);
    sr_loader_close(l);
    for (int threads = 0; threads < 3; threads++) {
        sr_update *u;
        sr_status st;
        int n = 0, stops = 0;
        o.threads = threads;
        o.prefetch = 2;
        CHECK_OK(sr_loader_open(&l, d, &o, NULL));
        sr_stop_request();
        while ((st = sr_loader_next(&u, l)) == SR_OK && n < 8) {
            got[n++] = digest(u);
            sr_update_free(u);
        }
        for (; st == SR_ESTOP && stops < 3; stops++) st = sr_loader_next(&u, l);
        CHECK(st == SR_ESTOP && n < 8);
        sr_stop_clear();
        take(l, got + n, 8 - n);
        CHECK(memcmp(want, got, sizeof want) == 0);
        sr_loader_close(l);
    }
}

/* The usual options with another value of one. */
#define CHECK_REFUSED(d, option, value, status, words)                                             \
    do {                                                                                           \
        sr_loader *l_;                                                                             \
        sr_loader_opts o_ = usual();                                                               \
        o_.option = value;                                                                         \
        CHECK_FAILS(sr_loader_open(&l_, d, &o_, NULL), status, words);                             \
    } while (0)

static void bad_options_are_refused(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    sr_schedule twice = {SR_SCHEDULE_STEP, 2, (int64_t[]){0, 0}, (double[]){0.1, 0.15}};
    sr_schedule much = {SR_SCHEDULE_STEP, 1, (int64_t[]){0}, (double[]){0.2}};
    CHECK_REFUSED(d, packs, 0, SR_EINVAL, "at least 1");
    CHECK_REFUSED(d, examples.max_len, 4, SR_EINVAL, "max_len is 4");
    CHECK_REFUSED(d, mask_prob, 0, SR_EINVAL, "prob");
    CHECK_REFUSED(d, mask_rate, twice, SR_EINVAL, "must ascend from 0; number 2 is 0");
    CHECK_REFUSED(d, mask_rate, much, SR_EINVAL, "is 0.2; must be above 0 and at most 0.15");
    CHECK_REFUSED(d, solve.solver, "magic", SR_EINVAL, "magic");
    CHECK_REFUSED(d, examples.part, SR_PART_HELD, SR_EDATA, "empty");
    CHECK_REFUSED(d, threads, 65, SR_EINVAL, "threads");
}

static sr_status open_and_take(const sr_dataset *d, int threads) {
    sr_loader_opts o = usual();
    o.threads = threads;
    o.prefetch = 2;
    o.mask_rate = (sr_schedule){SR_SCHEDULE_STEP, 2, (int64_t[]){0, 2}, (double[]){0.1, 0.15}};
    TRY_OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
    for (int i = 0; i < 3; i++) {
        TRY_OWN(sr_update, *u, sr_loader_next(&u, l));
    }
    return SR_OK;
}

static void memory_runs_out(void) {
    OWNED(sr_dataset) *d = open_sample(0);
    CHECK_OK(open_and_take(d, 0)); /* fills the block cache, which stays */
    int64_t live = sr_mem_live();
    sr_status st;
    for (int threads = 0; threads < 2; threads++) {
        STARVE_ANY(st, threads > 0 ? 20 : 0, threads > 0, true, open_and_take(d, threads))
        CHECK(sr_mem_live() == live);
    }
}

int main(void) {
    if (!scratch_begin()) return 1;
    path = at("a.sqr");
    every_example_once();
    workers_change_nothing();
    seeking_equals_never_having_stopped();
    arrangements_hold_the_same();
    weights_sum_to_one();
    targets_are_what_they_say();
    a_full_batch_has_no_slack();
    packs_of_an_update();
    given_uids_make_an_update();
    fixed_sets_keep_their_examples();
    damage_stops_the_loader();
    a_stop_is_no_end();
    bad_options_are_refused();
    memory_runs_out();
    scratch_end();
    return CHECK_DONE();
}

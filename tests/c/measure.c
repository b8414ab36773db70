/* measure.c - parts of an epoch, metrics of sequences, progress that survives a stop. */
#include "core/data/measure.h"

#include <fcntl.h>
#include <math.h>

#include "tests/support/fail.h"
#include "tests/c/sample.h"

/* Values, not pointers. */
#define sr_stream_owned sr_stream_close
#define sr_stream_part_owned sr_stream_part_close
#define sr_measure_owned sr_measure_free
#define sr_measuring_owned sr_measuring_close

static const char *text_path, *long_path, *fixed_path, *part_path;

static sr_dataset *open_data(const char *path, double held, bool keyed) {
    sr_dataset_opts opts = {.held = held, .keyed = keyed, .seed = 3};
    sr_dataset *d = NULL;
    CHECK_OK(sr_dataset_open(&d, path, &opts));
    return d;
}

static bool same_tokens(const sr_segments *t, const int32_t *ids) {
    int32_t a = t->a_count, b = t->b_count;
    return memcmp(t->a, ids + 1, (size_t)a * sizeof *ids) == 0 &&
           (b == 0 || memcmp(t->b, ids + a + 2, (size_t)b * sizeof *ids) == 0);
}

/* Parts in order give the epoch's examples, by uid. */
static void stream(const sr_dataset *d, const sr_examples_opts *opts) {
    static int32_t ids[SR_EXAMPLES_MOST], types[SR_EXAMPLES_MOST];
    OWNED(sr_stream) s = {0};
    OWNED(sr_stream_part) w = {0};
    int64_t uid = 0, wrong = 0;
    OWN(sr_examples, *all, sr_examples_build(&all, d, opts, NULL));
    CHECK_OK(sr_stream_open(&s, d, opts));
    for (int64_t part = 0; part < s.parts; part++) {
        CHECK_OK(sr_stream_read(&w, &s, part));
        for (size_t i = 0; i < w.drawn.count; i++, uid++) {
            sr_segments t;
            const sr_example *e = &all->example[uid];
            wrong += memcmp(e, &w.drawn.example[i], sizeof *e) != 0;
            wrong += sr_example_sequence(e, d, ids, types) != SR_OK;
            wrong += sr_stream_tokens(&t, &w, &s, i) != SR_OK || !same_tokens(&t, ids);
        }
    }
    CHECK(uid == all->count && wrong == 0);
}

/* The counts are those of a loop over all sequences, on any number of threads. */
static void counts(const sr_dataset *d, const sr_examples_opts *opts) {
    static int32_t ids[SR_EXAMPLES_MOST], types[SR_EXAMPLES_MOST];
    int32_t size = sr_tokenizer_size(d->tokenizer);
    uint64_t *want, *got;
    OWNED(sr_stream) s = {0};
    sr_threads *threads;
    int64_t sequences, tokens;
    CHECK_OK(sr_new(&want, size));
    OWN(sr_examples, *all, sr_examples_build(&all, d, opts, NULL));
    CHECK_OK(sr_stream_open(&s, d, opts));
    for (int64_t i = 0; i < all->count; i++) {
        CHECK_OK(sr_example_sequence(&all->example[i], d, ids, types));
        for (int32_t k = 0; k < sr_example_length(&all->example[i]); k++) want[ids[k]]++;
    }
    for (int n = 1; n <= 3; n++) {
        CHECK_OK(sr_new(&got, size));
        CHECK_OK(sr_threads_new(&threads, n));
        CHECK_OK(sr_stream_counts(got, &sequences, &tokens, &s, threads));
        CHECK(memcmp(got, want, (size_t)size * sizeof *got) == 0);
        CHECK(sequences == all->count && tokens == all->tokens);
        sr_threads_free(threads);
        sr_free(got);
    }
    sr_free(want);
}

/* ---- measures ---- */

static double naive_rarity(const uint64_t *count, int32_t size, int64_t slots, const sr_segments *t,
                           int32_t cls, int32_t sep) {
    double denominator = (double)(slots - size), sum = 0;
    for (int32_t i = 0; i < size; i++) denominator += count[i] > 0 ? (double)count[i] : 1;
    for (int32_t i = 0; i < t->a_count; i++) sum -= log((double)count[t->a[i]] / denominator);
    for (int32_t i = 0; i < t->b_count; i++) sum -= log((double)count[t->b[i]] / denominator);
    sum -= log((double)count[cls] / denominator);
    return sum - (t->b_count > 0 ? 2 : 1) * log((double)count[sep] / denominator);
}

static void rarity(const sr_dataset *d, const sr_examples_opts *opts) {
    int32_t size = sr_tokenizer_size(d->tokenizer);
    uint64_t *count;
    int64_t sequences, tokens;
    OWNED(sr_stream) s = {0};
    OWNED(sr_stream_part) w = {0};
    OWNED(sr_measure) m = {0}, whole = {0}, both = {0};
    OWNED(sr_measuring) scratch = {0};
    CHECK_OK(sr_new(&count, size));
    CHECK_OK(sr_stream_open(&s, d, opts));
    CHECK_OK(sr_stream_counts(count, &sequences, &tokens, &s, NULL));
    CHECK_OK(sr_measure_rarity(&m, SR_MEASURE_RARITY, d, count, size + 7, 128));
    CHECK_OK(sr_measure_rarity(&whole, SR_MEASURE_RARITY_INTEGER, d, count, size + 7, 128));
    CHECK_OK(sr_measure_rarity(&both, SR_MEASURE_LENGTH_RARITY, d, count, size + 7, 128));
    CHECK_OK(sr_stream_read(&w, &s, 0));
    for (size_t i = 0; i < w.drawn.count && i < 200; i++) {
        sr_segments t;
        double x, y, z;
        CHECK_OK(sr_stream_tokens(&t, &w, &s, i));
        CHECK_OK(sr_measure_of(&x, &m, &scratch, &t));
        CHECK_OK(sr_measure_of(&y, &whole, &scratch, &t));
        CHECK_OK(sr_measure_of(&z, &both, &scratch, &t));
        double want = naive_rarity(count, size, size + 7, &t, sr_dataset_frame(d, 0)->lead.ids[0],
                                   sr_dataset_frame(d, 0)->tail.ids[0]);
        CHECK(fabs(x - want) <= 1e-12 * want && y == floor(x));
        CHECK(z == sr_example_length(&w.drawn.example[i]) * both.coefficient + y &&
              y < both.coefficient);
    }
    sr_measure bad = {0};
    CHECK_FAILS(sr_measure_rarity(&bad, SR_MEASURE_RARITY, d, count, size - 1, 128), SR_EINVAL,
                "slots");
    sr_free(count);
}

/* The distance of a corpus of one document to itself is 0; words of its own count for more. */
static void distance(const sr_dataset *d) {
    OWNED(sr_measure) m = {0};
    OWNED(sr_measuring) scratch = {0};
    double x, y;
    CHECK_OK(sr_measure_tfidf(&m, d, d, SR_PART_TRAIN));
    int64_t n = d->part[SR_PART_TRAIN].count;
    uint64_t end = d->unit_token[d->part[SR_PART_TRAIN].unit[n - 1] + 1];
    int32_t *ids, strange[3] = {498, 498, 499};
    CHECK_OK(sr_new(&ids, end));
    CHECK_OK(sr_dataset_ids(d, ids, 0, end));
    sr_segments all = {.a = ids, .b = ids + end / 2, .a_count = (int32_t)(end / 2)};
    all.b_count = (int32_t)(end - end / 2);
    sr_segments few = {.a = strange, .b = strange, .a_count = 3};
    CHECK_OK(sr_measure_of(&x, &m, &scratch, &all));
    CHECK_OK(sr_measure_of(&y, &m, &scratch, &few));
    CHECK(x >= 0 && x < 1e-12 && y > 0.5 && y <= 1);
    CHECK_OK(sr_measure_of(&x, &m, &scratch, &few)); /* the scratch is clean again */
    CHECK(x == y);
    sr_free(ids);
}

static void compressibility(const sr_dataset *d) {
    sr_measure m;
    OWNED(sr_measuring) scratch = {0};
    int32_t same[400], varied[400];
    double x, y;
    for (int i = 0; i < 400; i++) same[i] = 9, varied[i] = 5 + i % 490;
    sr_segments a = {.a = same, .b = same, .a_count = 400},
                b = {.a = varied, .b = same, .a_count = 400};
    CHECK_OK(sr_measure_plain(&m, SR_MEASURE_COMPRESSIBILITY, d));
    CHECK_OK(sr_measure_of(&x, &m, &scratch, &a));
    CHECK_OK(sr_measure_of(&y, &m, &scratch, &b));
    CHECK(x > 0 && x < 0.05 && y > 0.2 && y < 1);
}

/* ---- steps and progress ---- */

typedef struct values {
    double *value;
    int64_t count;
} values;

static sr_status take(void *context, const double *value, int64_t count) {
    values *v = context;
    SR_TRY(sr_grow(&v->value, v->count + count));
    memcpy(v->value + v->count, value, (size_t)count * sizeof *value);
    v->count += count;
    return SR_OK;
}

/* Computes lengths, closing and reopening after each step and tearing the file's end. */
static void stops(const sr_dataset *d, const sr_examples_opts *opts, bool stop) {
    OWNED(sr_stream) s = {0};
    sr_measure m;
    sr_progress *p;
    bool done = false;
    OWN(sr_examples, *all, sr_examples_build(&all, d, opts, NULL));
    CHECK_OK(sr_stream_open(&s, d, opts));
    CHECK_OK(sr_measure_plain(&m, SR_MEASURE_LENGTH, d));
    CHECK_OK(sr_progress_open(&p, part_path, "lengths"));
    while (!done) {
        CHECK_OK(sr_measure_step(&done, &m, &s, p, NULL));
        if (!stop) continue;
        int64_t count = p->count, next = p->next;
        int fd = open(part_path, O_WRONLY | O_APPEND);
        CHECK(fd >= 0 && write(fd, "torn record, longer than the head of one", 40) == 40);
        close(fd);
        sr_progress_close(p);
        CHECK_OK(sr_progress_open(&p, part_path, "lengths"));
        CHECK(p->count == count && p->next == next);
    }
    values v = {0};
    CHECK_OK(sr_progress_replay(p, take, &v));
    CHECK(v.count == all->count && p->whole && p->count == v.count);
    for (int64_t i = 0; i < v.count && i < all->count; i++)
        CHECK(v.value[i] == sr_example_length(&all->example[i]));
    sr_free(v.value);
    sr_progress_remove(p);
    CHECK(access(part_path, F_OK) != 0);
}

static void progress_rejects(void) {
    const double good[] = {1, -2.5}, bad[] = {1, NAN}, large[] = {INFINITY};
    sr_progress *p, *second;
    CHECK_OK(sr_progress_open(&p, part_path, "one"));
    CHECK_OK(sr_progress_append(p, good, 2, 7));
    CHECK_FAILS(sr_progress_append(p, bad, 2, 9), SR_EDATA, "sequence 3 is NaN");
    CHECK_FAILS(sr_progress_append(p, large, 1, 9), SR_EDATA, "sequence 2 is infinite");
    CHECK(p->count == 2 && p->next == 7 && p->least == -2.5 && p->most == 1 && !p->whole);
    CHECK_FAILS(sr_progress_open(&second, part_path, "one"), SR_ELOCK, "");
    sr_progress_close(p);
    CHECK_OK(sr_progress_open(&p, part_path, "two"));
    CHECK(p->count == 0);
    sr_progress_remove(p);
}

static sr_status everything(const sr_dataset *d) {
    sr_examples_opts opts = {.max_len = 64, .nsp = true, .short_seq_prob = 0.1};
    uint64_t count[500] = {0};
    int64_t sequences, tokens;
    OWNED(sr_stream) s = {0};
    OWNED(sr_measure) m = {0}, other = {0};
    sr_measure plain;
    sr_progress *p = NULL;
    bool done = false;
    sr_status st = sr_stream_open(&s, d, &opts);
    if (st == SR_OK) st = sr_stream_counts(count, &sequences, &tokens, &s, NULL);
    if (st == SR_OK) st = sr_measure_rarity(&m, SR_MEASURE_RARITY, d, count, 501, 64);
    if (st == SR_OK) st = sr_measure_tfidf(&other, d, d, SR_PART_TRAIN);
    if (st == SR_OK) st = sr_progress_open(&p, part_path, "all");
    if (st == SR_OK) st = sr_measure_step(&done, &m, &s, p, NULL);
    if (st == SR_OK) p->next = 0, st = sr_measure_step(&done, &other, &s, p, NULL);
    if (st == SR_OK) st = sr_measure_plain(&plain, SR_MEASURE_COMPRESSIBILITY, d);
    if (st == SR_OK) p->next = 0, st = sr_measure_step(&done, &plain, &s, p, NULL);
    sr_progress_remove(p);
    return st;
}

static void failing_memory(void) {
    OWNED(sr_dataset) *d = open_data(text_path, 0, false);
    CHECK_OK(everything(d)); /* fills the cache of blocks */
    CHECK_STARVED(true, everything(d));
}

int main(void) {
    if (!scratch_begin()) return 1;
    text_path = at("text.sqr"), long_path = at("long.sqr"), fixed_path = at("fixed.sqr");
    part_path = at("a.part");
    const uint32_t a[] = {3, 1, 90, 40, 7, 2}, b[] = {0, 4, 30, 0, 7, 1};
    CHECK_OK(sample_text(text_path, 60, 20, 30, 500));
    CHECK_OK(sample_text(long_path, 3, 30000, 30, 500)); /* documents longer than a part */
    CHECK_OK(sample_examples(fixed_path, a, b, 6));
    sr_examples_opts pairs = {.max_len = 64, .nsp = true, .short_seq_prob = 0.1, .seed = 9};
    sr_examples_opts single = {.max_len = 64, .short_seq_prob = 0.1, .seed = 9};
    sr_examples_opts fixed = {.max_len = 64, .too_long = SR_TOO_LONG_TRUNCATE};
    const char *paths[] = {text_path, long_path};
    for (int i = 0; i < 2; i++) {
        OWNED(sr_dataset) *d = open_data(paths[i], 0.3, true);
        stream(d, &pairs);
        stream(d, &single);
        counts(d, &pairs);
        rarity(d, &pairs);
        stops(d, &pairs, true);
        stops(d, &single, false);
    }
    OWNED(sr_dataset) *given = open_data(fixed_path, 0, false);
    stream(given, &fixed);
    counts(given, &fixed);
    OWNED(sr_dataset) *plain = open_data(text_path, 0, false);
    distance(plain);
    compressibility(plain);
    progress_rejects();
    failing_memory();
    scratch_end();
    return CHECK_DONE();
}

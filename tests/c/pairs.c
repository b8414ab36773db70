/* Example tables: pairs as published, independent of order, and fixed examples by policy. */
#include "core/data/examples.h"

#include <math.h>

#include "tests/support/fail.h"
#include "tests/c/sample.h"

OWNER(sr_vocab, sr_vocab_release)
OWNER(sr_threads, sr_threads_free)

static const char *path;

static sr_dataset *open_text(uint32_t documents, uint32_t sentences, uint32_t tokens, double held) {
    CHECK_OK(sample_text(path, documents, sentences, tokens, SAMPLE_VOCAB));
    return sample_open(path, held);
}

static uint32_t document_of(const sr_dataset *d, uint64_t token) {
    uint32_t i = 0;
    while (d->unit_token[i + 1] <= token) i++;
    return i;
}

/* Checks all properties of one pair. */
static int wrong_pair(const sr_dataset *d, const sr_examples *t, const sr_example *e) {
    uint64_t a = sr_example_a(e), b = sr_example_b(e);
    uint32_t from = document_of(d, a), to = document_of(d, b);
    bool random = e->flags & SR_EXAMPLE_RANDOM, cut = e->flags & SR_EXAMPLE_CUT;
    int wrong = e->a_tokens < 1 || e->b_tokens < 1;
    wrong += sr_example_length(e) > t->opts.max_len;
    wrong += cut && sr_example_length(e) != t->opts.max_len;
    wrong += document_of(d, a + e->a_tokens - 1) != from;
    wrong += document_of(d, b + e->b_tokens - 1) != to;
    wrong += random ? from == to : from != to;
    wrong += !random && !cut && b != a + e->a_tokens;
    return wrong;
}

static void pairs_are_as_published(void) {
    OWNED(sr_dataset) *d = open_text(300, 30, 12, 0);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        sr_examples_opts opts = {.max_len = 64, .nsp = true, .short_seq_prob = 0.1, .epoch = epoch};
        OWN(sr_examples, *t, sr_examples_build(&t, d, &opts, NULL));
        int wrong = 0;
        int64_t tokens = 0, random = 0;
        for (int64_t i = 0; i < t->count; i++) {
            wrong += wrong_pair(d, t, &t->example[i]);
            tokens += sr_example_length(&t->example[i]);
            random += t->example[i].flags & SR_EXAMPLE_RANDOM;
        }
        CHECK(wrong == 0);
        CHECK(tokens == t->tokens && random == t->random_next);
        /* half at random; always for the last sentence of a document, if alone */
        double share = (double)random / (double)t->count;
        CHECK(share > 0.5 && share < 0.65);
    }
}

/* A begins where the previous example ended, and no sentence is omitted. */
static void unused_sentences_are_put_back(void) {
    OWNED(sr_dataset) *d = open_text(200, 20, 5, 0);
    sr_examples_opts opts = {.max_len = 1000, .nsp = true}; /* nothing is truncated */
    OWN(sr_examples, *t, sr_examples_build(&t, d, &opts, NULL));
    uint64_t at = 0;
    int wrong = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const sr_example *e = &t->example[i];
        wrong += sr_example_a(e) != at;
        at += e->a_tokens + (e->flags & SR_EXAMPLE_RANDOM ? 0u : e->b_tokens);
    }
    CHECK(wrong == 0 && at == (uint64_t)d->tokens && t->cut == 0 && t->lost == 0);
}

/* Truncation removes as many tokens from the front as from the end: in pairs of consecutive text,
 * tokens missing between A and B were removed from A's end or B's front. */
static void cuts_fall_on_either_end(void) {
    OWNED(sr_dataset) *d = open_text(2000, 2, 40, 0); /* pairs of two sentences, many too long */
    sr_examples_opts opts = {.max_len = 44, .nsp = true};
    OWN(sr_examples, *t, sr_examples_build(&t, d, &opts, NULL));
    double middle = 0, lost = 0, spread = 0;
    int wrong = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const sr_example *e = &t->example[i];
        if (e->flags != SR_EXAMPLE_CUT) continue;
        uint32_t doc = document_of(d, sr_example_a(e));
        double inner = (double)(sr_example_b(e) - sr_example_a(e) - e->a_tokens);
        double all =
            (double)(d->unit_token[doc + 1] - d->unit_token[doc]) - e->a_tokens - e->b_tokens;
        int a = d->sentence_tokens[d->unit_sentence[doc]];
        int b = d->sentence_tokens[d->unit_sentence[doc] + 1];
        /* the longer one is truncated first; B on a tie */
        if (a > e->a_tokens && b > e->b_tokens) wrong += e->a_tokens != e->b_tokens + 1;
        middle += inner, lost += all, spread += (inner - all / 2) * (inner - all / 2);
    }
    CHECK(lost > 1000); /* fair coins: 5 standard deviations */
    CHECK(fabs(middle - lost / 2) < 5 * sqrt(lost) / 2);
    CHECK(fabs(spread / lost - 0.25) < 0.05);
    CHECK(wrong == 0);
}

/* Whether these options give the same examples. */
static bool same_examples(const sr_examples *a, const sr_dataset *d, const sr_examples_opts *opts,
                          sr_threads *team) {
    OWN(sr_examples, *b, sr_examples_build(&b, d, opts, team));
    return a->count == b->count &&
           memcmp(a->example, b->example, (size_t)a->count * sizeof *a->example) == 0;
}

static void draws_do_not_depend_on_threads(void) {
    OWNED(sr_dataset) *d = open_text(5000, 6, 3, 0.1);
    for (int nsp = 0; nsp < 2; nsp++) {
        sr_examples_opts opts = {.max_len = 64, .nsp = nsp, .short_seq_prob = 0.3, .seed = 5};
        OWN(sr_examples, *one, sr_examples_build(&one, d, &opts, NULL));
        for (int threads = 1; threads <= 8; threads += threads == 1 ? 1 : 5 - threads % 2) {
            OWN(sr_threads, *team, sr_threads_new(&team, threads));
            CHECK(same_examples(one, d, &opts, team));
        }
        opts.epoch = 1;
        CHECK(!same_examples(one, d, &opts, NULL));
        opts.epoch = 0, opts.seed = 6;
        CHECK(!same_examples(one, d, &opts, NULL));
    }
}

static void singles_use_every_token_once(void) {
    for (int32_t max_len = 5; max_len < 80; max_len += 14) {
        OWNED(sr_dataset) *d = open_text(400, 9, 30, 0);
        sr_examples_opts opts = {.max_len = max_len, .short_seq_prob = 0.2};
        OWN(sr_examples, *t, sr_examples_build(&t, d, &opts, NULL));
        uint64_t at = 0;
        int wrong = 0;
        for (int64_t i = 0; i < t->count; i++) {
            const sr_example *e = &t->example[i];
            wrong += sr_example_a(e) != at || e->b_tokens != 0 || sr_example_length(e) > max_len;
            at += e->a_tokens;
        }
        CHECK(wrong == 0 && at == (uint64_t)d->tokens);
    }
}

static int length_of(const sr_examples *t, int64_t i) {
    return i < t->count ? t->example[i].a_tokens : -1;
}

/* Lengths of short examples are uniform from 2 tokens to the maximum: with sentences of one token
 * the drawn length is visible. */
static void short_lengths_are_uniform(void) {
    OWNED(sr_dataset) *d = open_text(3000, 200, 1, 0);
    sr_examples_opts opts = {.max_len = 22, .short_seq_prob = 1};
    OWN(sr_examples, *t, sr_examples_build(&t, d, &opts, NULL));
    int64_t i = 0, seen[21] = {0}, drawn = 0;
    for (int64_t u = 0; u < d->units; u++) {
        uint64_t first = d->unit_token[u], tokens = d->unit_token[u + 1] - first;
        while (i < t->count && sr_example_a(&t->example[i]) < first) i++;
        if (tokens < 20 || i == t->count) continue;
        seen[t->example[i].a_tokens]++, drawn++;
    }
    CHECK(drawn > 2000 && seen[0] == 0 && seen[1] == 0);
    double mean = (double)drawn / 19;
    for (int n = 2; n <= 20; n++) CHECK(fabs((double)seen[n] - mean) < 6 * sqrt(mean));
}

/* The share of examples of long documents that are shorter than they could be; with sentences of one
 * token all are as long as drawn, but the last of a document. */
static double short_share(const sr_dataset *d, bool nsp, bool by_document, uint32_t epoch) {
    OWNED(sr_examples) *t;
    sr_examples_opts opts = {.max_len = 23,
                             .nsp = nsp,
                             .short_seq_prob = 0.3,
                             .by_document = by_document,
                             .epoch = epoch};
    CHECK_OK(sr_examples_build(&t, d, &opts, NULL));
    int64_t shorter = 0;
    for (int64_t i = 0; i < t->count; i++)
        shorter += sr_example_length(&t->example[i]) < opts.max_len;
    return (double)shorter / (double)t->count;
}

static void long_documents_draw_a_length_for_each_example(void) {
    OWNED(sr_dataset) *d = open_text(1, 60000, 1, 0);
    for (int nsp = 0; nsp < 2; nsp++) {
        int mixed = 0;
        for (uint32_t epoch = 0; epoch < 8; epoch++) {
            double each = short_share(d, nsp, false, epoch), all = short_share(d, nsp, true, epoch);
            CHECK(each > 0.25 && each < 0.35);
            mixed += all > 0.01 && all < 0.99;
        }
        CHECK(mixed == 0);
    }
}

/* A sentence that fills the sequence exactly is included. */
static void singles_are_filled_to_the_last_token(void) {
    OWNED(sr_dataset) *d = open_text(400, 9, 10, 0);
    sr_examples_opts opts = {.max_len = 22};
    OWN(sr_examples, *t, sr_examples_build(&t, d, &opts, NULL));
    int64_t i = 0;
    int wrong = 0;
    for (int64_t u = 0; u < d->units; u++) {
        int gathered = 0;
        for (uint64_t s = d->unit_sentence[u]; s < d->unit_sentence[u + 1]; s++) {
            int n = d->sentence_tokens[s];
            if (gathered + n > 20) wrong += length_of(t, i++) != gathered, gathered = 0;
            gathered += n;
        }
        wrong += length_of(t, i++) != gathered;
    }
    CHECK(wrong == 0 && i == t->count);
}

static void parts_do_not_meet(void) {
    sr_dataset *d = open_text(1000, 6, 8, 0.05);
    double share = (double)d->part[SR_PART_HELD].tokens / (double)d->tokens;
    CHECK(share > 0.045 && share < 0.055);
    CHECK(d->part[SR_PART_HELD].count + d->part[SR_PART_TRAIN].count == d->units);
    uint64_t border = d->unit_token[d->part[SR_PART_HELD].unit[0]];
    for (int part = 0; part < SR_PARTS; part++) {
        sr_examples_opts opts = {.part = (sr_data_part)part, .max_len = 32, .nsp = true};
        int wrong = 0;
        OWN(sr_examples, *t, sr_examples_build(&t, d, &opts, NULL));
        for (int64_t i = 0; i < t->count; i++) { /* partners included */
            wrong += (sr_example_a(&t->example[i]) >= border) != (part == SR_PART_HELD);
            wrong += (sr_example_b(&t->example[i]) >= border) != (part == SR_PART_HELD);
        }
        CHECK(wrong == 0);
    }
    sr_dataset_close(d);

    sr_dataset_opts keyed = {.held = 0.2, .keyed = true, .seed = 3};
    CHECK_OK(sr_dataset_open(&d, path, &keyed));
    share = (double)d->part[SR_PART_HELD].count / (double)d->units;
    CHECK(share > 0.15 && share < 0.25);
    CHECK(d->part[SR_PART_HELD].unit[0] < 100); /* not the last ones */
    sr_dataset_close(d);
}

static void one_document_is_cut(void) {
    sr_dataset *d = open_text(1, 1, 9, 0.05); /* one sentence: none can be held out */
    CHECK(d->units == 1 && !d->cut && d->part[SR_PART_HELD].count == 0);
    sr_examples *t;
    sr_examples_opts opts = {.max_len = 32, .nsp = true};
    CHECK_OK(
        sr_examples_build(&t, d, &opts, NULL)); /* the only document is its own random partner */
    CHECK(t->count == 1 && t->random_next == 1);
    sr_examples_free(t);
    opts.part = SR_PART_HELD;
    CHECK_FAILS(sr_examples_build(&t, d, &opts, NULL), SR_EDATA, "the part 'held' is empty");
    sr_dataset_close(d);

    d = open_text(1, 500, 9, 0.1);
    CHECK(d->cut && d->units == 2);
    CHECK(d->part[SR_PART_HELD].count == 1 && d->part[SR_PART_TRAIN].count == 1);
    double share = (double)d->part[SR_PART_HELD].tokens / (double)d->tokens;
    CHECK(share > 0.05 && share < 0.15);
    CHECK_OK(sr_examples_build(&t, d, &opts, NULL));
    sr_examples_free(t);
    sr_dataset_close(d);
}

static void given_examples_by_policy(void) {
    uint32_t a[] = {10, 30, 100, 40, 5}, b[] = {0, 31, 0, 3, 70};
    sr_examples *t;
    CHECK_OK(sample_examples(path, a, b, 5));
    sr_dataset *d = sample_open(path, 0);
    sr_examples_opts opts = {.max_len = 32};
    CHECK_FAILS(sr_examples_build(&t, d, &opts, NULL), SR_EDATA, "example 1 has 64 tokens");
    opts.too_long = SR_TOO_LONG_SPLIT;
    CHECK_FAILS(sr_examples_build(&t, d, &opts, NULL), SR_EDATA, "set too_long: truncate");
    opts.too_long = SR_TOO_LONG_TRUNCATE;
    CHECK_OK(sr_examples_build(&t, d, &opts, NULL));
    int32_t want_a[] = {10, 14, 30, 26, 5}, want_b[] = {0, 15, 0, 3, 24};
    CHECK(t->count == 5 && t->cut == 4 && t->lost == 61 - 29 + 70 + 43 - 29 + 75 - 29);
    for (int i = 0; i < 5; i++) {
        CHECK(t->example[i].a_tokens == want_a[i] && t->example[i].b_tokens == want_b[i]);
        CHECK(t->unit[i] == (uint32_t)i);
    }
    sr_examples_free(t);
    opts.nsp = true;
    CHECK_FAILS(sr_examples_build(&t, d, &opts, NULL), SR_EINVAL, "nsp: false");
    sr_dataset_close(d);
    d = sample_open(path, 0.4); /* held-out examples keep their labels */
    opts = (sr_examples_opts){.part = SR_PART_HELD, .max_len = 200};
    CHECK_OK(sr_examples_build(&t, d, &opts, NULL));
    CHECK(t->count > 0 && t->count < 5 && t->unit[t->count - 1] == 4);
    sr_examples_free(t);
    sr_dataset_close(d);

    uint32_t zero[] = {0, 0, 0};
    CHECK_OK(sample_examples(path, (uint32_t[]){10, 95, 30}, zero, 3));
    d = sample_open(path, 0);
    opts = (sr_examples_opts){.max_len = 32, .too_long = SR_TOO_LONG_SPLIT};
    CHECK_OK(sr_examples_build(&t, d, &opts, NULL));
    int32_t pieces[] = {10, 30, 30, 30, 5, 30};
    uint32_t unit[] = {0, 1, 1, 1, 1, 2};
    CHECK(t->count == 6 && t->split == 1 && t->lost == 0);
    for (int i = 0; i < 6 && i < t->count; i++)
        CHECK(t->example[i].a_tokens == pieces[i] && t->unit[i] == unit[i]);
    sr_examples_free(t);
    sr_dataset_close(d);
}

static void sequences_are_framed(void) {
    OWNED(sr_dataset) *d = open_text(50, 5, 6, 0);
    sr_examples_opts opts = {.max_len = 40, .nsp = true};
    OWN(sr_examples, *t, sr_examples_build(&t, d, &opts, NULL));
    int32_t ids[40], types[40];
    int wrong = 0;
    for (uint32_t uid = 0; uid < t->count; uid++) {
        const sr_example *e = &t->example[uid];
        int32_t n = sr_example_length(e), a = e->a_tokens;
        CHECK_OK(sr_example_sequence(&t->example[uid], d, ids, types));
        wrong += ids[0] != 2 || ids[a + 1] != 3 || ids[n - 1] != 3;
        for (int32_t i = 0; i < n; i++) wrong += types[i] != (i > a + 1);
        for (int32_t i = 0; i < a; i++) wrong += ids[1 + i] != (int32_t)sr_example_a(e) + i + 5;
        for (int32_t i = 0; i < e->b_tokens; i++)
            wrong += ids[a + 2 + i] != (int32_t)sr_example_b(e) + i + 5;
    }
    CHECK(wrong == 0);
}

/* An intact file whose columns are inconsistent. */
static sr_status write_odd(int which) {
    sr_shard_writer *w;
    int c;
    uint16_t lengths[] = {3, which == 1 ? 0 : 2, 1}, ids[] = {5, 6, 7, 8, which == 2 ? 20 : 9, 10};
    uint32_t sentences[] = {2, which == 3 ? 2 : 1};
    SR_TRY(sr_shard_create(&w, path));
    CHECK_OK(sr_shard_add_column(w, &c, "ids", which == 4 ? SR_COLUMN_F32 : SR_COLUMN_U16));
    CHECK_OK(sr_shard_append(w, c, ids, which == 4 ? 3 : which == 1 ? 4 : which == 5 ? 5 : 6));
    CHECK_OK(sr_shard_add_column(w, &c, "sentence_tokens", SR_COLUMN_U16));
    CHECK_OK(sr_shard_append(w, c, lengths, 3));
    if (which != 6) {
        CHECK_OK(sr_shard_add_column(w, &c, "document_sentences", SR_COLUMN_U32));
        CHECK_OK(sr_shard_append(w, c, sentences, 2));
    }
    if (which != 7) CHECK_OK(sr_shard_set_meta(w, "kind", which == 8 ? "pictures" : "text"));
    if (which != 9) CHECK_OK(sample_vocab(w, 20));
    return sr_shard_commit(w);
}

static void contradictions_are_refused(void) {
    sr_dataset *d;
    sr_dataset_opts opts = {0};
    int32_t ids[6];
    for (int which = 1; which <= 9; which++) {
        CHECK_OK(write_odd(which));
        if (which != 2) {
            CHECK_FAILS(sr_dataset_open(&d, path, &opts), SR_EDATA, "again");
            continue;
        }
        CHECK_OK(sr_dataset_open(&d, path, &opts)); /* tokens are not read on opening */
        CHECK_FAILS(sr_dataset_ids(d, ids, 0, 6), SR_EDATA, "the id 20, but the vocabulary has 20");
        sr_dataset_close(d);
    }
    CHECK_OK(write_odd(0));
    opts.held = 1;
    CHECK_FAILS(sr_dataset_open(&d, path, &opts), SR_EINVAL, "held is 1");
}

static void another_vocabulary_is_refused(void) {
    static const char text[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n";
    sr_dataset *d;
    OWN(sr_vocab, *v, sr_vocab_parse(&v, text, strlen(text), "other.txt"));
    CHECK_OK(sample_text(path, 3, 3, 3, 100));
    sr_dataset_opts opts = {.vocab = v};
    CHECK_FAILS(sr_dataset_open(&d, path, &opts), SR_EDATA, "of 6; prepare it again");
}

static sr_status open_and_draw(bool nsp) {
    OWNED(sr_examples) *t = NULL;
    sr_dataset_opts opts = {.held = 0.1, .more = &path, .files = nsp};
    sr_examples_opts examples = {.max_len = 32, .nsp = nsp};
    TRY_OWN(sr_dataset, *d, sr_dataset_open(&d, path, &opts));
    return sr_examples_build(&t, d, &examples, NULL);
}

static void memory_runs_out(void) {
    CHECK_OK(sample_text(path, 40, 4, 6, 100));
    CHECK_STARVED(true, open_and_draw(false));
    CHECK_STARVED(true, open_and_draw(true));
}

int main(void) {
    if (!scratch_begin()) return 1;
    path = at("a.sqr");
    pairs_are_as_published();
    unused_sentences_are_put_back();
    cuts_fall_on_either_end();
    draws_do_not_depend_on_threads();
    singles_use_every_token_once();
    short_lengths_are_uniform();
    long_documents_draw_a_length_for_each_example();
    singles_are_filled_to_the_last_token();
    parts_do_not_meet();
    one_document_is_cut();
    given_examples_by_policy();
    sequences_are_framed();
    contradictions_are_refused();
    another_vocabulary_is_refused();
    memory_runs_out();
    scratch_end();
    return CHECK_DONE();
}

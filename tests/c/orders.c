/* Orders apart from making: exact numbers of sequences, groups, stages, shares of somebody else; a
 * stop loses no pushed order, and memory may run out anywhere. */
#include "core/base/thread.h"
#include "tests/support/fail.h"
#include "tests/c/sample.h"

static const char *path;

enum { EXAMPLES = 120, LONGEST = 60 };

static sr_loader_opts usual(sr_by by) {
    return (sr_loader_opts){.examples = {.max_len = LONGEST, .seed = 3},
                            .by = by,
                            .sequences = by == SR_BY_ORDER ? 0 : 25,
                            .micro = 3,
                            .mask = true,
                            .mask_prob = 0.15,
                            .mask_max = 9};
}

static sr_status push(sr_loader *l, const uint32_t *uid, int64_t n, int64_t each, int32_t max_len) {
    int64_t end[EXAMPLES], groups = 0;
    for (int64_t at = 0; at < n; at += each) end[groups++] = at + each < n ? at + each : n;
    sr_given g = {uid, end, n, groups, max_len};
    return sr_loader_push(l, &g);
}

/* ---- properties ---- */

static void check_cut(const sr_example *e, int32_t limit) {
    sr_example cut = sr_example_cut(e, limit);
    int32_t whole = sr_example_length(e), len = sr_example_length(&cut);
    CHECK(len == (whole < limit ? whole : limit));
    CHECK(cut.a_tokens >= 1 && cut.a_tokens <= e->a_tokens && cut.b_tokens <= e->b_tokens);
    CHECK((cut.b_tokens > 0) == (e->b_tokens > 0));
    CHECK(((cut.flags & SR_EXAMPLE_CUT) != 0) == (whole > limit));
    CHECK(sr_example_b_at(&cut) == (int32_t)(cut.lead + cut.a_tokens + cut.middle));
}

/* With the frames of BERT and of RoBERTa, which has two tokens between A and B. */
static void every_cut_keeps_its_separators(void) {
    for (unsigned middle = 1; middle <= 2; middle++) {
        for (int32_t a = 1; a < 40; a++) {
            for (int32_t b = 0; b < 40; b++) {
                sr_example e = {.a_tokens = (uint16_t)a,
                                .b_tokens = (uint16_t)b,
                                .lead = 1,
                                .middle = b > 0 ? middle : 0,
                                .tail = 1};
                for (int32_t limit = 4 + (int32_t)middle; limit < 90; limit++) check_cut(&e, limit);
            }
        }
    }
}

/* Counts every uid of an update, and the batch that it is in. */
static void look(const sr_update *u, int32_t *home) {
    for (int i = 0; i < EXAMPLES; i++) home[i] = -1;
    int32_t share = 0;
    for (int64_t b = 0; b < u->batches; b++) {
        const sr_layout *l = u->batch[b]->layout;
        CHECK(u->batch[b]->share == share || u->batch[b]->share == share + 1);
        share = u->batch[b]->share;
        for (int32_t s = 0; s < l->sequences; s++) {
            CHECK(home[l->uid[s]] == -1);
            home[l->uid[s]] = (int32_t)b;
        }
    }
    CHECK(u->shares == share + 1);
}

static void groups_stay_together(void) {
    OWNED(sr_dataset) *d = sample_open_fixed(path, EXAMPLES, true);
    uint32_t uid[EXAMPLES];
    int32_t home[EXAMPLES];
    for (uint32_t i = 0; i < EXAMPLES; i++) uid[i] = i * 7 % EXAMPLES;
    for (int arrange = 0; arrange < 2; arrange++) {
        for (int64_t each = 1; each <= 6; each++) {
            sr_loader_opts o = usual(SR_BY_ORDER);
            sr_update *u;
            o.arrange = (sr_arrange)arrange;
            o.micro = each % 2 == 0 || arrange == 1 ? 6 : 0; /* else cut by shares only */
            o.shares = o.micro == 0 ? 4 : 0;
            OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
            CHECK_OK(push(l, uid, EXAMPLES, each, 0));
            CHECK_OK(sr_loader_next(&u, l));
            CHECK(u->sequences == EXAMPLES && u->batches > 1);
            CHECK(each == 1 || arrange == 1 || u->batches >= 4);
            look(u, home);
            for (int64_t i = 0; i < EXAMPLES; i++) CHECK(home[uid[i]] == home[uid[i - i % each]]);
            sr_update_free(u);
            CHECK_FAILS(sr_loader_next(&u, l), SR_EINVAL, "no order is pending");
        }
    }
}

static void orders_come_as_pushed(void) {
    OWNED(sr_dataset) *d = sample_open_fixed(path, EXAMPLES, true);
    sr_loader_opts o = usual(SR_BY_ORDER);
    sr_loader *l;
    o.threads = 2;
    o.prefetch = 2;
    CHECK_OK(sr_loader_open(&l, d, &o, NULL));
    for (uint32_t i = 0; i < 5; i++) CHECK_OK(push(l, &i, 1, 1, 0));
    for (uint32_t i = 0; i < 5; i++) {
        OWN(sr_update, *u, sr_loader_next(&u, l));
        CHECK(u->index == i && u->batch[0]->layout->uid[0] == i);
        CHECK(u->batch[0]->layout->epoch[0] == i);
    }
    uint32_t twice[2] = {4, 4}, far = EXAMPLES;
    CHECK_FAILS(push(l, twice, 2, 1, 0), SR_EINVAL, "duplicate uid 4 in one update");
    CHECK_FAILS(push(l, &far, 1, 1, 0), SR_EINVAL, "uid 120 is out of range");
    CHECK_FAILS(push(l, twice, 1, 1, LONGEST + 1), SR_EINVAL, "max_len is 61");
    sr_loader_close(l); /* with nothing pending */
    CHECK_OK(sr_loader_open(&l, d, &o, NULL));
    for (uint32_t i = 0; i < 5; i++) CHECK_OK(push(l, &i, 1, 1, 0));
    sr_loader_close(l); /* with all of it pending */
}

/* Update i: all examples from 7 i on, but the last i. */
static void push_most(sr_loader *l, uint32_t i) {
    uint32_t uid[EXAMPLES];
    for (uint32_t k = 0; k < EXAMPLES; k++) uid[k] = (k + 7 * i) % EXAMPLES;
    CHECK_OK(push(l, uid, EXAMPLES - (int64_t)i, 1, 0));
}

/* Orders that were pending, in work or made when a stop came are delivered once it is over. */
static void orders_wait_for_the_end_of_a_stop(void) {
    OWNED(sr_dataset) *d = sample_open_fixed(path, EXAMPLES, true);
    for (int threads = 0; threads < 3; threads++) {
        sr_loader_opts o = usual(SR_BY_ORDER);
        sr_update *u;
        int stopped = 0;
        o.solve = (sr_pack_opts){.solver = "nnlshp", .max_seqs = 3}; /* looks for a stop at once */
        o.threads = threads;
        o.prefetch = threads;
        OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
        for (uint32_t i = 0; i < 6; i++) {
            if (i == 2) sr_stop_request();
            if (i < 4) push_most(l, i);
            if (i == 3) push_most(l, 4), push_most(l, 5);
            sr_status st = sr_loader_next(&u, l);
            if (st == SR_ESTOP) {
                CHECK(u == NULL && sr_loader_next(&u, l) == SR_ESTOP);
                stopped++;
                sr_stop_clear();
                st = sr_loader_next(&u, l);
            }
            CHECK_OK(st);
            CHECK(u->index == i && u->sequences == EXAMPLES - i && u->begin.drawn.updates == i);
            sr_update_free(u);
        }
        CHECK(stopped == 1);
        sr_stop_clear();
    }
}

/* Groups that stay together follow the same ways as packs; the update does not change. */
static void groups_follow_the_balance(void) {
    OWNED(sr_dataset) *d = sample_open_fixed(path, EXAMPLES, true);
    double imbalance[2];
    uint32_t uid[EXAMPLES];
    for (uint32_t k = 0; k < EXAMPLES; k++) uid[k] = k;
    for (int how = SR_BALANCE_COST; how <= SR_BALANCE_RANDOM; how++) {
        sr_loader_opts o = usual(SR_BY_ORDER);
        o.shares = 4;
        o.balance = (sr_balance)how;
        OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
        CHECK_OK(push(l, uid, EXAMPLES, 2, 0));
        OWN(sr_update, *u, sr_loader_next(&u, l));
        CHECK(u->sequences == EXAMPLES && u->batches >= 4);
        imbalance[how] = u->imbalance;
    }
    CHECK(imbalance[SR_BALANCE_COST] < imbalance[SR_BALANCE_RANDOM]);
}

/* ---- memory ---- */

static sr_status draw(const sr_dataset *d, const sr_loader_opts *o) {
    static const uint32_t uid[6] = {9, 2, 40, 41, 42, 3};
    TRY_OWN(sr_loader, *l, sr_loader_open(&l, d, o, NULL));
    for (int i = 0; i < 3; i++) {
        if (o->by == SR_BY_ORDER) SR_TRY(push(l, uid, 6, 1 + i, 20));
        TRY_OWN(sr_update, *u, sr_loader_next(&u, l));
    }
    return SR_OK;
}

static void memory_runs_out(void) {
    OWNED(sr_dataset) *d = sample_open_fixed(path, EXAMPLES, true);
    static const uint32_t some[] = {1, 5, 9, 33, 70, 71, 72, 73, 90};
    sr_stage stage[2] = {{.until = {.updates = 2}, .max_len = 10, .uid = some, .uids = 9},
                         {.max_len = 0}};
    for (int kind = 0; kind < 4; kind++) {
        sr_loader_opts o = usual(kind == 3   ? SR_BY_PACKS
                                 : kind == 2 ? SR_BY_ORDER
                                             : SR_BY_SEQUENCES);
        if (kind == 0) o.shares = 4, o.first_share = 2, o.last_share = 2;
        if (kind == 1 || kind == 3) o.stage = stage, o.stages = 2;
        if (kind == 2) o.micro = 1;
        CHECK_OK(draw(d, &o));
        CHECK_STARVED(true, draw(d, &o));
    }
}

int main(void) {
    if (!scratch_begin()) return 1;
    path = at("a.sqr");
    every_cut_keeps_its_separators();
    groups_stay_together();
    orders_come_as_pushed();
    groups_follow_the_balance();
    orders_wait_for_the_end_of_a_stop();
    memory_runs_out();
    scratch_end();
    return CHECK_DONE();
}

/* Costs: the micro-batches of an update, and the shares of each rank, cost about the same. */
#include <math.h>

#include "tests/c/sample.h"

static const char *path;

static sr_dataset *open_sample(void) {
    CHECK_OK(sample_text(path, 400, 8, 12, 5000));
    return sample_open(path, 0);
}

static sr_loader_opts usual(void) {
    return (sr_loader_opts){
        .examples = {.max_len = 64, .nsp = true, .short_seq_prob = 0.1, .seed = 9},
        .solve = {.solver = "lpfhp"},
        .mask = true,
        .mask_prob = 0.15,
        .mask_max = 20};
}

/* Costs as the loader counts them: the most expensive batch over the mean. */
static double imbalance(const sr_update *u, double per_square) {
    double most = 0, all = 0;
    for (int64_t b = 0; b < u->batches; b++) {
        const sr_layout *l = u->batch[b]->layout;
        double cost = (double)l->tokens + per_square * (double)l->squares;
        if (cost > most) most = cost;
        all += cost;
    }
    return most * (double)u->batches / all;
}

static void batches_cost_about_the_same(void) {
    OWNED(sr_dataset) *d = open_sample();
    for (int i = 0; i < 3; i++) {
        const double per_square[] = {0, 1.0 / 64, 1};
        sr_loader_opts o = usual();
        o.packs = 42;
        o.micro = 8;
        o.per_square = per_square[i];
        OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
        OWN(sr_update, *u, sr_loader_next(&u, l));
        CHECK(u->batches == 6);
        for (int64_t b = 0; b < u->batches; b++) CHECK(u->batch[b]->slots == 7 * 64 + 64);
        double want = imbalance(u, per_square[i] > 0 ? per_square[i] : SR_PER_SQUARE);
        CHECK(fabs(u->imbalance - want) < 1e-9);
        CHECK(u->imbalance >= 1 && u->imbalance < 1.01);
    }
}

/* The most expensive of `ranks` runs of shares over the mean. */
static double rank_imbalance(const sr_update *u, int ranks) {
    double load[8] = {0}, most = 0, all = 0;
    for (int64_t b = 0; b < u->batches; b++) {
        const sr_layout *l = u->batch[b]->layout;
        double cost = (double)l->tokens + SR_PER_SQUARE * (double)l->squares;
        load[u->batch[b]->share * ranks / u->shares] += cost;
        all += cost;
    }
    for (int i = 0; i < ranks; i++) most = load[i] > most ? load[i] : most;
    return most * ranks / all;
}

/* Also when some shares have a pack more than others: runs of shares, which ranks own, stay even.
 */
static void ranks_cost_about_the_same(void) {
    static const int64_t packs[] = {12, 20, 23, 32, 42};
    OWNED(sr_dataset) *d = open_sample();
    for (int i = 0; i < 5; i++)
        for (int64_t micro = 1; micro <= 8; micro *= 2) {
            sr_loader_opts o = usual();
            o.packs = packs[i];
            o.micro = micro;
            o.shares = 8;
            OWN(sr_loader, *l, sr_loader_open(&l, d, &o, NULL));
            OWN(sr_update, *u, sr_loader_next(&u, l));
            CHECK(u->shares == 8);
            for (int ranks = 2; ranks <= 8 && u->batches % 8 == 0; ranks *= 2) {
                int64_t full = (packs[i] + ranks - 1) / ranks *
                               ranks; /* packs if all ranks had as many as the fullest */
                double most = (double)full / (double)packs[i];
                CHECK(rank_imbalance(u, ranks) < most * 1.02);
            }
            CHECK(fabs(u->imbalance - imbalance(u, SR_PER_SQUARE)) < 1e-9);
        }
}

int main(void) {
    if (!scratch_begin()) return 1;
    path = at("a.sqr");
    batches_cost_about_the_same();
    ranks_cost_about_the_same();
    scratch_end();
    return CHECK_DONE();
}

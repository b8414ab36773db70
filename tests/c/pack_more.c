/* Streams, ranks and least squares, which the reference tables do not cover. */
#include <math.h>

#include "core/pack/assign.h"
#include "core/pack/lp/draw.h"
#include "core/pack/lp/nnls.h"
#include "core/pack/online.h"
#include "tests/support/fail.h"
#include "tests/c/packing.h"

OWNER(sr_online, sr_online_free)

/* ---- online ---- */

typedef struct plain_row {
    int32_t space, members;
} plain_row;

/* The number of packs used by best fit over `open` rows, by linear search. */
static int64_t plain_online(const uint16_t *length, int64_t n, int32_t capacity, int32_t depth,
                            int32_t open) {
    static plain_row row[64];
    int32_t used = 0;
    int64_t packs = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t best = -1;
        for (int32_t r = 0; r < used; r++)
            if (row[r].space >= length[i] && (best < 0 || row[r].space < row[best].space)) best = r;
        if (best < 0) {
            if (used == open) { /* close the fullest */
                int32_t full = 0;
                for (int32_t r = 1; r < used; r++)
                    if (row[r].space < row[full].space) full = r;
                row[full] = row[--used];
                packs++;
            }
            best = used++;
            row[best] = (plain_row){capacity, 0};
        }
        row[best].space -= length[i];
        row[best].members++;
        if (row[best].space == 0 || row[best].members == depth) {
            row[best] = row[--used];
            packs++;
        }
    }
    return packs + used;
}

static void streams(void) {
    static uint16_t length[4000];
    test_rng r = {31, 0};
    for (int i = 0; i < 400; i++) {
        int32_t capacity = 1 + (int32_t)test_below(&r, 90), open = 1 + (int32_t)test_below(&r, 40);
        int64_t n = test_below(&r, 2000), packs = 0, sequences = 0;
        /* distinct free spaces, so that ties do not matter; no limit of depth */
        for (int64_t k = 0; k < n; k++)
            length[k] = (uint16_t)(1 + test_below(&r, (uint32_t)capacity));
        sr_online_pack left;
        OWN(sr_online, *o, sr_online_new(&o, capacity, 0, open));
        bool fits = true;
        for (int64_t k = 0; k < n; k++) {
            CHECK_OK(sr_online_push(o, (uint32_t)k, length[k], &left));
            packs += left.n > 0, sequences += left.n;
            int32_t tokens = 0;
            for (int32_t m = 0; m < left.n; m++) {
                fits = fits && length[left.uids[m]] == left.lengths[m];
                tokens += left.lengths[m];
            }
            fits = fits && tokens <= capacity;
        }
        for (left.n = 1; left.n > 0;) {
            CHECK_OK(sr_online_flush(o, &left));
            packs += left.n > 0, sequences += left.n;
        }
        CHECK(fits && sequences == n);
        /* a full pack is closed later than by the plain search, in one case only: it
         * was opened by a push that made another leave.  That cannot change what fits where, but
         * may make one row fewer open */
        int64_t plain = plain_online(length, n, capacity, capacity, open);
        CHECK(packs >= plain - plain / 50 - 2 && packs <= plain + plain / 50 + 2);
        sr_lengths view = {length, 2, n};
        OWN(sr_plan, *plan, sr_online_plan(&plan, &view, capacity, 0, open, SR_LONG_ERROR));
        CHECK(plan->packs == packs && sr_plan_check(plan) == SR_OK);
    }
}

static void stream_edges(void) {
    sr_online *o;
    sr_online_pack left;
    CHECK_FAILS(sr_online_new(&o, 8, 0, 0), SR_EINVAL, "open packs");
    CHECK_OK(sr_online_new(&o, 8, 2, 2));
    CHECK_FAILS(sr_online_push(o, 0, 9, &left), SR_EDATA, "9 tokens");
    CHECK_OK(sr_online_push(o, 0, 1, &left));
    CHECK(left.n == 0);
    CHECK_OK(sr_online_push(o, 1, 1, &left)); /* two: at the depth limit */
    CHECK(left.n == 2 && left.uids[0] == 0 && left.uids[1] == 1);
    CHECK_OK(sr_online_push(o, 2, 8, &left)); /* full at once */
    CHECK(left.n == 1 && left.uids[0] == 2);
    CHECK_OK(sr_online_flush(o, &left));
    CHECK(left.n == 0);
    sr_online_free(o);
    const uint16_t length[] = {5, 20, 3};
    sr_lengths view = {length, 2, 3};
    sr_plan *plan;
    CHECK_FAILS(sr_online_plan(&plan, &view, 8, 0, 4, SR_LONG_ERROR), SR_EDATA, "20 tokens");
    CHECK_OK(sr_online_plan(&plan, &view, 8, 0, 4, SR_LONG_SPLIT));
    CHECK(plan->packs == 4 && plan->histogram.longer == 1 && plan->histogram.tokens == 28);
    sr_plan_free(plan);
    CHECK_OK(sr_online_plan(&plan, &view, 8, 0, 4, SR_LONG_TRUNCATE));
    CHECK(plan->packs == 2 && plan->histogram.lost == 12);
    sr_plan_free(plan);
}

static void stream_out_of_memory(void) {
    sr_plan *plan;
    sr_status st;
    OWN(sr_histogram, h, load_set(&h, "glue_wnli_128"));
    static const char *const solvers[] = {"online", "nnlshp"};
    int64_t live = sr_mem_live();
    for (int s = 0; s < 2; s++) {
        sr_pack_opts opts = {.solver = solvers[s], .max_seqs = 3, .iterations = 20};
        STARVE_ANY(st, 8, false, false, sr_pack_solve(&plan, &h, &opts)) {
            sr_plan_free(plan);
            CHECK(sr_mem_live() == live);
        }
    }
}

/* ---- ranks ---- */

static double random_costs(double *cost, int32_t n, test_rng *r) {
    double total = 0;
    for (int32_t k = 0; k < n; k++) {
        uint16_t length[2] = {(uint16_t)(1 + test_below(r, 512)),
                              (uint16_t)(1 + test_below(r, 256))};
        cost[k] = sr_pack_cost(length, 2, 1, 1.0 / 512);
        total += cost[k];
    }
    return total;
}

/* Checks an assignment: equal sizes, and its imbalance. */
static void check_groups(const int32_t *group, double imbalance, const double *cost, int32_t n,
                         int32_t groups, double total) {
    double most = 0, load[9] = {0};
    int32_t members[9] = {0};
    for (int32_t k = 0; k < n; k++) {
        CHECK(group[k] >= 0 && group[k] < groups);
        members[group[k]]++;
        load[group[k]] += cost[k];
    }
    for (int32_t g = 0; g < groups; g++) {
        CHECK(members[g] == n / groups || members[g] == n / groups + (n % groups > 0));
        if (load[g] > most) most = load[g];
    }
    CHECK(fabs(imbalance - most * groups / total) < 1e-9);
}

static void ranks(void) {
    test_rng r = {32, 0};
    double cost[96], imbalance[2], sum[2] = {0};
    int32_t group[96];
    for (int i = 0; i < 500; i++) {
        int32_t n = 1 + (int32_t)test_below(&r, 96), groups = 1 + (int32_t)test_below(&r, 9);
        double total = random_costs(cost, n, &r);
        for (int how = SR_BALANCE_COST; how <= SR_BALANCE_RANDOM; how++) {
            CHECK_OK(sr_assign_packs(group, &imbalance[how], cost, n, groups, (sr_balance)how));
            check_groups(group, imbalance[how], cost, n, groups, total);
            sum[how] += imbalance[how];
        }
        if (n >= 8 * groups) CHECK(imbalance[SR_BALANCE_COST] < 1.08 + (n % groups > 0) * 0.2);
    }
    CHECK(sum[SR_BALANCE_RANDOM] > sum[SR_BALANCE_COST]);
    CHECK(sr_pack_cost((const uint16_t[]){3, 4}, 2, 2, 0.5) == 2 * 7 + 0.5 * 25);
    enum { MANY = 20000 }; /* a global batch of a large run: the swap search is cut off */
    static double many[MANY];
    static int32_t where[MANY];
    for (int32_t k = 0; k < MANY; k++) many[k] = 512 + test_below(&r, 512);
    CHECK_OK(sr_assign_packs(where, imbalance, many, MANY, 16, SR_BALANCE_COST));
    CHECK(imbalance[0] < 1.001);
    CHECK_FAILS(sr_assign_packs(group, NULL, cost, 4, 0, SR_BALANCE_COST), SR_EINVAL, "0 groups");
    cost[2] = -1;
    CHECK_FAILS(sr_assign_packs(group, NULL, cost, 4, 2, SR_BALANCE_COST), SR_EINVAL, "pack 2");
    CHECK_OK(sr_assign_packs(group, imbalance, cost, 0, 2, SR_BALANCE_COST));
    CHECK(imbalance[0] == 1);
}

/* Worked by hand: costs 6 5 4 3 2 1, already sorted, to two or three groups. */
static void balances(void) {
    static const double cost[] = {6, 5, 4, 3, 2, 1};
    static const struct {
        sr_balance how;
        int32_t want[6];
        double imbalance;
    } arms[] = {{SR_BALANCE_RANDOM, {0, 0, 1, 1, 2, 2}, 11.0 / 7},
                {SR_BALANCE_COST, {0, 1, 2, 2, 1, 0}, 1}};
    for (size_t i = 0; i < sizeof arms / sizeof *arms; i++) {
        int32_t group[6];
        double imbalance;
        CHECK_OK(sr_assign_packs(group, &imbalance, cost, 6, 3, arms[i].how));
        CHECK(memcmp(group, arms[i].want, sizeof group) == 0);
        CHECK(fabs(imbalance - arms[i].imbalance) < 1e-12);
    }
    CHECK(strcmp(sr_balance_names[SR_BALANCE_RANDOM], "random") == 0 &&
          strcmp(sr_balance_names[SR_BALANCE_COST], "cost") == 0 && sr_balance_names[2] == NULL);
}

/* ---- drawn patterns ---- */

enum { DRAW_CAPACITY = 60, DRAW_ROWS = 40, DRAW_TURNS = 400 };

static void draw_demand(int32_t *length, double *demand, uint64_t seed) {
    test_rng r = {seed, 0};
    for (int32_t i = 0; i < DRAW_ROWS; i++) {
        length[i] = DRAW_ROWS - i;
        demand[i] = (1 + i) * (20 + test_below(&r, 20));
    }
}

/* Every pattern is full and within the depth limit, and together they contain each length as often
 * as demanded. */
static void draws_match(int32_t depth) {
    int32_t length[DRAW_ROWS], items[DRAW_CAPACITY], n;
    double demand[DRAW_ROWS], held[DRAW_ROWS] = {0};
    sr_draw d;
    draw_demand(length, demand, 40 + (uint64_t)depth);
    CHECK_OK(sr_draw_new(&d, length, demand, DRAW_ROWS, DRAW_CAPACITY, depth, 4.4));
    bool good = true;
    for (int32_t i = 0; i < DRAW_ROWS * DRAW_TURNS; i++) {
        int32_t row = i % DRAW_ROWS, sum = 0;
        sr_draw_pattern(&d, row, (uint32_t)(i / DRAW_ROWS), items, &n);
        for (int32_t k = 0; k < n; k++) {
            sum += length[items[k]];
            held[items[k]] += demand[row] / n / DRAW_TURNS;
        }
        good = good && sum == DRAW_CAPACITY && items[0] == row && (depth == 0 || n <= depth);
    }
    CHECK(good);
    for (int32_t i = 0; i < DRAW_ROWS; i++) CHECK(fabs(held[i] / demand[i] - 1) < 0.15);
    sr_draw_free(&d);
}

static void draw_edges(void) {
    static const struct {
        int32_t length[2], rows, capacity, depth, n; /* n: of the pattern; 0: none is full */
        double mean;
    } cases[] = {{{4}, 1, 8, 0, 2, 2},
                 {{4}, 1, 8, 1, 0, 2},
                 {{5, 3}, 2, 7, 2, 0, 1.7},
                 {{8}, 1, 8, 0, 1, 1}};
    const double demand[] = {3, 2};
    sr_draw d;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t items[4] = {-1, -1}, n, rows = cases[i].rows;
        CHECK_OK(sr_draw_new(&d, cases[i].length, demand, rows, cases[i].capacity, cases[i].depth,
                             cases[i].mean));
        sr_draw_pattern(&d, rows - 1, 0, items, &n);
        CHECK(n == cases[i].n);
        for (int32_t k = 0; k < n; k++) CHECK(items[k] == 0);
        sr_draw_free(&d);
    }
    sr_status st;
    STARVE(st, false, sr_draw_new(&d, cases[2].length, demand, 2, 8, 0, 2))
    if (st == SR_OK) sr_draw_free(&d);
}

/* ---- least squares ---- */

/* Karush-Kuhn-Tucker conditions: no column can lower the error, and used ones are stationary. */
static void least_squares(void) {
    test_rng r = {33, 0};
    for (int i = 0; i < 300; i++) {
        uint16_t row[60 * 3];
        double weight[21], target[21], x[60], residual[21];
        int32_t rows = 2 + (int32_t)test_below(&r, 19);
        int64_t columns = 1 + test_below(&r, 60);
        for (int64_t k = 0; k < columns * 3; k++)
            row[k] = (uint16_t)(k % 3 == 0 ? 1 + test_below(&r, (uint32_t)rows)
                                           : test_below(&r, (uint32_t)rows + 1));
        for (int32_t l = 0; l <= rows; l++) {
            weight[l] = l == 0 ? 0 : l < 3 ? 0.0081 : 1;
            target[l] = test_below(&r, 1000);
        }
        sr_nnls problem = {row, 3, columns, rows, weight, target, (uint32_t)i % 3, 0};
        CHECK_OK(sr_nnls_solve(x, &problem, 0));
        for (int32_t l = 0; l <= rows; l++) residual[l] = weight[l] * target[l];
        for (int64_t j = 0; j < columns; j++)
            for (int k = 0; k < 3; k++) residual[row[j * 3 + k]] -= weight[row[j * 3 + k]] * x[j];
        residual[0] = 0;
        bool good = true;
        for (int64_t j = 0; j < columns; j++) {
            double g = residual[row[j * 3]] + residual[row[j * 3 + 1]] + residual[row[j * 3 + 2]];
            good = good && x[j] >= 0 && g < 1e-5 && (x[j] == 0 || g > -1e-5);
        }
        CHECK(good);
    }
}

/* The packs of nnlshp. */
static int64_t nnlshp(const sr_histogram *h, int32_t depth, double seconds) {
    sr_pack_opts opts = {.solver = "nnlshp", .max_seqs = depth, .seconds = seconds};
    OWN(sr_plan, *plan, sr_pack_solve(&plan, h, &opts));
    return plan != NULL ? plan->packs : -1;
}

static void nnlshp_edges(void) {
    sr_plan *plan;
    OWN(sr_histogram, h, sr_histogram_new(&h, 8));
    CHECK(nnlshp(&h, 0, 0) == 0);
    CHECK_OK(sr_histogram_add(&h, 8, 3, SR_LONG_ERROR));
    CHECK_OK(sr_histogram_add(&h, 2, 7, SR_LONG_ERROR));
    for (int32_t depth = 1; depth < 5; depth++)
        CHECK(nnlshp(&h, depth, 0) >= (depth == 1 ? 10 : depth == 2 ? 7 : 5));
    OWN(sr_histogram, all,
        load_set(&all, "wikipedia_512")); /* out of time at once: complete, but poor */
    int64_t packs = nnlshp(&all, 0, 1e-9);
    CHECK(packs > 8155059 && packs <= all.sequences);
    OWN(sr_histogram, far, sr_histogram_new(&far, 65535));
    CHECK_OK(sr_histogram_add(&far, 40000, 3, SR_LONG_ERROR));
    CHECK(nnlshp(&far, 1, 0) == 3);
    for (int32_t depth = 2; depth <= 3; depth++)
        CHECK_FAILS(
            sr_pack_solve(&plan, &far, &(sr_pack_opts){.solver = "nnlshp", .max_seqs = depth}),
            SR_EINVAL, "use the solver optimal");
}

/* ---- a solver of the caller's ---- */

static sr_status own_solver(sr_plan **out, const sr_histogram *hist, const sr_pack_opts *opts) {
    int *calls = opts->own_context;
    if (++*calls > 1) return sr_fail(SR_EDATA, "no plan today");
    return sr_pack_solve(out, hist, &(sr_pack_opts){.solver = "lpfhp"});
}

static void own_solvers(void) {
    OWNED(sr_histogram) h = {0};
    sr_plan *plan = NULL;
    int calls = 0;
    sr_pack_opts opts = {.solver = "unknown", .own = own_solver, .own_context = &calls};
    CHECK_OK(sr_histogram_new(&h, 16));
    CHECK_OK(sr_histogram_add(&h, 9, 3, SR_LONG_ERROR));
    CHECK_OK(sr_pack_solve(&plan, &h, &opts));
    CHECK(plan->packs == 3 && calls == 1);
    sr_plan_free(plan);
    CHECK_FAILS(sr_pack_solve(&plan, &h, &opts), SR_EDATA, "no plan today");
    CHECK(plan == NULL);
}

int main(void) {
    streams();
    stream_edges();
    stream_out_of_memory();
    ranks();
    balances();
    draws_match(0);
    draws_match(5);
    draw_edges();
    least_squares();
    nnlshp_edges();
    own_solvers();
    CHECK(sr_mem_live() == 0);
    return CHECK_DONE();
}

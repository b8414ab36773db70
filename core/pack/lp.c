#include "core/pack/lp.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/base/thread.h"
#include "core/pack/bounds.h"
#include "core/pack/lp/draw.h"
#include "core/pack/lp/knapsack.h"
#include "core/pack/lp/master.h"

static const double IMPROVES = 1e-9;
static const double MUCH_WORK = 3e9; /* additions: about half a second */
enum {
    MOST_ADDED = 200, /* patterns per round of pricing */
    MOST_PIVOTS = 500 /* between two checks of the limits */
};

/* ---- lists of patterns ---- */

sr_status sr_pattern_list_new(sr_pattern_list *list) {
    memset(list, 0, sizeof *list);
    list->room = 256;
    sr_status st = sr_new(&list->weight, list->room);
    if (st == SR_OK) st = sr_vectors_new(&list->parts, list->room, 4 * list->room);
    if (st != SR_OK) sr_pattern_list_free(list);
    return st;
}

void sr_pattern_list_free(sr_pattern_list *list) {
    sr_vectors_free(&list->parts);
    sr_free(list->weight);
    memset(list, 0, sizeof *list);
}

sr_status sr_pattern_list_close(sr_pattern_list *list, double weight) {
    if (list->parts.count == list->room) {
        SR_TRY(sr_grow(&list->weight, list->room * 2));
        list->room *= 2;
    }
    list->weight[list->parts.count] = weight;
    sr_vectors_close(&list->parts);
    return SR_OK;
}

void sr_pattern_list_cut(sr_pattern_list *list, size_t count) {
    list->parts.count = count;
    list->parts.used = list->parts.start[count];
}

sr_status sr_pattern_list_add(sr_pattern_list *list, const sr_plan *plan) {
    for (size_t i = 0; i < plan->strategies; i++) {
        const sr_plan_pattern *q = &plan->pattern[i];
        SR_TRY(sr_vectors_reserve(&list->parts, q->parts));
        for (uint32_t k = 0; k < q->parts; k++)
            sr_vectors_push(&list->parts, plan->part[q->first + k].length,
                            plan->part[q->first + k].copies);
        SR_TRY(sr_pattern_list_close(list, (double)q->count));
    }
    return SR_OK;
}

/* ---- column generation ---- */

typedef struct generation {
    sr_master master;
    sr_knapsack knapsack;
    int32_t rows, capacity, max_seqs;
    int32_t *length, *row_of, *items, *wanted;
    double *demand;
    double *price;  /* prices passed to the knapsack */
    double *centre; /* the prices of the best bound */
    double bound;
    double average; /* sequences of a full pack */
    double added;   /* additions of the knapsacks so far */
    int32_t turn;   /* selects among many candidate rows */
} generation;

static void generation_free(generation *g) {
    sr_master_free(&g->master);
    sr_knapsack_free(&g->knapsack);
    sr_free(g->length);
    sr_free(g->demand);
    memset(g, 0, sizeof *g);
}

/* Rows are the lengths in demand, descending; row_of maps a length to the longest row not above it.
 */
static void lay_out_rows(generation *g, const int64_t *counts) {
    int32_t row = 0;
    for (int32_t l = g->capacity; l >= 0; l--)
        if (counts[l] > 0) g->length[row] = l, g->demand[row++] = (double)counts[l];
    for (int32_t l = 0; l <= g->capacity; l++) {
        while (row > 0 && g->length[row - 1] <= l) row--;
        g->row_of[l] = row < g->rows && g->length[row] <= l ? row : -1;
    }
}

static sr_status generation_new(generation *g, const int64_t *counts, int32_t capacity,
                                int32_t max_seqs) {
    memset(g, 0, sizeof *g);
    g->capacity = capacity, g->max_seqs = max_seqs;
    for (int32_t l = 0; l <= capacity; l++) g->rows += counts[l] > 0;
    size_t n = (size_t)g->rows, spaces = (size_t)capacity + 1;
    sr_status st;
    SR_GO(fail, st, sr_new(&g->length, 2 * n + 2 * spaces + 1));
    SR_GO(fail, st, sr_new(&g->demand, 3 * n + 1));
    g->wanted = g->length + n, g->row_of = g->wanted + n, g->items = g->row_of + spaces;
    g->price = g->demand + n, g->centre = g->price + n;
    lay_out_rows(g, counts);
    SR_GO(fail, st, sr_master_new(&g->master, g->length, g->demand, g->rows, capacity, max_seqs));
    double tokens = 0, sequences = 0;
    for (int32_t r = 0; r < g->rows; r++)
        tokens += g->length[r] * g->demand[r], sequences += g->demand[r];
    g->average = tokens > 0 ? sequences * capacity / tokens : 1;
    SR_GO(fail, st,
          sr_knapsack_relaxed(&g->knapsack, capacity, max_seqs, g->length, g->rows, g->average));
    return SR_OK;
fail:
    generation_free(g);
    return st;
}

static sr_status add_start(generation *g, const sr_pattern_list *start) {
    const sr_vectors *v = &start->parts;
    for (size_t j = 0; j < v->count; j++) {
        int32_t n = 0;
        for (size_t k = v->start[j]; k < v->start[j + 1]; k++) {
            int32_t row = g->row_of[v->entry[k].at];
            for (int32_t c = 0; row >= 0 && c < (int32_t)v->entry[k].value; c++)
                g->items[n++] = row;
        }
        if (n > 0) SR_TRY(sr_master_add(&g->master, g->items, n));
    }
    return SR_OK;
}

/* Adds full patterns, `each` of them per row, unless the limit of depth leaves most packs unfilled.
 */
static sr_status add_drawn(generation *g, int32_t each) {
    sr_draw d;
    double work = sr_draw_work(g->rows, g->capacity, g->max_seqs, g->average);
    bool full = g->max_seqs == 0 || g->average <= g->max_seqs;
    if (each == 0 || !full || work > MUCH_WORK) return SR_OK;
    SR_TRY(sr_draw_new(&d, g->length, g->demand, g->rows, g->capacity, g->max_seqs, g->average));
    g->added += work;
    sr_status st = SR_OK;
    for (int32_t i = 0; i < each * g->rows && st == SR_OK; i++) {
        int32_t n;
        sr_draw_pattern(&d, i % g->rows, (uint32_t)(i / g->rows), g->items, &n);
        if (n > 0) st = sr_master_add(&g->master, g->items, n);
    }
    sr_draw_free(&d);
    return st;
}

/* Uses prices between the centre and the master's; the better bound becomes the new centre. */
static double ask(generation *g, double to_centre) {
    double worth = 0;
    for (int32_t r = 0; r < g->rows; r++) {
        double y = g->master.y[r] > 0 ? g->master.y[r] : 0;
        g->price[r] = to_centre * g->centre[r] + (1 - to_centre) * y;
        worth += g->price[r] * g->demand[r];
    }
    double best = sr_knapsack_fill(&g->knapsack, g->price);
    g->added += g->knapsack.work;
    if (best > 0 && worth / best > g->bound) {
        g->bound = worth / best;
        for (int32_t r = 0; r < g->rows; r++) g->centre[r] = g->price[r] / best;
    }
    return best;
}

/* Independent of the order of the items. */
static uint64_t pattern_mark(const int32_t *items, int32_t n) {
    uint64_t mark = 0;
    for (int32_t k = 0; k < n; k++) {
        uint64_t x = ((uint64_t)items[k] + 1) * 0x9E3779B97F4A7C15u;
        mark += (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    }
    return mark;
}

/* Adds the best pattern of a row if it is new and improving at the master's prices. */
static sr_status add_pattern(generation *g, int32_t row, uint64_t *marks, int32_t *added) {
    int32_t n;
    double reduced = 1;
    sr_knapsack_pattern(&g->knapsack, row, g->items, &n);
    for (int32_t k = 0; k < n; k++) reduced -= g->master.y[g->items[k]];
    if (reduced >= -IMPROVES) return SR_OK;
    uint64_t mark = pattern_mark(g->items, n);
    for (int32_t k = 0; k < *added; k++)
        if (marks[k] == mark) return SR_OK;
    marks[(*added)++] = mark;
    return sr_master_add(&g->master, g->items, n);
}

/* Adds patterns for the rows whose best one is worth more than `least`, at most MOST_ADDED, spread
 * over all rows. */
static sr_status add_patterns(generation *g, double least, int32_t *added) {
    uint64_t marks[MOST_ADDED];
    int32_t candidates = 0;
    for (int32_t r = 0; r < g->rows; r++)
        if (sr_knapsack_with(&g->knapsack, r) > least) g->wanted[candidates++] = r;
    int32_t stride = candidates / MOST_ADDED + 1, first = g->turn++ % stride;
    *added = 0;
    for (int32_t s = 0; s < stride; s++)
        for (int32_t i = (first + s) % stride; i < candidates && *added < MOST_ADDED; i += stride)
            SR_TRY(add_pattern(g, g->wanted[i], marks, added));
    return SR_OK;
}

/* One round of pricing: moves towards the master's prices until there are new patterns.  Sets *done
 * if there are none at the master's prices. */
static sr_status price_round(generation *g, bool *done) {
    double to_centre = g->bound > 0 ? 0.5 : 0;
    for (;;) {
        double best = ask(g, to_centre);
        int32_t added = 0;
        if (to_centre > 0 || best > 1 + IMPROVES)
            SR_TRY(add_patterns(g, to_centre > 0 ? 1 - 1e-6 : 1 + IMPROVES, &added));
        *done = added == 0 && to_centre == 0;
        if (added > 0 || *done) return SR_OK;
        to_centre = to_centre > 0.3 ? to_centre / 2 : 0;
    }
}

/* The work so far: pivots, and the cost of knapsacks in units of pivots. */
static int64_t spent(const generation *g) {
    int64_t knapsacks = g->rows > 0 ? (int64_t)(g->added / (250.0 * g->rows)) : 0;
    return g->master.pivots + knapsacks;
}

static bool good_enough(const generation *g, const sr_lp_limits *limits) {
    double bound = fmax(g->bound, (double)limits->known), packs = sr_master_packs(&g->master);
    if (ceil(bound - 1e-6) >= packs) return true;
    double used = limits->pivots > 0 ? (double)spent(g) / (double)limits->pivots : 0;
    return packs - bound < limits->gap * (1 + 10 * used * used) * bound;
}

/* An exact knapsack may find patterns that a relaxed one does not. */
static sr_status price_exactly(generation *g, bool *finished) {
    sr_knapsack_free(&g->knapsack);
    *finished = false;
    return sr_knapsack_new(&g->knapsack, g->capacity, g->max_seqs, g->length, g->rows);
}

/* Pricing starts when the known patterns are used optimally. */
static sr_status generate(generation *g, const sr_lp_limits *limits, bool *finished) {
    size_t keep = (size_t)g->rows + 64;
    *finished = false;
    while (!*finished) {
        int64_t left = limits->pivots > 0 ? limits->pivots - spent(g) : INT64_MAX;
        if (left <= 0) return SR_OK;
        if (sr_stop_requested()) return sr_fail(SR_ESTOP, "pack: stopped on request");
        if (limits->deadline > 0 && sr_time_monotonic() > limits->deadline) return SR_OK;
        int64_t made = g->master.pivots, most = left < MOST_PIVOTS ? left : MOST_PIVOTS;
        SR_TRY(sr_master_optimise(&g->master, most));
        made = g->master.pivots - made;
        if (made < most && g->master.columns.count > 2 * (size_t)g->rows + 3 * keep)
            SR_TRY(sr_master_trim(&g->master, keep));
        if (made < most) SR_TRY(price_round(g, finished));
        if (*finished && g->knapsack.keep > 0) SR_TRY(price_exactly(g, finished));
        if (good_enough(g, limits)) return SR_OK;
    }
    return SR_OK;
}

/* The initial centre: the prices that prove the best of the cheap bounds. */
static void first_centre(generation *g, const int64_t *counts) {
    double worth = 0, count = 0;
    int32_t cut = sr_bound_cut(counts, g->capacity);
    for (int32_t r = 0; r < g->rows; r++) {
        g->centre[r] = (double)sr_bound_weight(g->length[r], g->capacity, cut) / g->capacity;
        worth += g->centre[r] * g->demand[r];
        count += g->demand[r];
    }
    for (int32_t r = 0; r < g->rows && g->max_seqs > 0 && count > worth * g->max_seqs; r++)
        g->centre[r] = 1.0 / g->max_seqs;
    ask(g, 1);
}

/* ---- the result ---- */

static sr_status take_basis(sr_lp *out, const generation *g) {
    const sr_master *m = &g->master;
    for (int32_t p = 0; p < m->rows; p++) {
        size_t j = (size_t)m->basic[p], n = m->columns.start[j + 1] - m->columns.start[j];
        if (sr_master_is_exchange(m, m->basic[p])) continue;
        SR_TRY(sr_vectors_reserve(&out->solution.parts, n));
        for (size_t k = m->columns.start[j]; k < m->columns.start[j + 1]; k++)
            sr_vectors_push(&out->solution.parts, g->length[m->columns.entry[k].at],
                            m->columns.entry[k].value);
        SR_TRY(sr_pattern_list_close(&out->solution, m->x[p]));
    }
    return SR_OK;
}

static sr_status take_result(sr_lp *out, generation *g) {
    SR_TRY(sr_master_finish(&g->master));
    out->packs = sr_master_packs(&g->master);
    out->bound = g->bound;
    out->pivots = spent(g);
    SR_TRY(sr_new(&out->value, g->capacity + 1));
    for (int32_t r = 0; r < g->rows; r++) out->value[g->length[r]] = g->centre[r];
    SR_TRY(sr_pattern_list_new(&out->solution));
    return take_basis(out, g);
}

sr_status sr_lp_solve(sr_lp *out, const int64_t *counts, int32_t capacity, int32_t max_seqs,
                      const sr_pattern_list *start, const sr_lp_limits *limits) {
    generation g;
    memset(out, 0, sizeof *out);
    SR_TRY(generation_new(&g, counts, capacity, max_seqs));
    sr_status st = start != NULL ? add_start(&g, start) : SR_OK;
    if (st == SR_OK) st = add_drawn(&g, limits->drawn);
    first_centre(&g, counts);
    if (st == SR_OK) st = generate(&g, limits, &out->finished);
    if (st == SR_OK) st = take_result(out, &g);
    generation_free(&g);
    if (st != SR_OK) sr_lp_free(out);
    return st;
}

void sr_lp_free(sr_lp *lp) {
    sr_free(lp->value);
    sr_pattern_list_free(&lp->solution);
    memset(lp, 0, sizeof *lp);
}

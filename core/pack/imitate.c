#include "core/pack/imitate.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/pack/build.h"
#include "core/pack/grid.h"
#include "core/pack/solvers.h"
#include "core/pack/stock.h"

static const double SHARE = 0.7; /* of the packs of a pattern that are made before the next solve */
enum {
    ROUNDS = 14,
    TRIES = 24,       /* lengths tried for the last but one slot */
    SINGLE = 8000000, /* sequences up to which packs are made one by one */
    FEW = 1000        /* sequences that are left to a greedy solver */
};

typedef struct slot {
    int32_t node;
    double length; /* of the node */
    int64_t near;  /* sequences near it, times capacity */
} slot;

typedef struct imitation {
    sr_builder builder;
    sr_stock stock;
    sr_grid grid;
    slot *slot;
    int32_t slots;
    sr_plan_part *parts;
    size_t taken;
    double *surplus; /* by node: share of its slots that are for a shorter node, and that so far */
    double cell;     /* tokens */
    uint32_t turn;
    int64_t batch; /* packs made at once */
} imitation;

/* ---- one pack ---- */

/* The program covers at least the demand: some slots of a node are for the next shorter one that is
 * in demand, or, after the last, for nothing. */
static void find_surplus(imitation *m) {
    const sr_pattern_list *list = &m->grid.lp.solution;
    const sr_vectors *v = &list->parts;
    double *slots = m->surplus;
    memset(slots, 0, (2 * (size_t)m->grid.cells + 2) * sizeof *slots);
    for (size_t p = 0; p < v->count; p++)
        for (size_t k = v->start[p]; k < v->start[p + 1]; k++)
            slots[v->entry[k].at] += v->entry[k].value * list->weight[p];
    double carried = 0;
    for (int32_t i = m->grid.cells; i >= 0; i--) {
        double all = slots[i] + carried;
        carried = fmax(0, all - (double)m->grid.counts[i]);
        slots[i] = all > 0 ? carried / all : 0;
    }
}

/* The node that a slot is for; -1 for none. */
static int32_t lower_node(imitation *m, int32_t node) {
    double *so_far = m->surplus + m->grid.cells + 1;
    while (node >= 0) {
        so_far[node] += m->surplus[node];
        if (so_far[node] < 0.5) break;
        so_far[node--] -= 1;
    }
    return node;
}

/* Those with the fewest sequences come first; the rest can adapt to them. */
static void load_slots(imitation *m, size_t pattern) {
    const sr_vectors *v = &m->grid.lp.solution.parts;
    int32_t n = 0;
    for (size_t k = v->start[pattern]; k < v->start[pattern + 1]; k++) {
        for (int32_t c = 0; c < (int32_t)v->entry[k].value; c++) {
            int32_t node = lower_node(m, v->entry[k].at);
            if (node < 0) continue;
            slot one = {node, node * m->cell, node > 1 ? m->grid.counts[node] : 0};
            int32_t at = n++;
            while (at > 0 && m->slot[at - 1].near > one.near) m->slot[at] = m->slot[at - 1], at--;
            m->slot[at] = one;
        }
    }
    m->slots = n;
}

/* Spread over (-1, 1) like a hat: its density falls linearly from 0 on both sides. */
static double spread(imitation *m) {
    double u = fmod(++m->turn * 0.6180339887498949, 1.0);
    return u < 0.5 ? sqrt(2 * u) - 1 : 1 - sqrt(2 * (1 - u));
}

/* The length in stock nearest to `want`, at most `most`; 0 if there is none. */
static int32_t nearest(const sr_stock *s, double want, int32_t most) {
    if (want > most) want = most;
    int32_t middle = want > 1 ? (int32_t)(want + 0.5) : 1;
    int32_t below = sr_stock_below(s, middle), above = sr_stock_above(s, middle);
    if (above == 0 || above > most) return below;
    if (below == 0) return above;
    return want - below <= above - want ? below : above;
}

/* The last but one: near `want`, such that a sequence of the rest of the space is in stock. */
static int32_t matching(const sr_stock *s, double want, int32_t space) {
    int32_t first = nearest(s, want, space - 1), low = first, high = first;
    for (int32_t i = 0; i < TRIES && first > 0; i++) {
        int32_t l = i % 2 == 0 ? low : high;
        if (l > 0 && l < space && s->left[space - l] > (space - l == l)) return l;
        if (i % 2 == 0 && low > 0) low = sr_stock_below(s, low - 1);
        if (i % 2 != 0 && high > 0) high = sr_stock_above(s, high + 1);
    }
    return first;
}

static void take(imitation *m, int32_t length, int32_t *space) {
    sr_stock_take(&m->stock, length, 1);
    m->parts[m->taken++] = (sr_plan_part){(uint16_t)length, 1};
    *space -= length;
}

/* Slots take turns: one is spread, the next makes up for it.  `rest` is the length of the nodes of
 * the slots left, this one included. */
static int32_t choose(imitation *m, int32_t j, int32_t space, double rest) {
    const int32_t left = m->slots - j;
    const slot *s = &m->slot[j];
    double over = space - rest; /* what this slot can be longer than its node */
    bool tight = over < m->cell;
    bool spreads = m->slots % 2 == 0 ? left % 2 == 0 : left % 2 != 0 || left == 2;
    if (left == 1 && tight) return sr_stock_below(&m->stock, space);
    double want = s->length + (spreads || !tight ? spread(m) * m->cell : over);
    if (!spreads && want > s->length + over) want = s->length + over;
    if (left == 2 && tight) return matching(&m->stock, want, space);
    return nearest(&m->stock, want, space);
}

static sr_status make_pack(imitation *m, int64_t most, int64_t *made) {
    int32_t space = m->stock.capacity;
    double rest = 0;
    m->taken = 0;
    for (int32_t j = 0; j < m->slots; j++) rest += m->slot[j].length;
    for (int32_t j = 0; j < m->slots && space > 0; j++) {
        int32_t l = choose(m, j, space, rest);
        rest -= m->slot[j].length;
        if (l > 0 && l <= space) take(m, l, &space);
    }
    *made = 1;
    if (m->taken == 0) return SR_OK;
    *made += sr_stock_repeat(&m->stock, m->parts, &m->taken, most - 1);
    return sr_build_add(&m->builder, *made, m->parts, m->taken);
}

/* ---- rounds ---- */

static sr_status make_packs(imitation *m) {
    const sr_pattern_list *list = &m->grid.lp.solution;
    double due = 0.5;
    find_surplus(m);
    for (size_t p = 0; p < list->parts.count; p++) {
        due += list->weight[p] / m->stock.capacity * SHARE;
        while (due >= 1 && m->stock.sequences > 0) {
            int64_t made, most = due < (double)m->batch ? (int64_t)due : m->batch;
            load_slots(m, p);
            SR_TRY(make_pack(m, most, &made));
            due -= (double)made;
        }
    }
    return SR_OK;
}

/* The fewer sequences are left, the less precisely. */
static sr_status solve_grid(imitation *m, const sr_pack_opts *opts, int32_t cells, int32_t round) {
    sr_grid next;
    sr_lp_limits limits = sr_grid_limits(opts, cells);
    const sr_pattern_list *start = m->grid.counts != NULL ? &m->grid.lp.solution : NULL;
    limits.gap *= 1 + round;
    if (round > 0) limits.pivots /= 4;
    SR_TRY(sr_grid_solve(&next, m->stock.left, m->stock.capacity, opts->max_seqs, cells, start,
                         &limits));
    sr_grid_free(&m->grid);
    m->grid = next;
    return SR_OK;
}

static sr_status rest_greedily(imitation *m, int32_t max_seqs) {
    sr_histogram h = {0};
    sr_plan *best = NULL, *other = NULL;
    sr_pack_opts opts = {.max_seqs = max_seqs};
    sr_status st;
    SR_GO(done, st, sr_histogram_new(&h, m->stock.capacity));
    for (int32_t l = 1; l <= h.capacity && st == SR_OK; l++)
        st = sr_histogram_add(&h, l, m->stock.left[l], SR_LONG_ERROR);
    if (st == SR_OK) st = sr_solve_bpcc(&best, &h, &opts);
    if (st == SR_OK) st = sr_solve_lpfhp(&other, &h, &opts);
    if (st == SR_OK && other->packs < best->packs) {
        sr_plan *swap = best;
        best = other, other = swap;
    }
    for (size_t i = 0; st == SR_OK && i < best->strategies; i++) {
        const sr_plan_pattern *q = &best->pattern[i];
        st = sr_build_add(&m->builder, q->count, best->part + q->first, q->parts);
    }
done:
    sr_plan_free(best);
    sr_plan_free(other);
    sr_histogram_free(&h);
    return st;
}

/* Sequences that cannot share a pack. */
static sr_status pack_alone(imitation *m) {
    for (int32_t l = m->grid.longest + 1; l <= m->stock.capacity; l++) {
        int64_t n = m->stock.left[l];
        SR_TRY(sr_build_add(&m->builder, n, &(sr_plan_part){(uint16_t)l, 1}, 1));
        if (n > 0) sr_stock_take(&m->stock, l, n);
    }
    return SR_OK;
}

static sr_status run(imitation *m, int64_t *bound, const sr_pack_opts *opts, int32_t cells) {
    for (int32_t i = 0; i < ROUNDS && m->stock.sequences > FEW; i++) {
        SR_TRY(solve_grid(m, opts, cells, i));
        if (i == 0) *bound = m->grid.bound;
        SR_TRY(pack_alone(m));
        SR_TRY(make_packs(m));
    }
    return rest_greedily(m, opts->max_seqs);
}

sr_status sr_imitate(sr_plan **out, int64_t *bound, const sr_histogram *h, const sr_pack_opts *opts,
                     int32_t cells) {
    imitation m = {.cell = (double)h->capacity / cells, .batch = 1 + h->sequences / SINGLE};
    SR_TRY(sr_build_begin(&m.builder, h, opts->max_seqs, "optimal"));
    sr_status st;
    SR_GO(done, st, sr_new(&m.slot, opts->max_seqs));
    SR_GO(done, st, sr_new(&m.surplus, 2 * (size_t)cells + 2));
    SR_GO(done, st, sr_new(&m.parts, opts->max_seqs));
    SR_GO(done, st, sr_stock_new(&m.stock, h->count, h->capacity));
    SR_GO(done, st, run(&m, bound, opts, cells));
done:
    sr_stock_free(&m.stock);
    sr_grid_free(&m.grid);
    sr_free(m.slot);
    sr_free(m.surplus);
    sr_free(m.parts);
    if (st == SR_OK) return sr_build_end(out, &m.builder);
    sr_build_drop(&m.builder);
    return st;
}

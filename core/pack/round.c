#include "core/pack/round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/pack/solvers.h"

sr_status sr_rounding_new(sr_rounding *r, const sr_histogram *h, int32_t max_seqs, int64_t target) {
    memset(r, 0, sizeof *r);
    r->capacity = h->capacity, r->max_seqs = max_seqs, r->target = target;
    r->sequences_left = h->sequences;
    r->best_packs = INT64_MAX;
    size_t spaces = (size_t)h->capacity + 1;
    sr_status st;
    SR_GO(fail, st, sr_new(&r->left, spaces));
    SR_GO(fail, st, sr_new(&r->below, spaces));
    SR_GO(fail, st, sr_pattern_list_new(&r->taken));
    SR_GO(fail, st, sr_pattern_list_new(&r->best));
    memcpy(r->left, h->count, spaces * sizeof *r->left);
    for (int32_t l = 0; l <= h->capacity; l++) r->below[l] = l;
    return SR_OK;
fail:
    sr_rounding_free(r);
    return st;
}

void sr_rounding_free(sr_rounding *r) {
    sr_free(r->left);
    sr_free(r->below);
    sr_pattern_list_free(&r->taken);
    sr_pattern_list_free(&r->best);
    memset(r, 0, sizeof *r);
}

/* ---- taking packs ---- */

/* The longest remaining length <= l, 0 for none; updates the hints. */
static int32_t longest_left(sr_rounding *r, int32_t l) {
    while (l > 0 && r->left[l] == 0) {
        int32_t next = r->below[l];
        if (next == l) next = l - 1;
        while (next > 0 && r->left[next] == 0 && r->below[next] != next) next = r->below[next];
        r->below[l] = next;
        l = next;
    }
    return l;
}

/* Fills the slots of one pack, longest first, each with the longest sequence that fits.  Leaves the
 * pattern pushed; returns its number of sequences. */
static int32_t fill_slots(sr_rounding *r, const sr_vectors *from, size_t j) {
    sr_vectors *to = &r->taken.parts;
    int32_t members = 0;
    for (size_t k = from->start[j]; k < from->start[j + 1]; k++)
        for (int32_t c = 0; c < (int32_t)from->entry[k].value; c++) {
            int32_t l = longest_left(r, from->entry[k].at);
            if (l == 0) continue;
            r->left[l]--;
            members++;
            size_t at = to->start[to->count];
            while (at < to->used && to->entry[at].at != l) at++;
            if (at < to->used)
                to->entry[at].value += 1;
            else
                sr_vectors_push(to, l, 1);
        }
    return members;
}

/* The number of further packs like the pushed one for which there are sequences. */
static int64_t repeats(const sr_rounding *r) {
    const sr_vectors *v = &r->taken.parts;
    int64_t most = INT64_MAX;
    for (size_t k = v->start[v->count]; k < v->used; k++) {
        int64_t n = r->left[v->entry[k].at] / (int64_t)v->entry[k].value;
        if (n < most) most = n;
    }
    return most;
}

/* Adds `count` packs like pattern j of `from`; fewer if sequences run out. */
static sr_status take(sr_rounding *r, const sr_vectors *from, size_t j, int64_t count) {
    while (count > 0) {
        size_t slots = 0;
        for (size_t k = from->start[j]; k < from->start[j + 1]; k++)
            slots += (size_t)from->entry[k].value;
        SR_TRY(sr_vectors_reserve(&r->taken.parts, slots));
        int32_t members = fill_slots(r, from, j);
        if (members == 0) return SR_OK;
        int64_t more = repeats(r);
        if (more > count - 1) more = count - 1;
        const sr_vectors *v = &r->taken.parts;
        for (size_t k = v->start[v->count]; k < v->used; k++)
            r->left[v->entry[k].at] -= more * (int64_t)v->entry[k].value;
        r->sequences_left -= members * (more + 1);
        r->packs += more + 1;
        SR_TRY(sr_pattern_list_close(&r->taken, (double)(more + 1)));
        count -= more + 1;
    }
    return SR_OK;
}

void sr_rounding_back(sr_rounding *r, size_t count) {
    const sr_vectors *v = &r->taken.parts;
    for (size_t j = count; j < v->count; j++) {
        int64_t packs = (int64_t)r->taken.weight[j];
        for (size_t k = v->start[j]; k < v->start[j + 1]; k++) {
            int64_t n = packs * (int64_t)v->entry[k].value;
            r->left[v->entry[k].at] += n;
            r->sequences_left += n;
        }
        r->packs -= packs;
    }
    for (int32_t l = 0; l <= r->capacity; l++) r->below[l] = l;
    sr_pattern_list_cut(&r->taken, count);
}

/* ---- complete packings ---- */

static sr_status copy_list(sr_pattern_list *to, const sr_pattern_list *from) {
    sr_pattern_list_cut(to, 0);
    for (size_t j = 0; j < from->parts.count; j++) {
        size_t first = from->parts.start[j], last = from->parts.start[j + 1];
        SR_TRY(sr_vectors_reserve(&to->parts, last - first));
        for (size_t k = first; k < last; k++)
            sr_vectors_push(&to->parts, from->parts.entry[k].at, from->parts.entry[k].value);
        SR_TRY(sr_pattern_list_close(to, from->weight[j]));
    }
    return SR_OK;
}

/* Packs the rest greedily and keeps the complete packing if it is the best so far. */
static sr_status finish_greedily(sr_rounding *r) {
    sr_histogram rest = {0};
    sr_plan *plan = NULL;
    SR_TRY(sr_histogram_new(&rest, r->capacity));
    sr_status st = SR_OK;
    for (int32_t l = 1; l <= r->capacity && st == SR_OK; l++)
        st = sr_histogram_add(&rest, l, r->left[l], SR_LONG_ERROR);
    sr_pack_opts opts = {.max_seqs = r->max_seqs};
    if (st == SR_OK) st = sr_solve_lpfhp(&plan, &rest, &opts);
    if (st == SR_OK && r->packs + plan->packs < r->best_packs) {
        st = copy_list(&r->best, &r->taken);
        if (st == SR_OK) st = sr_pattern_list_add(&r->best, plan);
        if (st == SR_OK) r->best_packs = r->packs + plan->packs;
    }
    sr_plan_free(plan);
    sr_histogram_free(&rest);
    return st;
}

/* ---- rounding ---- */

typedef struct ranked {
    double fraction;
    size_t pattern;
} ranked;

static int by_fraction(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->fraction != y->fraction) return x->fraction < y->fraction ? 1 : -1;
    return x->pattern < y->pattern ? -1 : x->pattern > y->pattern;
}

/* True if there is a remaining sequence of exactly the length of every slot of the pattern. */
static bool is_whole(const sr_rounding *r, const sr_vectors *v, size_t j) {
    for (size_t k = v->start[j]; k < v->start[j + 1]; k++)
        if (r->left[v->entry[k].at] < (int64_t)v->entry[k].value) return false;
    return true;
}

/* One step of a dive: rounds up patterns from rank `skip`, by descending fraction, while it is at
 * least `least`; at least one pattern, and at most 1 / `share` of all. */
typedef struct step {
    double least;
    int64_t share;
    size_t skip;
} step;

static sr_status round_up(sr_rounding *r, const sr_lp *lp, const step *how) {
    const sr_pattern_list *s = &lp->solution;
    ranked *rank;
    size_t n = 0;
    SR_TRY(sr_new(&rank, s->parts.count + 1));
    double mass = 0;
    for (size_t j = 0; j < s->parts.count; j++) {
        double fraction = s->weight[j] - floor(s->weight[j] + 1e-6);
        if (fraction > 1e-9) rank[n++] = (ranked){fraction, j};
        mass += fraction;
    }
    qsort(rank, n, sizeof *rank, by_fraction);
    sr_status st = SR_OK;
    int64_t most = (int64_t)(mass / (double)how->share), done = 0;
    for (size_t i = n > how->skip ? how->skip : 0; i < n && st == SR_OK; i++) {
        if (done > 0 && (done >= most || rank[i].fraction < how->least)) break;
        if (done > 0 && !is_whole(r, &s->parts, rank[i].pattern)) continue;
        int64_t before = r->packs;
        st = take(r, &s->parts, rank[i].pattern, 1);
        done += r->packs - before;
    }
    sr_free(rank);
    return st;
}

static sr_status take_whole(sr_rounding *r, const sr_lp *lp) {
    const sr_pattern_list *s = &lp->solution;
    for (size_t j = 0; j < s->parts.count; j++)
        SR_TRY(take(r, &s->parts, j, (int64_t)floor(s->weight[j] + 1e-6)));
    return SR_OK;
}

sr_status sr_rounding_floor(sr_rounding *r, const sr_lp *lp) {
    SR_TRY(take_whole(r, lp));
    return finish_greedily(r);
}

/* Solves for the rest, and takes the integer parts of the solution. */
static sr_status solve_rest(sr_rounding *r, const sr_lp *before, sr_lp *out,
                            const sr_lp_limits *limits) {
    SR_TRY(sr_lp_solve(out, r->left, r->capacity, r->max_seqs, &before->solution, limits));
    r->pivots += out->pivots;
    return SR_OK;
}

static bool out_of_time(const sr_rounding *r, const sr_lp_limits *limits) {
    if (limits->pivots > 0 && r->pivots > limits->pivots) return true;
    return limits->deadline > 0 && sr_time_monotonic() > limits->deadline;
}

/* A step that costs a pack is undone and tried again, smaller, then with other patterns; after a
 * few attempts the loss is accepted, and the dive ends if it can no longer beat the best packing.
 */
static const step trials[] = {
    {0, 3, 0}, {0, 12, 0}, {0, 100000, 0}, {0, 100000, 1}, {0, 100000, 2}};
enum { TRIALS = sizeof trials / sizeof *trials };

sr_status sr_rounding_dive(sr_rounding *r, const sr_lp *first, double least,
                           const sr_lp_limits *limits) {
    sr_lp kept = {0};
    const sr_lp *now = first;
    int64_t goal = r->target;
    sr_status st = SR_OK;
    sr_lp_limits each = {.deadline = limits->deadline, .pivots = limits->pivots};
    for (int trial = 0; st == SR_OK && !out_of_time(r, limits);) {
        size_t mark = r->taken.parts.count;
        step how = trials[trial];
        how.least = least;
        SR_GO(done, st, round_up(r, now, &how));
        SR_GO(done, st, finish_greedily(r));
        if (r->best_packs <= r->target || r->sequences_left == 0) break;
        sr_lp next = {0};
        SR_GO(done, st, solve_rest(r, now, &next, &each));
        int64_t hope = r->packs + (int64_t)ceil(next.packs - 1e-5);
        if (hope > goal && trial + 1 < TRIALS) {
            sr_lp_free(&next);
            sr_rounding_back(r, mark);
            trial++;
            continue;
        }
        sr_lp_free(&kept);
        kept = next, now = &kept;
        if (hope > goal) goal = hope;
        if (goal >= r->best_packs) break;
        SR_GO(done, st, take_whole(r, now));
        SR_GO(done, st, finish_greedily(r));
        trial = 0;
    }
done:
    sr_lp_free(&kept);
    return st;
}

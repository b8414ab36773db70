#include "core/pack/repair.h"

#include "core/base/mem.h"
#include "core/pack/build.h"
#include "core/pack/imitate.h"

enum {
    MANY = 10,  /* not repaired if more than one pack in this many is not full */
    HELPERS = 2 /* full packs that help one that is not */
};

static bool is_full(const sr_plan *p, size_t i) {
    const sr_plan_pattern *q = &p->pattern[i];
    int64_t tokens = 0;
    for (uint32_t k = 0; k < q->parts; k++)
        tokens += (int64_t)p->part[q->first + k].length * p->part[q->first + k].copies;
    return tokens == p->capacity;
}

/* loose[i]: packs of pattern i that are to be packed again: all that are not full, and helpers from
 * all over the plan.  Returns false if they would be too many, or none. */
static bool choose_loose(int64_t *loose, const sr_plan *p) {
    int64_t open = 0, due = 0;
    for (size_t i = 0; i < p->strategies; i++) {
        loose[i] = is_full(p, i) ? 0 : p->pattern[i].count;
        open += loose[i];
    }
    if (open == 0 || open > p->packs / MANY) return false;
    for (size_t i = 0; i < p->strategies; i++) {
        if (loose[i] > 0) continue;
        due += p->pattern[i].count * HELPERS;
        int64_t n = due / (p->packs / open);
        loose[i] = n < p->pattern[i].count ? n : p->pattern[i].count;
        due -= n * (p->packs / open);
    }
    return true;
}

static sr_status count_loose(sr_histogram *h, const sr_plan *p, const int64_t *loose) {
    SR_TRY(sr_histogram_new(h, p->capacity));
    for (size_t i = 0; i < p->strategies; i++) {
        const sr_plan_pattern *q = &p->pattern[i];
        for (uint32_t k = 0; k < q->parts && loose[i] > 0; k++) {
            const sr_plan_part *part = &p->part[q->first + k];
            SR_TRY(sr_histogram_add(h, part->length, loose[i] * part->copies, SR_LONG_ERROR));
        }
    }
    return SR_OK;
}

static sr_status add_patterns(sr_builder *b, const sr_plan *p, const int64_t *loose) {
    for (size_t i = 0; i < p->strategies; i++) {
        const sr_plan_pattern *q = &p->pattern[i];
        int64_t n = q->count - (loose != NULL ? loose[i] : 0);
        SR_TRY(sr_build_add(b, n, p->part + q->first, q->parts));
    }
    return SR_OK;
}

static sr_status combine(sr_plan **plan, const sr_plan *again, const int64_t *loose) {
    sr_builder b;
    sr_plan *out = NULL, *p = *plan;
    SR_TRY(sr_build_begin(&b, &p->histogram, p->max_seqs, p->solver));
    sr_status st = add_patterns(&b, p, loose);
    if (st == SR_OK) st = add_patterns(&b, again, NULL);
    if (st == SR_OK) st = sr_build_end(&out, &b);
    if (st != SR_OK) {
        sr_build_drop(&b);
        return st;
    }
    sr_plan_free(p);
    *plan = out;
    return SR_OK;
}

sr_status sr_repair(sr_plan **plan, const sr_pack_opts *opts, int32_t cells) {
    int64_t *loose, packs = 0, bound;
    sr_histogram h = {0};
    sr_plan *again = NULL;
    SR_TRY(sr_new(&loose, (*plan)->strategies));
    sr_status st = SR_OK;
    if (!choose_loose(loose, *plan)) goto done;
    for (size_t i = 0; i < (*plan)->strategies; i++) packs += loose[i];
    SR_GO(done, st, count_loose(&h, *plan, loose));
    SR_GO(done, st, sr_imitate(&again, &bound, &h, opts, cells));
    if (again->packs < packs) st = combine(plan, again, loose);
done:
    sr_plan_free(again);
    sr_histogram_free(&h);
    sr_free(loose);
    return st;
}

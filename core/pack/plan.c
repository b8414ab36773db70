#include "core/pack/plan.h"

#include <inttypes.h>

#include "core/base/mem.h"

sr_plan *sr_plan_retain(sr_plan *plan) {
    __atomic_add_fetch(&plan->shared, 1, __ATOMIC_RELAXED);
    return plan;
}

void sr_plan_free(sr_plan *plan) {
    if (plan == NULL || __atomic_fetch_sub(&plan->shared, 1, __ATOMIC_ACQ_REL) > 0) return;
    sr_histogram_free(&plan->histogram);
    sr_free(plan->pattern);
    sr_free(plan->part);
    sr_free(plan);
}

double sr_plan_efficiency(const sr_plan *plan) {
    if (plan->packs == 0) return 1.0;
    return (double)plan->histogram.tokens / ((double)plan->packs * plan->capacity);
}

double sr_plan_factor(const sr_plan *plan) {
    if (plan->packs == 0) return 1.0;
    return (double)plan->histogram.sequences / (double)plan->packs;
}

int64_t sr_plan_padding(const sr_plan *plan) {
    return plan->packs * plan->capacity - plan->histogram.tokens;
}

int64_t sr_plan_gap(const sr_plan *plan) {
    return plan->packs - plan->bound.packs;
}

const char *sr_bound_name(sr_bound_kind kind) {
    static const char *const names[] = {"tokens", "count", "l2", "lp"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

void sr_plan_sum(sr_plan *plan) {
    uint64_t packs = 0, slots = 0;
    plan->deepest = 0;
    for (size_t i = 0; i < plan->strategies; i++) {
        const sr_plan_pattern *q = &plan->pattern[i];
        uint32_t depth = 0;
        for (uint32_t k = 0; k < q->parts; k++) depth += plan->part[q->first + k].copies;
        packs += (uint64_t)q->count;
        slots += (uint64_t)q->count * depth;
        if (depth > (uint32_t)plan->deepest) plan->deepest = (int32_t)(depth & INT32_MAX);
    }
    plan->packs = (int64_t)packs;
    plan->unfilled = (int64_t)(slots - (uint64_t)plan->histogram.sequences);
}

/* Checks a pattern: lengths descending, within capacity and depth; adds its slots to slots[length].
 */
static sr_status check_pattern(int64_t *slots, const sr_plan *p, size_t i) {
    const sr_plan_pattern *q = &p->pattern[i];
    int64_t tokens = 0, depth = 0, before = p->capacity + 1;
    if (q->count < 1 || q->parts < 1)
        return sr_fail(SR_EDATA, "pattern %zu is empty or unused", i + 1);
    for (uint32_t k = 0; k < q->parts; k++) {
        sr_plan_part part = p->part[q->first + k];
        int64_t more;
        if (part.length < 1 || part.length >= before || part.copies < 1)
            return sr_fail(SR_EDATA, "pattern %zu: the lengths are not in descending order", i + 1);
        if (__builtin_mul_overflow(q->count, (int64_t)part.copies, &more) ||
            __builtin_add_overflow(slots[part.length], more, &slots[part.length]))
            return sr_fail(SR_EDATA, "pattern %zu: integer overflow in its slots", i + 1);
        tokens += (int64_t)part.length * part.copies;
        depth += part.copies;
        before = part.length;
    }
    if (tokens > p->capacity)
        return sr_fail(SR_EDATA, "pattern %zu has %" PRId64 " tokens; the capacity is %d", i + 1,
                       tokens, p->capacity);
    if (p->max_seqs > 0 && depth > p->max_seqs)
        return sr_fail(SR_EDATA, "pattern %zu has %" PRId64 " sequences; the maximum is %d", i + 1,
                       depth, p->max_seqs);
    return SR_OK;
}

static sr_status check_cover(const int64_t *slots, const sr_plan *p) {
    int64_t unfilled = 0;
    for (int32_t l = 1; l <= p->capacity; l++) {
        int64_t spare = slots[l] - p->histogram.count[l];
        if (spare < 0)
            return sr_fail(SR_EDATA, "%" PRId64 " sequence%s of %d tokens %s not in any pack",
                           -spare, spare == -1 ? "" : "s", l, spare == -1 ? "is" : "are");
        if (__builtin_add_overflow(unfilled, spare, &unfilled))
            return sr_fail(SR_EDATA, "integer overflow in the unfilled slots");
    }
    if (unfilled != p->unfilled)
        return sr_fail(SR_EDATA, "%" PRId64 " slots are unfilled, not %" PRId64, unfilled,
                       p->unfilled);
    return SR_OK;
}

static sr_status check_sums(const sr_plan *p) {
    int64_t packs = 0, slots;
    for (size_t i = 0; i < p->strategies; i++)
        if (__builtin_add_overflow(packs, p->pattern[i].count, &packs))
            return sr_fail(SR_EDATA, "integer overflow in the packs");
    if (packs != p->packs || __builtin_mul_overflow(packs, (int64_t)p->capacity, &slots))
        return sr_fail(SR_EDATA, "the patterns have %" PRId64 " packs, not %" PRId64, packs,
                       p->packs);
    if (p->bound.packs > packs)
        return sr_fail(SR_EDATA, "a lower bound of %" PRId64 " for %" PRId64 " packs",
                       p->bound.packs, packs);
    return SR_OK;
}

sr_status sr_plan_check(const sr_plan *plan) {
    int64_t *slots;
    SR_TRY(sr_new(&slots, plan->capacity + 1));
    sr_status st = SR_OK;
    for (size_t i = 0; i < plan->strategies && st == SR_OK; i++) st = check_pattern(slots, plan, i);
    if (st == SR_OK) st = check_cover(slots, plan);
    if (st == SR_OK) st = check_sums(plan);
    sr_free(slots);
    return st;
}

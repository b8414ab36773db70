#include "core/pack/build.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/pack/bounds.h"

sr_status sr_build_begin(sr_builder *b, const sr_histogram *hist, int32_t max_seqs,
                         const char *solver) {
    memset(b, 0, sizeof *b);
    b->began = sr_time_monotonic();
    SR_TRY(sr_new(&b->plan, 1));
    sr_plan *p = b->plan;
    sr_status st;
    SR_GO(fail, st, sr_histogram_copy(&p->histogram, hist));
    b->pattern_room = 1024, b->part_room = 4096, b->table_size = 4096;
    SR_GO(fail, st, sr_new(&p->pattern, b->pattern_room));
    SR_GO(fail, st, sr_new(&p->part, b->part_room));
    SR_GO(fail, st, sr_new(&b->table, b->table_size));
    p->capacity = hist->capacity;
    p->max_seqs = max_seqs;
    snprintf(p->solver, sizeof p->solver, "%s", solver);
    return SR_OK;
fail:
    sr_build_drop(b);
    return st;
}

void sr_build_drop(sr_builder *b) {
    sr_plan_free(b->plan);
    sr_free(b->table);
    sr_free(b->scratch);
    memset(b, 0, sizeof *b);
}

static uint64_t hash_parts(const sr_plan_part *part, size_t n) {
    uint64_t h = n;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ ((uint64_t)part[i].length << 16 | part[i].copies)) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

/* The slot of this pattern in the table, or the empty slot where it would be inserted. */
static size_t find_slot(const sr_builder *b, const sr_plan_part *part, size_t n) {
    const sr_plan *p = b->plan;
    size_t mask = b->table_size - 1, at = hash_parts(part, n) & mask;
    for (; b->table[at] != 0; at = (at + 1) & mask) {
        const sr_plan_pattern *q = &p->pattern[b->table[at] - 1];
        if (q->parts == n && memcmp(p->part + q->first, part, n * sizeof *part) == 0) break;
    }
    return at;
}

static sr_status grow_table(sr_builder *b) {
    uint32_t *wider, *old = b->table;
    SR_TRY(sr_new(&wider, b->table_size * 2));
    b->table = wider;
    b->table_size *= 2;
    const sr_plan *p = b->plan;
    for (size_t i = 0; i < p->strategies; i++) {
        const sr_plan_pattern *q = &p->pattern[i];
        b->table[find_slot(b, p->part + q->first, q->parts)] = (uint32_t)i + 1;
    }
    sr_free(old);
    return SR_OK;
}

/* Reserves one more pattern of n parts. */
static sr_status make_room(sr_builder *b, size_t n) {
    sr_plan *p = b->plan;
    if (p->strategies == b->pattern_room) {
        SR_TRY(sr_grow(&p->pattern, b->pattern_room * 2));
        b->pattern_room *= 2;
    }
    if (p->parts + n > UINT32_MAX || p->strategies + 1 >= UINT32_MAX)
        return sr_fail(SR_ENOMEM,
                       "pack: the plan has too many different patterns; the maximum is 2^32");
    while (p->parts + n > b->part_room) {
        SR_TRY(sr_grow(&p->part, b->part_room * 2));
        b->part_room *= 2;
    }
    return b->table_size < 2 * (p->strategies + 1) ? grow_table(b) : SR_OK;
}

/* scratch = the parts by descending length, equal ones merged; returns their number. */
static sr_status canonical(sr_builder *b, const sr_plan_part *parts, size_t n, size_t *out) {
    if (n > b->scratch_room) {
        size_t room = n < 64 ? 64 : n * 2;
        SR_TRY(sr_grow(&b->scratch, room));
        b->scratch_room = room;
    }
    size_t m = 0;
    for (size_t i = 0; i < n; i++) { /* insertion sort: short and nearly sorted */
        size_t at = m;
        while (at > 0 && b->scratch[at - 1].length < parts[i].length) at--;
        if (at > 0 && b->scratch[at - 1].length == parts[i].length) {
            b->scratch[at - 1].copies += parts[i].copies;
            continue;
        }
        memmove(b->scratch + at + 1, b->scratch + at, (m - at) * sizeof *parts);
        b->scratch[at] = parts[i];
        m++;
    }
    *out = m;
    return SR_OK;
}

sr_status sr_build_add(sr_builder *b, int64_t count, const sr_plan_part *parts, size_t n) {
    if (count == 0) return SR_OK;
    SR_TRY(canonical(b, parts, n, &n));
    SR_TRY(make_room(b, n));
    sr_plan *p = b->plan;
    size_t slot = find_slot(b, b->scratch, n);
    if (b->table[slot] != 0) {
        int64_t *packs = &p->pattern[b->table[slot] - 1].count;
        if (__builtin_add_overflow(*packs, count, packs))
            return sr_fail(SR_EDATA, "pack: integer overflow in the packs of a pattern");
        return SR_OK;
    }
    p->pattern[p->strategies] = (sr_plan_pattern){count, (uint32_t)p->parts, (uint32_t)n};
    memcpy(p->part + p->parts, b->scratch, n * sizeof *parts);
    p->parts += n;
    p->strategies++;
    b->table[slot] = (uint32_t)p->strategies;
    return SR_OK;
}

sr_status sr_build_end(sr_plan **out, sr_builder *b) {
    sr_plan *p = b->plan;
    sr_plan_sum(p);
    p->bound = sr_bound_cheap(&p->histogram, p->max_seqs);
    p->milliseconds = (sr_time_monotonic() - b->began) * 1e3;
    sr_status st = sr_plan_check(p);
    if (st == SR_EDATA) {
        char why[512];
        snprintf(why, sizeof why, "%s", sr_message());
        st = sr_fail(SR_EINTERNAL, "pack: solver %s returned an invalid plan: %s", p->solver, why);
    } else if (st == SR_OK) {
        *out = p;
        b->plan = NULL;
    }
    sr_build_drop(b);
    return st;
}

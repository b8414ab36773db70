#include "core/pack/groups.h"

#include <string.h>

#include "core/base/mem.h"

enum { SUMMARY_WORDS = (SR_MAX_LENGTH + 1) / 64 / 64 };

sr_status sr_groups_new(sr_groups *g, int32_t capacity, int32_t max_seqs, bool queue) {
    memset(g, 0, sizeof *g);
    g->capacity = capacity;
    g->max_seqs = max_seqs > 0 ? max_seqs : capacity;
    g->queue = queue;
    g->room = 2048;
    size_t spaces = (size_t)capacity + 1;
    sr_status st;
    SR_GO(fail, st, sr_new(&g->group, g->room));
    SR_GO(fail, st, sr_new(&g->head, spaces));
    SR_GO(fail, st, sr_new(&g->tail, spaces));
    SR_GO(fail, st, sr_new(&g->bit, spaces / 64 + 1));
    SR_GO(fail, st, sr_new(&g->summary, SUMMARY_WORDS + 1));
    memset(g->head, -1, spaces * sizeof *g->head);
    return SR_OK;
fail:
    sr_groups_free(g);
    return st;
}

void sr_groups_free(sr_groups *g) {
    sr_free(g->group);
    sr_free(g->head);
    sr_free(g->tail);
    sr_free(g->bit);
    sr_free(g->summary);
    memset(g, 0, sizeof *g);
}

int32_t sr_groups_above(const sr_groups *g, int32_t space) {
    if (space > g->capacity) return -1;
    int32_t word = space >> 6;
    uint64_t here = g->bit[word] & ~(uint64_t)0 << (space & 63);
    if (here != 0) return (word << 6) + __builtin_ctzll(here);
    for (int32_t w = word + 1, s = w >> 6; s <= SUMMARY_WORDS; w = ++s << 6) {
        uint64_t some = g->summary[s] & ~(uint64_t)0 << (w & 63);
        if (some == 0) continue;
        word = (s << 6) + __builtin_ctzll(some);
        return (word << 6) + __builtin_ctzll(g->bit[word]);
    }
    return -1;
}

int32_t sr_groups_below(const sr_groups *g, int32_t space) {
    if (space < 0) return -1;
    int32_t word = space >> 6;
    uint64_t here = g->bit[word] & ~(uint64_t)0 >> (63 - (space & 63));
    if (here != 0) return (word << 6) + 63 - __builtin_clzll(here);
    for (int32_t w = word - 1, s = w >> 6; w >= 0; w = (s-- << 6) - 1) {
        uint64_t some = g->summary[s] & ~(uint64_t)0 >> (63 - (w & 63));
        if (some == 0) continue;
        word = (s << 6) + 63 - __builtin_clzll(some);
        return (word << 6) + 63 - __builtin_clzll(g->bit[word]);
    }
    return -1;
}

static void unlink_head(sr_groups *g, int32_t space) {
    g->head[space] = g->group[g->head[space]].next;
    if (g->head[space] >= 0) return;
    g->bit[space >> 6] &= ~((uint64_t)1 << (space & 63));
    if (g->bit[space >> 6] == 0) g->summary[space >> 12] &= ~((uint64_t)1 << (space >> 6 & 63));
}

static void link_group(sr_groups *g, int32_t space, int32_t i) {
    bool empty = g->head[space] < 0;
    g->group[i].next = -1;
    if (empty) {
        g->head[space] = g->tail[space] = i;
        g->bit[space >> 6] |= (uint64_t)1 << (space & 63);
        g->summary[space >> 12] |= (uint64_t)1 << (space >> 6 & 63);
    } else if (g->queue) {
        g->group[g->tail[space]].next = i;
        g->tail[space] = i;
    } else {
        g->group[i].next = g->head[space];
        g->head[space] = i;
    }
}

sr_status sr_groups_place(sr_groups *g, int32_t space, int64_t count, int32_t length,
                          int32_t copies) {
    if (g->used == g->room) {
        SR_TRY(sr_grow(&g->group, (size_t)g->room * 2));
        g->room *= 2;
    }
    int32_t parent = -1, members = copies, left = g->capacity;
    if (space >= 0) {
        parent = g->head[space];
        members += g->group[parent].members;
        left = space;
        g->group[parent].count -= count;
        if (g->group[parent].count == 0) unlink_head(g, space);
    }
    int32_t i = g->used++;
    left -= copies * length;
    g->group[i] = (sr_group){count, parent, -1, members, (uint16_t)length, (uint16_t)copies};
    if (left > 0 && members < g->max_seqs) link_group(g, left, i);
    return SR_OK;
}

sr_status sr_groups_build(sr_builder *b, const sr_groups *g) {
    sr_plan_part *parts;
    SR_TRY(sr_new(&parts, g->capacity));
    sr_status st = SR_OK;
    for (int32_t i = 0; i < g->used && st == SR_OK; i++) {
        size_t n = 0;
        for (int32_t k = i; k >= 0; k = g->group[k].parent)
            parts[n++] = (sr_plan_part){g->group[k].length, g->group[k].copies};
        for (size_t a = 0, z = n; a + 1 < z; a++) { /* the chain starts with the shortest */
            sr_plan_part swap = parts[a];
            parts[a] = parts[--z];
            parts[z] = swap;
        }
        st = sr_build_add(b, g->group[i].count, parts, n);
    }
    sr_free(parts);
    return st;
}

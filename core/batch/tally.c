#include "core/batch/tally.h"

#include "core/base/mem.h"

/* Buffers for one sequence of at most `longest` tokens. */
typedef struct desk {
    int32_t *ids; /* and types, and scratch */
    int32_t *rows, *labels;
    int32_t longest;
} desk;

static sr_status clear_desk(desk *k, const sr_collators *all, const sr_pick *pick, int64_t n) {
    int64_t rows = 0, labels = 0;
    k->longest = 1;
    for (int64_t i = 0; i < n; i++) {
        int32_t len = sr_pick_length(&pick[i]);
        if (len > k->longest) k->longest = len;
    }
    for (int c = 0; c < all->count; c++) {
        const sr_collator *one = &all->collator[c];
        int64_t items = one->kind->measure(one, k->longest);
        if (items * 2 > rows) rows = items * 2;
        if (items * one->columns > labels) labels = items * one->columns;
    }
    SR_TRY(sr_new(&k->ids, (size_t)k->longest * 3));
    SR_TRY(sr_new(&k->rows, rows));
    return sr_new(&k->labels, labels);
}

/* The items of one target; the tokens are read once, when a collator needs them. */
static sr_status count_items(int64_t *items, bool *read, const desk *k, const sr_collator *c,
                             const sr_site *site) {
    *items = c->kind->count != NULL ? c->kind->count(c, site) : -1;
    if (*items >= 0) return SR_OK;
    if (c->kind->tokens && !*read)
        SR_TRY(sr_example_sequence(&site->example, site->data, site->ids, k->ids + k->longest));
    *read |= c->kind->tokens;
    sr_target t = {.name = c->name,
                   .reads = c->reads,
                   .type = c->type,
                   .columns = c->columns,
                   .rows = k->rows,
                   .labels = k->labels};
    SR_TRY(c->kind->fill(&t, c, site));
    *items = t.count;
    return SR_OK;
}

static sr_status count_sequence(sr_tally *tally, int64_t *masked, const desk *k,
                                const sr_collators *all, const sr_site *site) {
    bool read = false;
    for (int c = 0; c < all->count; c++) {
        int64_t items;
        if (all->collator[c].kind->late) continue;
        SR_TRY(count_items(&items, &read, k, &all->collator[c], site));
        tally[c].items += items;
        tally[c].sequences += items > 0;
        if (all->collator[c].masks) *masked += items;
    }
    return SR_OK;
}

sr_status sr_tally_add(sr_tally *tally, int64_t *masked, const sr_dataset *d,
                       const sr_collators *collators, const sr_pick *pick, int64_t n) {
    desk k = {0};
    sr_status st = clear_desk(&k, collators, pick, n);
    for (int64_t i = 0; st == SR_OK && i < n; i++) {
        sr_site site = {.data = d,
                        .examples = pick[i].examples,
                        .example = sr_pick_example(&pick[i]),
                        .uid = pick[i].uid,
                        .epoch = pick[i].epoch,
                        .mask = pick[i].mask,
                        .len = sr_pick_length(&pick[i]),
                        .ids = k.ids,
                        .scratch = k.ids + 2 * (int64_t)k.longest};
        st = count_sequence(tally, masked, &k, collators, &site);
    }
    sr_free(k.ids);
    sr_free(k.rows);
    sr_free(k.labels);
    return st;
}

/* collate_tokens.c - every token of a sequence and its id, as it is before later collators change
 * it.
 */
#include "core/batch/collate.h"

static sr_status tokens_open(sr_collator *c, const sr_dataset *d, const sr_target_opts *opts) {
    (void)d;
    (void)opts;
    c->reads = SR_READS_ROWS;
    c->type = SR_LABEL_I32;
    c->columns = 1;
    return SR_OK;
}

static int64_t tokens_measure(const sr_collator *c, int32_t len) {
    (void)c;
    return len;
}

static int64_t tokens_count(const sr_collator *c, const sr_site *s) {
    (void)c;
    return s->len;
}

static sr_status tokens_fill(sr_target *t, const sr_collator *c, const sr_site *s) {
    (void)c;
    for (int32_t i = 0; i < s->len; i++) {
        t->rows[t->count] = s->start + i;
        ((int32_t *)t->labels)[t->count++] = s->ids[i];
    }
    return SR_OK;
}

const sr_collator_kind sr_collate_tokens = {.name = "tokens",
                                            .open = tokens_open,
                                            .measure = tokens_measure,
                                            .fill = tokens_fill,
                                            .count = tokens_count,
                                            .tokens = true};

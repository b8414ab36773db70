/* collate_mlm.c - masked tokens and their original ids. */
#include "core/batch/collate.h"

static sr_status mlm_open(sr_collator *c, const sr_dataset *d, const sr_target_opts *opts) {
    (void)d;
    (void)opts;
    c->reads = SR_READS_ROWS;
    c->type = SR_LABEL_I32;
    c->columns = 1;
    c->masks = true;
    return sr_masker_check(c->masker);
}

static int64_t mlm_measure(const sr_collator *c, int32_t len) {
    return sr_mask_limit(c->masker, len);
}

/* The masker of this sequence: items are measured with the collator's, whose fraction is the
 * largest. */
static sr_masker masker_of(const sr_collator *c, const sr_site *s) {
    sr_masker m = *c->masker;
    if (s->mask > 0) m.prob = s->mask;
    return m;
}

/* Text holds neither [CLS] nor [SEP] (prepare never writes them), so lengths decide; the tokens of
 * fixed examples and whole words must be read. */
static int64_t mlm_count(const sr_collator *c, const sr_site *s) {
    if (c->masker->whole_word || s->data->kind != SR_DATA_TEXT) return -1;
    int64_t most = (int64_t)s->example.a_tokens + s->example.b_tokens;
    sr_masker m = masker_of(c, s);
    int64_t limit = sr_mask_limit(&m, s->len);
    return limit < most ? limit : most;
}

static sr_status mlm_fill(sr_target *t, const sr_collator *c, const sr_site *s) {
    int32_t *rows = t->rows + t->count, n = 0;
    sr_masker m = masker_of(c, s);
    sr_mask_draw(rows, (int32_t *)t->labels + t->count, &n, s->ids, s->len, s->uid, s->epoch, &m,
                 s->scratch);
    for (int32_t k = 0; k < n; k++) rows[k] += s->start;
    t->count += n;
    return SR_OK;
}

const sr_collator_kind sr_collate_mlm = {.name = "mlm",
                                         .open = mlm_open,
                                         .measure = mlm_measure,
                                         .fill = mlm_fill,
                                         .count = mlm_count,
                                         .tokens = true};

/* collate_mlm.c - masked tokens and their original ids.
 *
 * Where a share of the sequences is causal, the others are masked and predicted as causal models
 * predict, from the token before (Charpentier and Samuel 2024, arXiv:2410.24159).
 */
#include <string.h>

#include "core/batch/collate.h"

static sr_status mlm_open(sr_collator *c, const sr_dataset *d, const sr_target_opts *opts) {
    (void)d;
    c->fixed = opts->fixed;
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
    if (c->causal > 0 && sr_site_is_causal(c, s)) return 0;
    if (c->causal > 0 && s->example.lead == 0) return -1; /* the first token may be masked */
    if (c->masker->whole_word || s->data->kind != SR_DATA_TEXT) return -1;
    int64_t most = (int64_t)s->example.a_tokens + s->example.b_tokens;
    sr_masker m = masker_of(c, s);
    int64_t limit = sr_mask_limit(&m, s->len);
    return limit < most ? limit : most;
}

/* Which tokens of a sequence continue a word, from the data set. */
static sr_status read_words(const uint8_t **out, const sr_site *s) {
    const sr_example *e = &s->example;
    uint8_t *goes_on = s->flags;
    memset(goes_on, 0, (size_t)s->len);
    SR_TRY(sr_dataset_goes_on(s->data, goes_on + sr_example_a_at(e), sr_example_a(e), e->a_tokens));
    if (e->b_tokens > 0)
        SR_TRY(sr_dataset_goes_on(s->data, goes_on + sr_example_b_at(e), sr_example_b(e),
                                  e->b_tokens));
    *out = goes_on;
    return SR_OK;
}

/* Items of the rows before the masked ones; the first has no predecessor and stays.
 * Returns their number. */
static int32_t shift(int32_t *rows, int32_t *labels, int32_t n, int32_t *ids) {
    int32_t first = n > 0 && rows[0] == 0;
    if (first) ids[0] = labels[0];
    for (int32_t k = first; k < n; k++) {
        rows[k - first] = rows[k] - 1;
        labels[k - first] = labels[k];
    }
    return n - first;
}

static sr_status mlm_fill(sr_target *t, const sr_collator *c, const sr_site *s) {
    if (c->causal > 0 && sr_site_is_causal(c, s)) return SR_OK;
    int32_t *rows = t->rows + t->count, *labels = (int32_t *)t->labels + t->count, n = 0;
    sr_masker m = masker_of(c, s);
    const uint8_t *goes_on = NULL;
    bool concepts = m.concepts.table != NULL && s->stage > 0;
    if ((m.whole_word || concepts) && m.by_place) SR_TRY(read_words(&goes_on, s));
    uint32_t epoch = c->fixed ? 0 : s->epoch;
    sr_mask_draw_concepts(rows, labels, &n, s->ids, s->len, goes_on, s->uid, epoch, &m, s->stage,
                          s->scratch, concepts ? s->roles : NULL);
    if (c->causal > 0) n = shift(rows, labels, n, s->ids);
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

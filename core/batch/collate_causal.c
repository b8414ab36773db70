/* collate_causal.c - each token is predicted from those before it in its sequence.
 *
 * A share of the sequences may be causal; the others are masked (collate_mlm.c).  Texts may be
 * rearranged for fill-in-the-middle (fim.h); special tokens around them stay where they are.
 */
#include <inttypes.h>

#include "core/base/rng.h"
#include "core/batch/collate.h"

bool sr_site_is_causal(const sr_collator *c, const sr_site *s) {
    if (c->causal <= 0 || c->causal >= 1) return c->causal >= 1;
    sr_u32x4 r = sr_philox(sr_counter(0, 0, s->uid, SR_PURPOSE_OBJECTIVE, 0, 0, s->epoch),
                           c->masker->seed, SR_ROUNDS_DATA);
    return sr_unit(r.w[0]) < c->causal;
}

static sr_status causal_open(sr_collator *c, const sr_dataset *d, const sr_target_opts *opts) {
    c->reads = SR_READS_ROWS;
    c->type = SR_LABEL_I32;
    c->columns = 1;
    if (!(c->causal >= 0 && c->causal <= 1))
        return sr_fail(SR_EINVAL, "target '%s': causal is %g; it is a fraction of the sequences",
                       c->name, c->causal);
    if (c->causal == 0) c->causal = 1;
    c->fim = opts->fim;
    return sr_fim_check(&c->fim, d->tokenizer);
}

static int64_t causal_measure(const sr_collator *c, int32_t len) {
    (void)c;
    return len > 1 ? len - 1 : 0;
}

static int64_t causal_count(const sr_collator *c, const sr_site *s) {
    return sr_site_is_causal(c, s) ? causal_measure(c, s->len) : 0;
}

static sr_status rearrange(const sr_collator *c, const sr_site *s) {
    const sr_example *e = &s->example;
    if (c->fim.rate <= 0) return SR_OK;
    if (e->b_tokens > 0)
        return sr_fail(SR_EDATA,
                       "target '%s': example %" PRIu32
                       " is a pair of texts; fill-in-the-middle rearranges single ones, so set "
                       "fim.rate=0, or prepare the data without pairs",
                       c->name, s->uid);
    return sr_fim_apply(&c->fim, s->ids + sr_example_a_at(e), e->a_tokens, s->data->tokenizer,
                        c->masker->seed, s->uid, s->epoch, s->scratch);
}

static sr_status causal_fill(sr_target *t, const sr_collator *c, const sr_site *s) {
    if (!sr_site_is_causal(c, s)) return SR_OK;
    SR_TRY(rearrange(c, s));
    int32_t *labels = (int32_t *)t->labels;
    for (int32_t i = 0; i + 1 < s->len; i++) {
        t->rows[t->count] = s->start + i;
        labels[t->count++] = s->ids[i + 1];
    }
    return SR_OK;
}

const sr_collator_kind sr_collate_causal = {.name = "causal",
                                            .open = causal_open,
                                            .measure = causal_measure,
                                            .fill = causal_fill,
                                            .count = causal_count,
                                            .tokens = true};

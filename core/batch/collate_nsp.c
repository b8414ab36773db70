/* collate_nsp.c - next-sentence labels: does B follow A? */
#include "core/batch/collate.h"

static sr_status nsp_open(sr_collator *c, const sr_dataset *d, const sr_target_opts *opts) {
    (void)opts;
    c->reads = SR_READS_SEQUENCES;
    c->type = SR_LABEL_I32;
    c->columns = 1;
    if (d->kind == SR_DATA_TEXT) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "target '%s': next-sentence pairs require text; %s has fixed examples", c->name,
                   sr_shard_path(d->shard));
}

static int64_t nsp_measure(const sr_collator *c, int32_t len) {
    (void)c;
    (void)len;
    return 1;
}

static sr_status nsp_fill(sr_target *t, const sr_collator *c, const sr_site *s) {
    if (!s->examples->nsp)
        return sr_fail(SR_EINVAL, "target '%s' needs pairs of segments; set nsp: true", c->name);
    t->rows[t->count] = s->start;
    ((int32_t *)t->labels)[t->count++] = s->example.flags & SR_EXAMPLE_RANDOM;
    return SR_OK;
}

const sr_collator_kind sr_collate_nsp = {
    .name = "nsp", .open = nsp_open, .measure = nsp_measure, .fill = nsp_fill};

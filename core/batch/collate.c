#include "core/batch/collate.h"

#include <string.h>

#include "core/base/mem.h"

/* ---- nsp: does B follow A? ---- */

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

static const sr_collator_kind nsp = {
    .name = "nsp", .open = nsp_open, .measure = nsp_measure, .fill = nsp_fill};

/* ---- deferred: made outside, when the update is delivered ---- */

static sr_status deferred_open(sr_collator *c, const sr_dataset *d, const sr_target_opts *o) {
    (void)d;
    bool real = o->type != NULL && strcmp(o->type, "f32") == 0;
    if (!real && o->type != NULL && strcmp(o->type, "i32") != 0)
        return sr_fail(SR_EINVAL, "target '%s': type '%s' must be i32 or f32", c->name, o->type);
    c->type = real ? SR_LABEL_F32 : SR_LABEL_I32;
    c->columns = o->columns > 0 ? o->columns : 1;
    if (c->reads != SR_READS_SPANS) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "target '%s': spans come from a column; a function makes rows or "
                   "sequences",
                   c->name);
}

static int64_t deferred_measure(const sr_collator *c, int32_t len) {
    (void)c;
    (void)len;
    return 0;
}

static const sr_collator_kind deferred = {
    .name = "deferred", .open = deferred_open, .measure = deferred_measure, .deferred = true};

/* ---- all collators ---- */

static const sr_collator_kind *const kinds[] = {
    &sr_collate_mlm, &sr_collate_causal, &sr_collate_tokens, &nsp, &sr_collate_column, &deferred};

static sr_status find_kind(const sr_collator_kind **out, const sr_target_opts *o) {
    const char *name = o->kind != NULL ? o->kind : "column";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        *out = kinds[i];
        if (strcmp(kinds[i]->name, name) == 0) return SR_OK;
    }
    return sr_fail(SR_EINVAL,
                   "target '%s': unknown kind '%s'; choose mlm, causal, tokens, nsp or column",
                   o->name, name);
}

static sr_status read_reads(sr_collator *c, const char *reads) {
    static const char *const names[] = {"rows", "sequences", "spans"};
    c->reads = SR_READS_SEQUENCES;
    for (int i = 0; reads != NULL && i < 3; i++) {
        if (strcmp(reads, names[i]) != 0) continue;
        c->reads = (sr_reads)i;
        return SR_OK;
    }
    if (reads == NULL) return SR_OK;
    return sr_fail(SR_EINVAL, "target '%s': reads '%s' must be rows, sequences or spans", c->name,
                   reads);
}

/* The second would mask, and predict, the tokens that the first has replaced. */
static sr_status check_masks(const sr_collators *all, const sr_collator *c) {
    for (int i = 0; i < all->count; i++)
        if (c->masks && all->collator[i].masks)
            return sr_fail(SR_EINVAL, "targets '%s' and '%s' both mask tokens; keep one of them",
                           all->collator[i].name, c->name);
    return SR_OK;
}

static sr_status add(sr_collators *all, const sr_dataset *d, const sr_masker *masker,
                     const sr_target_opts *o) {
    size_t size = o->name != NULL ? strlen(o->name) : 0;
    if (size < 1 || size > SR_TARGET_NAME)
        return sr_fail(SR_EINVAL, "a target needs a name of 1 to %d bytes", SR_TARGET_NAME);
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->collator[i].name, o->name) == 0)
            return sr_fail(SR_EINVAL, "duplicate target '%s'; rename one", o->name);
    sr_collator *c = &all->collator[all->count];
    *c = (sr_collator){.mean = o->mean, .masker = masker, .causal = o->causal};
    memcpy(c->name, o->name, size + 1);
    SR_TRY(find_kind(&c->kind, o));
    SR_TRY(read_reads(c, o->reads));
    SR_TRY(c->kind->open(c, d, o));
    SR_TRY(check_masks(all, c));
    all->deferred |= c->kind->deferred;
    all->count++;
    return SR_OK;
}

sr_status sr_collators_open(sr_collators *out, const sr_dataset *d, const sr_masker *masker,
                            const sr_target_opts *opts, int count) {
    *out = (sr_collators){0};
    SR_TRY(sr_new(&out->collator, count));
    sr_status st = SR_OK;
    for (int i = 0; st == SR_OK && i < count; i++) st = add(out, d, masker, &opts[i]);
    if (st != SR_OK) sr_collators_close(out);
    return st;
}

void sr_collators_close(sr_collators *c) {
    sr_free(c->collator);
    *c = (sr_collators){0};
}

int sr_targets_usual(sr_target_opts *out, const sr_dataset *d, bool mask, bool nsp, sr_mean mean) {
    int n = 0;
    if (mask) out[n++] = (sr_target_opts){.name = "mlm", .kind = "mlm", .mean = mean};
    if (nsp)
        out[n++] = (sr_target_opts){.name = "nsp", .kind = "nsp", .mean = mean};
    else if (sr_fields_find(&d->fields, "label") != NULL)
        out[n++] = (sr_target_opts){.name = "label", .mean = mean};
    return n;
}

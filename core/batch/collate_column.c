/* collate_column.c - labels from a field of the data set: one or more per sequence, one or more per
 * token, or the two ends of a span.
 *
 * Items with the ignored label, or NaN, in any of their columns are omitted.  Labels are four
 * bytes each, of either type.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/batch/collate.h"

static sr_status check_shape(const sr_collator *c, const sr_dataset *d) {
    const sr_field *f = c->field;
    const char *path = sr_shard_path(d->shard), *name = f->column->name;
    if (f->size == 0)
        return sr_fail(SR_EINVAL,
                       "target '%s': column '%s' of %s has lists; a target needs a fixed number "
                       "of values",
                       c->name, name, path);
    if (f->per_token != (c->reads == SR_READS_ROWS))
        return sr_fail(SR_EINVAL, "target '%s': column '%s' of %s has values per %s; use reads: %s",
                       c->name, name, path, f->per_token ? "token" : "example",
                       f->per_token ? "rows" : "sequences or spans");
    if (c->reads == SR_READS_SPANS && (f->size != 2 || c->type != SR_LABEL_I32))
        return sr_fail(SR_EINVAL,
                       "target '%s': a span is two integers, the first and the last token; column "
                       "'%s' of %s has %u of %s",
                       c->name, name, path, f->size, sr_column_type_name(f->column->type));
    return SR_OK;
}

static sr_status column_open(sr_collator *c, const sr_dataset *d, const sr_target_opts *o) {
    const char *name = o->column != NULL ? o->column : o->name;
    const sr_field *f = c->field = sr_fields_find(&d->fields, name);
    if (f == NULL)
        return sr_fail(SR_EINVAL, "target '%s': %s has no column '%s'%s", c->name,
                       sr_shard_path(d->shard), name,
                       d->kind == SR_DATA_TEXT ? "; only data sets of examples have columns" : "");
    if (o->reads == NULL) c->reads = f->per_token ? SR_READS_ROWS : SR_READS_SEQUENCES;
    c->type = f->column->type == SR_COLUMN_F32 ? SR_LABEL_F32 : SR_LABEL_I32;
    c->columns = (int32_t)f->size;
    c->ignores = o->has_ignore || c->type == SR_LABEL_I32;
    c->ignore = o->has_ignore ? o->ignore : SR_IGNORE;
    c->drop_outside = o->drop_outside;
    return check_shape(c, d);
}

static int64_t column_measure(const sr_collator *c, int32_t len) {
    return c->reads == SR_READS_ROWS ? len : 1;
}

/* ---- labels ---- */

static int32_t *labels_at(const sr_target *t, int64_t item) {
    return (int32_t *)t->labels + item * t->columns;
}

/* Reads `items` items from value `first` on, and appends them to the target. */
static sr_status read_labels(sr_target *t, const sr_collator *c, const sr_site *s, uint64_t first,
                             uint64_t items) {
    uint64_t count = items * c->field->size;
    if (c->type == SR_LABEL_I32)
        return sr_field_i32(s->data->shard, c->field, labels_at(t, t->count), first, count);
    return sr_field_f32(s->data->shard, c->field, (float *)labels_at(t, t->count), first, count);
}

static bool ignored(const sr_collator *c, const int32_t *label) {
    for (int32_t k = 0; k < c->columns; k++) {
        double x = label[k];
        if (c->type == SR_LABEL_F32) {
            float real;
            memcpy(&real, &label[k], sizeof real);
            if (isnan(real)) return true;
            x = (double)real;
        }
        if (c->ignores && x == c->ignore) return true;
    }
    return false;
}

/* ---- per sequence ---- */

static sr_status fill_sequence(sr_target *t, const sr_collator *c, const sr_site *s) {
    uint32_t unit = s->examples->unit[s->uid];
    SR_TRY(read_labels(t, c, s, (uint64_t)unit * c->field->size, 1));
    if (ignored(c, labels_at(t, t->count))) return SR_OK;
    t->rows[t->count++] = s->start;
    return SR_OK;
}

/* ---- per token ---- */

/* The values of consecutive tokens of the column and the sequence. */
static sr_status fill_run(sr_target *t, const sr_collator *c, const sr_site *s, uint64_t token,
                          int32_t count, int32_t row) {
    SR_TRY(read_labels(t, c, s, token * c->field->size, (uint64_t)count));
    const int32_t *from = labels_at(t, t->count);
    for (int32_t i = 0; i < count; i++, from += c->columns) {
        if (ignored(c, from)) continue;
        int32_t *to = labels_at(t, t->count);
        if (to != from) memmove(to, from, (size_t)c->columns * sizeof *to);
        t->rows[t->count++] = row + i;
    }
    return SR_OK;
}

static sr_status fill_tokens(sr_target *t, const sr_collator *c, const sr_site *s) {
    const sr_example *e = &s->example;
    SR_TRY(fill_run(t, c, s, sr_example_a(e), e->a_tokens, s->start + sr_example_a_at(e)));
    return fill_run(t, c, s, sr_example_b(e), e->b_tokens, s->start + sr_example_b_at(e));
}

/* ---- spans ---- */

/* Converts a span from tokens of the example to positions in the sequence; [CLS] if there is none,
 * or if it is not completely in the sequence. */
static sr_status find_span(bool *here, int32_t *label, const sr_collator *c, const sr_site *s) {
    uint32_t unit = s->examples->unit[s->uid];
    uint64_t first = s->data->unit_token[unit], tokens = s->data->unit_token[unit + 1] - first;
    *here = false;
    bool none = label[0] == -1 && label[1] == -1;
    if (!none && (label[0] < 0 || label[0] > label[1] || (uint64_t)label[1] >= tokens))
        return sr_fail(SR_EDATA,
                       "%s: column '%s': example %u has the span %d..%d, but tokens 0..%" PRIu64
                       "; use -1, -1 for no span",
                       sr_shard_path(s->data->shard), c->field->column->name, unit, label[0],
                       label[1], tokens - 1);
    if (label[0] >= 0)
        for (int i = 0; i < 2; i++)
            label[i] = sr_example_place(&s->example, first + (uint64_t)label[i]);
    *here = label[0] >= 0 && label[1] >= 0;
    if (!*here) label[0] = label[1] = 0;
    return SR_OK;
}

static sr_status fill_span(sr_target *t, const sr_collator *c, const sr_site *s) {
    uint32_t unit = s->examples->unit[s->uid];
    int32_t *label = labels_at(t, t->count), *row = t->rows + 2 * t->count;
    bool here, given;
    SR_TRY(read_labels(t, c, s, (uint64_t)unit * 2, 1));
    if (ignored(c, label)) return SR_OK;
    given = label[0] >= 0;
    SR_TRY(find_span(&here, label, c, s));
    if (given && !here && c->drop_outside) return SR_OK;
    for (int i = 0; i < 2; i++) row[i] = s->start + label[i];
    t->count++;
    return SR_OK;
}

static sr_status column_fill(sr_target *t, const sr_collator *c, const sr_site *s) {
    if (c->reads == SR_READS_ROWS) return fill_tokens(t, c, s);
    return c->reads == SR_READS_SPANS ? fill_span(t, c, s) : fill_sequence(t, c, s);
}

const sr_collator_kind sr_collate_column = {
    .name = "column", .open = column_open, .measure = column_measure, .fill = column_fill};

/* field.h - fields of a data set of examples: named, typed columns in addition to the tokens.
 *
 * A column NAME is a field if the metadata entry `column.NAME` gives its shape:
 *
 *     example           one value per example
 *     example K         K values per example
 *     example ragged    a list per example; the u32 column NAME.counts has the lengths
 *     token             one value per token of `ids`
 *     token K           K values per token
 *
 * Fields are i32, i64 or f32; bytes (UTF-8 text) are always `example ragged`.  The i32 column
 * `label` is a field of shape `example` even if undeclared.  Other undeclared columns are
 * skipped.
 */
#pragma once

#include <stdbool.h>

#include "core/data/shard.h"

SR_BEGIN_C

enum { SR_FIELD_SIZE = 65536 }; /* maximum of K */

#define SR_FIELD_KEY "column."    /* + NAME: the metadata key of its shape */
#define SR_FIELD_COUNTS ".counts" /* NAME + this: the column of the lengths of lists */

typedef struct sr_field {
    const sr_column *column;
    bool per_token; /* else per example */
    uint32_t size;  /* K, or 0: lists */
    uint64_t *list; /* (units + 1) lists: first value of each example; else NULL */
} sr_field;

typedef struct sr_fields {
    sr_field *field; /* in file order */
    int count;
} sr_fields;

/* Finds the fields of a data set of `units` examples and `tokens` tokens.  SR_EDATA names the file
 * and the column: an unknown shape or type, counts that do not add up. */
sr_status sr_fields_open(sr_fields *out, sr_shard *s, uint64_t units, uint64_t tokens);
void sr_fields_close(sr_fields *f);

const sr_field *sr_fields_find(const sr_fields *f, const char *name); /* NULL if there is none */

/* A digest that changes with the type and shape of any field.  A field of one i32 per example adds
 * nothing to `seed`. */
uint64_t sr_fields_digest(const sr_fields *f, uint64_t seed);

/* Values first .. first + count - 1 of an i32 or i64 (f32) column; thread-safe.  SR_EDATA if an i64
 * does not fit into 32 bits. */
sr_status sr_field_i32(sr_shard *s, const sr_field *f, int32_t *out, uint64_t first,
                       uint64_t count);
sr_status sr_field_f32(sr_shard *s, const sr_field *f, float *out, uint64_t first, uint64_t count);

/* ---- writing ---- */

typedef struct sr_field_column {
    int values; /* number of the column */
    int counts; /* of the lengths of lists, u32; -1: none */
} sr_field_column;

/* Adds a field to a file: its column, its shape, and for lists (size 0) the column of lengths.
 *
 * Errors: SR_EINVAL  an unsupported type, lists per token, bytes that are not lists, a name that is
 * taken or reserved; those of sr_shard_add_column() */
sr_status sr_field_add(sr_field_column *out, sr_shard_writer *w, const char *name,
                       sr_column_type type, bool per_token, uint32_t size);

SR_END_C

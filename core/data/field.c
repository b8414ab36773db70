#include "core/data/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/shard_format.h"

/* ---- shapes ---- */

/* K from 1 to SR_FIELD_SIZE, in plain decimal. */
static bool read_size(uint32_t *size, const char *text) {
    char *end;
    if (text[0] < '1' || text[0] > '9') return false;
    unsigned long k = strtoul(text, &end, 10);
    *size = (uint32_t)k;
    return *end == '\0' && k <= SR_FIELD_SIZE;
}

/* Parses the shape in a metadata value.  SR_EDATA if it is invalid. */
static sr_status read_shape(bool *per_token, uint32_t *size, const char *text) {
    size_t word = strcspn(text, " ");
    *per_token = word == 5 && memcmp(text, "token", 5) == 0;
    bool known = *per_token || (word == 7 && memcmp(text, "example", 7) == 0);
    const char *rest = text + word + (text[word] == ' ');
    *size = 1;
    if (known && text[word] == '\0') return SR_OK;
    if (known && !*per_token && strcmp(rest, "ragged") == 0) {
        *size = 0;
        return SR_OK;
    }
    if (known && read_size(size, rest)) return SR_OK;
    return sr_fail(SR_EDATA,
                   "shape '%.40s' is not 'example', 'example K', 'example ragged', 'token' or "
                   "'token K'",
                   text);
}

/* ---- opening ---- */

static sr_status wrong(const sr_shard *s, const sr_column *c, const char *what) {
    return sr_fail(SR_EDATA, "%s: column '%s' %s; prepare the data set again", sr_shard_path(s),
                   c->name, what);
}

/* The first value of each example, from the lengths of the lists. */
static sr_status read_lists(sr_field *f, sr_shard *s, uint64_t units) {
    char name[SR_SHARD_NAME + sizeof SR_FIELD_COUNTS];
    snprintf(name, sizeof name, "%s" SR_FIELD_COUNTS, f->column->name);
    const sr_column *c;
    SR_TRY(sr_shard_want(&c, s, name, SR_COLUMN_U32));
    if (c->count != units) return wrong(s, c, "does not have one length for each example");
    SR_TRY(sr_new(&f->list, units + 1));
    uint32_t *length;
    SR_TRY(sr_new(&length, units));
    sr_status st = sr_shard_read(s, c, length, 0, units);
    for (uint64_t i = 0; i < units; i++) f->list[i + 1] = f->list[i] + length[i];
    sr_free(length);
    if (st == SR_OK && f->list[units] != f->column->count)
        st = wrong(s, f->column, "has more or fewer values than its lists");
    return st;
}

static bool known_type(const sr_field *f) {
    switch (f->column->type) {
    case SR_COLUMN_I32:
    case SR_COLUMN_I64:
    case SR_COLUMN_F32:
        return true;
    case SR_COLUMN_BYTES:
        return f->size == 0;
    default:
        return false;
    }
}

static sr_status open_field(sr_fields *all, sr_shard *s, const sr_column *c, const char *shape,
                            uint64_t units, uint64_t tokens) {
    sr_field *f = &all->field[all->count];
    *f = (sr_field){.column = c};
    if (read_shape(&f->per_token, &f->size, shape) != SR_OK) {
        char why[200];
        snprintf(why, sizeof why, "%s", sr_message());
        return sr_fail(SR_EDATA, "%s: column '%s': %s", sr_shard_path(s), c->name, why);
    }
    if (!known_type(f))
        return sr_fail(SR_EDATA,
                       "%s: column '%s' has %s of shape '%s'; values must be i32, i64 or f32, and "
                       "text must be bytes of shape 'example ragged'",
                       sr_shard_path(s), c->name, sr_column_type_name(c->type), shape);
    all->count++; /* freed with the rest from here on */
    if (f->size == 0) return read_lists(f, s, units);
    uint64_t each = f->per_token ? tokens : units;
    if (each * f->size == c->count) return SR_OK; /* < 2^40 x 2^16 */
    return wrong(s, c,
                 f->per_token ? "does not have its values for each token"
                              : "does not have its values for each example");
}

/* The column that metadata entry i describes, and its shape; NULL if it describes none. */
static sr_status declared(const sr_column **c, const char **shape, const sr_shard *s, int i) {
    const char *key = sr_shard_meta_at(s, i, shape);
    size_t prefix = sizeof SR_FIELD_KEY - 1;
    *c = NULL;
    if (strncmp(key, SR_FIELD_KEY, prefix) != 0) return SR_OK;
    *c = sr_shard_column(s, key + prefix);
    if (*c != NULL) return SR_OK;
    return sr_fail(SR_EDATA,
                   "%s: the metadata has '%s', but there is no such column; prepare the "
                   "data set again",
                   sr_shard_path(s), key);
}

static sr_status open_all(sr_fields *out, sr_shard *s, uint64_t units, uint64_t tokens) {
    SR_TRY(sr_new(&out->field, sr_shard_metas(s) + 1));
    for (int i = 0; i < sr_shard_metas(s); i++) {
        const sr_column *c;
        const char *shape;
        SR_TRY(declared(&c, &shape, s, i));
        if (c != NULL) SR_TRY(open_field(out, s, c, shape, units, tokens));
    }
    const sr_column *label = sr_shard_column(s, "label");
    if (label == NULL || sr_fields_find(out, "label") != NULL) return SR_OK;
    SR_TRY(sr_shard_want(&label, s, "label", SR_COLUMN_I32));
    return open_field(out, s, label, "example", units, tokens);
}

sr_status sr_fields_open(sr_fields *out, sr_shard *s, uint64_t units, uint64_t tokens) {
    *out = (sr_fields){0};
    sr_status st = open_all(out, s, units, tokens);
    if (st != SR_OK) sr_fields_close(out);
    return st;
}

void sr_fields_close(sr_fields *f) {
    for (int i = 0; i < f->count; i++) sr_free(f->field[i].list);
    sr_free(f->field);
    *f = (sr_fields){0};
}

/* ---- looking up and reading ---- */

const sr_field *sr_fields_find(const sr_fields *f, const char *name) {
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->field[i].column->name, name) == 0) return &f->field[i];
    return NULL;
}

uint64_t sr_fields_digest(const sr_fields *f, uint64_t seed) {
    for (int i = 0; i < f->count; i++) {
        const sr_field *one = &f->field[i];
        uint32_t shape[] = {one->column->type, one->per_token, one->size};
        if (one->column->type == SR_COLUMN_I32 && !one->per_token && one->size == 1) continue;
        seed = sr_shard_hash(one->column->name, strlen(one->column->name), seed);
        seed = sr_shard_hash(shape, sizeof shape, seed);
    }
    return seed;
}

static sr_status narrow(sr_shard *s, const sr_field *f, int32_t *out, uint64_t first,
                        uint64_t count) {
    enum { PART = 64 };
    int64_t wide[PART];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t left = count - i, k = i % PART;
        if (k == 0) SR_TRY(sr_shard_read(s, f->column, wide, first + i, left < PART ? left : PART));
        if (wide[k] < INT32_MIN || wide[k] > INT32_MAX)
            return sr_fail(SR_EDATA,
                           "%s: value %" PRIu64 " of column '%s' is %" PRId64
                           ", which does not fit into 32 bits",
                           sr_shard_path(s), first + i, f->column->name, wide[k]);
        out[i] = (int32_t)wide[k];
    }
    return SR_OK;
}

sr_status sr_field_i32(sr_shard *s, const sr_field *f, int32_t *out, uint64_t first,
                       uint64_t count) {
    if (f->column->type == SR_COLUMN_I32) return sr_shard_read(s, f->column, out, first, count);
    if (f->column->type == SR_COLUMN_I64) return narrow(s, f, out, first, count);
    return sr_fail(SR_EINVAL, "%s: column '%s' has %s, not integers", sr_shard_path(s),
                   f->column->name, sr_column_type_name(f->column->type));
}

sr_status sr_field_f32(sr_shard *s, const sr_field *f, float *out, uint64_t first, uint64_t count) {
    if (f->column->type == SR_COLUMN_F32) return sr_shard_read(s, f->column, out, first, count);
    return sr_fail(SR_EINVAL, "%s: column '%s' has %s, not f32", sr_shard_path(s), f->column->name,
                   sr_column_type_name(f->column->type));
}

/* ---- writing ---- */

static bool reserved(const char *name) {
    static const char *const taken[] = {"ids",   "a_tokens",  "b_tokens",
                                        "vocab", "tokenizer", "word_starts"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i]) == 0) return true;
    size_t n = strlen(name), tail = sizeof SR_FIELD_COUNTS - 1;
    return n >= tail && strcmp(name + n - tail, SR_FIELD_COUNTS) == 0;
}

static sr_status check_new(const char *name, sr_column_type type, bool per_token, uint32_t size) {
    size_t most = SR_SHARD_NAME - (sizeof SR_FIELD_KEY - 1);
    if (strlen(name) > most || reserved(name))
        return sr_fail(SR_EINVAL,
                       "column '%.80s': use another name; at most %zu bytes, not ids, a_tokens, "
                       "b_tokens, vocab, tokenizer or word_starts, no '%s' at its end",
                       name, most, SR_FIELD_COUNTS);
    bool text = type == SR_COLUMN_BYTES;
    if (!text && type != SR_COLUMN_I32 && type != SR_COLUMN_I64 && type != SR_COLUMN_F32)
        return sr_fail(SR_EINVAL, "column '%s': type %s is not i32, i64, f32 or bytes", name,
                       sr_column_type_name(type));
    if (size > SR_FIELD_SIZE)
        return sr_fail(SR_EINVAL, "column '%s': size %u is more than %d", name, size,
                       SR_FIELD_SIZE);
    if (size == 0 ? per_token : text)
        return sr_fail(SR_EINVAL,
                       text ? "column '%s': bytes have any length; omit size"
                            : "column '%s': lists per token are not supported; use a fixed size",
                       name);
    return SR_OK;
}

sr_status sr_field_add(sr_field_column *out, sr_shard_writer *w, const char *name,
                       sr_column_type type, bool per_token, uint32_t size) {
    char key[2 * SR_SHARD_NAME], shape[32];
    *out = (sr_field_column){-1, -1};
    SR_TRY(check_new(name, type, per_token, size));
    SR_TRY(sr_shard_add_column(w, &out->values, name, type));
    const char *per = per_token ? "token" : "example";
    if (size == 1)
        snprintf(shape, sizeof shape, "%s", per);
    else if (size == 0)
        snprintf(shape, sizeof shape, "%s ragged", per);
    else
        snprintf(shape, sizeof shape, "%s %u", per, size);
    snprintf(key, sizeof key, SR_FIELD_KEY "%s", name);
    SR_TRY(sr_shard_set_meta(w, key, shape));
    if (size > 0) return SR_OK;
    snprintf(key, sizeof key, "%s" SR_FIELD_COUNTS, name);
    return sr_shard_add_column(w, &out->counts, key, SR_COLUMN_U32);
}

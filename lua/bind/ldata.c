/* ldata.c - seqrun.core.data: data sets; wrapped by lua/seqrun/data. */
#include "lua/bind/ldata.h"

#include <string.h>

#include "core/data/scan.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ltext.h"

const char *const lsr_part_names[] = {"train", "held", NULL};

/* ---- data sets ---- */

sr_dataset *lsr_checkdataset(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_DATASET, "the data set was closed");
}

LSR_RELEASE(dataset_gc, LSR_DATASET, sr_dataset, sr_dataset_close)

/* The numbers of examples in a field, from 1, as a block from 0; NULL if it is not set. */
static const int64_t *read_hold(lua_State *L, int64_t *count) {
    if (lua_getfield(L, 2, "hold") == LUA_TNIL) return NULL;
    luaL_checktype(L, -1, LUA_TTABLE);
    *count = (int64_t)lua_rawlen(L, -1);
    int64_t *list = lua_newuserdatauv(L, (size_t)(*count + 1) * sizeof *list, 0);
    for (int64_t i = 0; i < *count; i++) {
        lua_rawgeti(L, -2, i + 1);
        list[i] = lsr_checkrange(L, -1, 1, INT64_MAX) - 1;
        lua_pop(L, 1);
    }
    return list;
}

/* open(path: string|string[], options: { held?: number, split?: "tail"|"keyed", seed?: integer,
 *     folds?: integer, fold?: integer, hold?: integer[], vocab?: Vocab, cache?: integer }) ->
 *     Dataset dataset | nil, message, code
 * Opens a data set, of one or more files, and splits off the held-out part. */
static int data_open(lua_State *L) {
    static const char *const splits[] = {"tail", "keyed", NULL};
    size_t files;
    luaL_checktype(L, 2, LUA_TTABLE);
    const char *const *path = lsr_checkpaths(L, 1, &files);
    if (files == 0) lsr_argerror(L, 1, "expected a path or a list of paths");
    sr_dataset_opts opts = {.more = path + 1,
                            .files = (int)files - 1,
                            .held = lsr_field_number(L, 2, "held", SR_HELD_USUAL),
                            .keyed = lsr_field_choice(L, 2, "split", splits) == 1,
                            .seed = (uint64_t)lsr_field_integer(L, 2, "seed", 0),
                            .folds = lsr_field_range(L, 2, "folds", 0, 0, 1 << 20),
                            .fold = lsr_field_range(L, 2, "fold", 1, 1, 1 << 20) - 1,
                            .cache = (size_t)lsr_field_integer(L, 2, "cache", 0)};
    opts.hold = read_hold(L, &opts.hold_count);
    if (lua_getfield(L, 2, "vocab") != LUA_TNIL) opts.vocab = lsr_checkvocab(L, -1);
    if (lua_getfield(L, 2, "tokenizer") != LUA_TNIL) opts.tokenizer = lsr_checktokenizer(L, -1);
    sr_dataset **box = lsr_newbox(L, sizeof *box, LSR_DATASET);
    return lsr_give(L, sr_dataset_open(box, path[0], &opts));
}

void lsr_readexamples(lua_State *L, int table, sr_examples_opts *t) {
    static const char *const policies[] = {"error", "truncate", "split", NULL};
    static const char *const by[] = {"sequence", "document", NULL};
    t->part = (sr_data_part)lsr_field_choice(L, table, "part", lsr_part_names);
    t->max_len = (int32_t)lsr_field_range(L, table, "max_len", 128, 0, INT32_MAX);
    t->nsp = lsr_field_bool(L, table, "nsp", true);
    t->short_seq_prob = lsr_field_number(L, table, "short_seq_prob", 0.1);
    t->by_document = lsr_field_choice(L, table, "short_seq_by", by) == 1;
    t->too_long = (sr_too_long)lsr_field_choice(L, table, "too_long", policies);
    t->seed = (uint64_t)lsr_field_integer(L, table, "seed", 0);
    t->epoch = (uint32_t)lsr_field_range(L, table, "epoch", 0, 0, UINT32_MAX);
}

/* @class seqrun.core.data.dataset
 * An opened data set; it lives as long as the loaders that use it. */

/* Of each source: its first unit, from 1, and how many units the parts have of it. */
static void push_source(lua_State *L, const sr_dataset *d, int64_t s) {
    lua_createtable(L, 0, 3);
    lsr_set_integer(L, "first", d->source_unit[s] + 1);
    for (int p = 0; p < SR_PARTS; p++)
        lsr_set_integer(L, lsr_part_names[p], d->part[p].source[s + 1] - d->part[p].source[s]);
}

/* dataset:info() -> table
 * Its contents: kind, tokens, sentences, documents or examples, vocab_size, tokenizer (its model),
 * fingerprint (of it), lowercase, cut, sources (if several), labelled, digest, bytes, and for train
 * and held { units, tokens, words }; words only where they were counted. */
static int dataset_info(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    lua_newtable(L);
    lsr_set_string(L, "path", sr_shard_path(d->shard));
    lsr_set_string(L, "kind", d->kind == SR_DATA_TEXT ? "text" : "examples");
    lsr_set_bool(L, "lowercase", sr_tokenizer_lowercase(d->tokenizer));
    lsr_set_string(L, "tokenizer", sr_tokenizer_kind_name(d->tokenizer));
    lsr_give_hex(L, sr_dataset_fingerprint(d));
    lua_setfield(L, -2, "fingerprint");
    lsr_set_bool(L, "cut", d->cut);
    if (d->sources > 1) {
        LSR_PUSH_LIST(L, d->sources, s, push_source(L, d, s));
        lua_setfield(L, -2, "sources");
    }
    lsr_set_bool(L, "labelled", sr_fields_find(&d->fields, "label") != NULL);
    lsr_give_hex(L, sr_dataset_digest(d));
    lua_setfield(L, -2, "digest");
    lsr_set_integer(L, "bytes", (int64_t)sr_shard_bytes(d->shard));
    lsr_set_integer(L, "vocab_size", sr_tokenizer_size(d->tokenizer));
    lsr_set_integer(L, "tokens", d->tokens);
    lsr_set_integer(L, "sentences", d->sentences);
    lsr_set_integer(L, d->kind == SR_DATA_TEXT ? "documents" : "examples", d->units - d->cut);
    for (int p = 0; p < SR_PARTS; p++) {
        lua_newtable(L);
        lsr_set_integer(L, "units", d->part[p].count);
        lsr_set_integer(L, "tokens", d->part[p].tokens);
        if (d->sentence_words != NULL) lsr_set_integer(L, "words", d->part[p].words);
        lua_setfield(L, -2, lsr_part_names[p]);
    }
    return 1;
}

/* dataset:meta() -> table<string, string>
 * The metadata of the file. */
static int dataset_meta(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    lua_newtable(L);
    for (int i = 0; i < sr_shard_metas(d->shard); i++) {
        const char *value;
        const char *key = sr_shard_meta_at(d->shard, i, &value);
        lua_pushstring(L, value);
        lua_setfield(L, -2, key);
    }
    return 1;
}

/* dataset:columns() -> { name: string, type: string, count: integer, bytes: integer, per?: string,
 *     size?: integer }[]
 * The columns of the file. */
static int dataset_columns(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    lua_newtable(L);
    for (int i = 0; i < sr_shard_columns(d->shard); i++) {
        const sr_column *c = sr_shard_column_at(d->shard, i);
        lua_newtable(L);
        lsr_set_string(L, "name", c->name);
        lsr_set_string(L, "type", sr_column_type_name(c->type));
        lsr_set_integer(L, "count", (int64_t)c->count);
        lsr_set_integer(L, "bytes", (int64_t)(c->count * c->size));
        const sr_field *f = sr_fields_find(&d->fields, c->name);
        if (f != NULL) {
            lsr_set_string(L, "per", f->per_token ? "token" : "example");
            lsr_set_integer(L, "size", f->size);
        }
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* dataset:counts(part?: "train"|"held") -> integer[] counts | nil, message, code
 * How often each token occurs in a part: counts[id + 1]. */
static int dataset_counts(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    int part = luaL_checkoption(L, 2, "train", lsr_part_names);
    int32_t size = sr_tokenizer_size(d->tokenizer);
    uint64_t *count = lsr_scratch(L, size, sizeof *count);
    LSR_TRY(L, sr_scan_tokens(count, d, (sr_data_part)part));
    LSR_PUSH_LIST(L, size, i, lua_pushinteger(L, (lua_Integer)count[i]));
    return 1;
}

/* dataset:units(part?: "train"|"held") -> integer[]
 * The numbers of a part's documents (examples), from 1. */
static int dataset_units(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    const sr_portion *p = &d->part[luaL_checkoption(L, 2, "train", lsr_part_names)];
    LSR_PUSH_LIST(L, p->count, i, lua_pushinteger(L, (lua_Integer)p->unit[i] + 1));
    return 1;
}

/* dataset:repeats() -> integer? sentences, integer|string documents, string? code
 * How many sentences and documents repeat an earlier one, token by token.
 *   documents  the message on failure */
static int dataset_repeats(lua_State *L) {
    sr_repeats r;
    LSR_TRY(L, sr_scan_repeats(&r, lsr_checkdataset(L, 1)));
    lua_pushinteger(L, r.sentences);
    lua_pushinteger(L, r.documents);
    return 2;
}

/* 1-based number of an example, nil for none. */
static void push_unit(lua_State *L, int64_t unit) {
    if (unit < 0)
        lua_pushnil(L);
    else
        lua_pushinteger(L, unit + 1);
}

/* dataset:overlap(other: Dataset) -> integer? count, integer|string|nil first, integer|string|nil
 *     twin
 * Examples of `other` that this one has too, word for word: how many, the first of them and its
 * twin here, from 1.
 *   first  the message on failure */
static int dataset_overlap(lua_State *L) {
    sr_overlap o;
    LSR_TRY(L, sr_scan_overlap(&o, lsr_checkdataset(L, 1), lsr_checkdataset(L, 2)));
    lua_pushinteger(L, o.count);
    push_unit(L, o.first);
    push_unit(L, o.twin);
    return 3;
}

/* dataset:longer(max_len: integer) -> integer count, integer? first, integer longest
 * Fixed examples of more than `max_len` tokens, [CLS] and [SEP] included.
 *   first    from 1
 *   longest  tokens of the longest of all examples */
static int dataset_longer(lua_State *L) {
    sr_longer longer = sr_scan_longer(lsr_checkdataset(L, 1), luaL_checkinteger(L, 2));
    lua_pushinteger(L, longer.count);
    push_unit(L, longer.first);
    lua_pushinteger(L, longer.longest);
    return 3;
}

/* dataset:verify() -> true good | nil, message, code
 * Reads every block and checks it. */
static int dataset_verify(lua_State *L) {
    return lsr_done(L, sr_shard_verify(lsr_checkdataset(L, 1)->shard));
}

/* dataset:tokenizer() -> Tokenizer
 * The tokenizer inside; special tokens written in a text are plain text to it. */
static int dataset_tokenizer(lua_State *L) {
    lsr_pushtokenizer(L, lsr_checkdataset(L, 1)->tokenizer);
    return 1;
}

/* dataset:unit(i: integer) -> integer[]? ids, integer[]|string lengths, string? code
 * Document (or example) i, from 1: its ids, and the lengths of its sentences (of A and B).
 *   lengths  the message on failure */
static int dataset_unit(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    int64_t i = lsr_checkrange(L, 2, 1, d->units) - 1;
    uint64_t first = d->unit_token[i], n = d->unit_token[i + 1] - first;
    int32_t *ids = lsr_scratch(L, (int64_t)n, sizeof *ids);
    LSR_TRY(L, sr_dataset_ids(d, ids, first, n));
    LSR_PUSH_LIST(L, n, k, lua_pushinteger(L, ids[k]));
    if (d->kind == SR_DATA_EXAMPLES) {
        int64_t lengths[] = {d->a_tokens[i], (int64_t)n - d->a_tokens[i]};
        LSR_PUSH_LIST(L, 2, k, lua_pushinteger(L, lengths[k]));
        return 2;
    }
    const uint64_t *s = &d->unit_sentence[i];
    LSR_PUSH_LIST(L, s[1] - s[0], k, lua_pushinteger(L, d->sentence_tokens[*s + (uint64_t)k]));
    return 2;
}

static void push_number(lua_State *L, const sr_field *f, const char *at) {
    int32_t narrow;
    int64_t wide;
    float real;
    switch (f->column->type) {
    case SR_COLUMN_I32:
        memcpy(&narrow, at, sizeof narrow);
        lua_pushinteger(L, narrow);
        break;
    case SR_COLUMN_I64:
        memcpy(&wide, at, sizeof wide);
        lua_pushinteger(L, wide);
        break;
    default:
        memcpy(&real, at, sizeof real);
        lua_pushnumber(L, (double)real);
    }
}

/* dataset:value(name: string, i: integer) -> number|number[]|string value | nil, message, code
 * The value of a column for example i, from 1: a number, a list, or a string. */
static int dataset_value(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    const char *name = luaL_checkstring(L, 2);
    const sr_field *f = sr_fields_find(&d->fields, name);
    if (f == NULL) lsr_error(L, "%s has no column '%s'", sr_shard_path(d->shard), name);
    int64_t i = lsr_checkrange(L, 3, 1, d->units) - 1;
    uint64_t first, count;
    sr_dataset_values(&first, &count, d, f, i);
    char *values = lsr_scratch(L, (int64_t)count, f->column->size);
    LSR_TRY(L, sr_shard_read(d->shard, f->column, values, first, count));
    if (f->column->type == SR_COLUMN_BYTES) return lsr_give_bytes(L, values, (size_t)count);
    if (f->size == 1 && !f->per_token)
        push_number(L, f, values);
    else
        LSR_PUSH_LIST(L, count, k, push_number(L, f, values + (size_t)k * f->column->size));
    return 1;
}

static const luaL_Reg dataset_methods[] = {
    {"info", dataset_info},
    {"meta", dataset_meta},
    {"columns", dataset_columns},
    {"counts", dataset_counts},
    {"units", dataset_units},
    {"repeats", dataset_repeats},
    {"overlap", dataset_overlap},
    {"longer", dataset_longer},
    {"verify", dataset_verify},
    {"tokenizer", dataset_tokenizer},
    {"unit", dataset_unit},
    {"value", dataset_value},
    {NULL, NULL},
};

static const luaL_Reg data_functions[] = {{"open", data_open}, {NULL, NULL}};

/* @class seqrun.core.data
 * Data sets: .sqr files written and read. */
void lsr_open_data(lua_State *L) {
    lsr_class(L, LSR_DATASET, dataset_methods, dataset_gc);
    luaL_setfuncs(L, data_functions, 0);
}

/* ldata.c - seqrun.core.data: data sets; for lua/seqrun/data, which makes them objects. */
#include "lua/bind/ldata.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/scan.h"
#include "lua/bind/lseqrun.h"
#include "lua/bind/ltext.h"

const char *const lsr_part_names[] = {"train", "held", NULL};

/* ---- options ---- */

static int field(lua_State *L, int table, const char *key) {
    return lua_getfield(L, table, key);
}

static void wrong_field(lua_State *L, const char *key, const char *wanted) {
    luaL_error(L, "%s: %s wanted, got %s", key, wanted, luaL_typename(L, -1));
}

int64_t lsr_field_integer(lua_State *L, int table, const char *key, int64_t otherwise) {
    int whole = 1;
    int64_t x = otherwise;
    if (field(L, table, key) != LUA_TNIL) x = lua_tointegerx(L, -1, &whole);
    if (!whole) wrong_field(L, key, "an integer");
    lua_pop(L, 1);
    return x;
}

int64_t lsr_field_range(lua_State *L, int table, const char *key, int64_t otherwise, int64_t least,
                        int64_t most) {
    int64_t x = lsr_field_integer(L, table, key, otherwise);
    if (x < least || x > most)
        luaL_error(L, "%s: %I is not in %I..%I", key, (lua_Integer)x, (lua_Integer)least,
                   (lua_Integer)most);
    return x;
}

double lsr_field_number(lua_State *L, int table, const char *key, double otherwise) {
    int number = 1;
    double x = otherwise;
    if (field(L, table, key) != LUA_TNIL) x = lua_tonumberx(L, -1, &number);
    if (!number) wrong_field(L, key, "a number");
    lua_pop(L, 1);
    return x;
}

bool lsr_field_bool(lua_State *L, int table, const char *key, bool otherwise) {
    int type = field(L, table, key);
    if (type != LUA_TNIL && type != LUA_TBOOLEAN) wrong_field(L, key, "true or false");
    bool x = type == LUA_TNIL ? otherwise : lua_toboolean(L, -1);
    lua_pop(L, 1);
    return x;
}

const char *lsr_field_string(lua_State *L, int table, const char *key, const char *otherwise) {
    int type = field(L, table, key);
    if (type != LUA_TNIL && type != LUA_TSTRING) wrong_field(L, key, "a string");
    const char *x = type == LUA_TNIL ? otherwise : lua_tostring(L, -1);
    lua_pop(L, 1); /* the options table keeps the string alive */
    return x;
}

int lsr_field_choice(lua_State *L, int table, const char *key, const char *const *names) {
    const char *name = lsr_field_string(L, table, key, names[0]);
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(name, names[i]) == 0) return i;
    return luaL_error(L, "%s: '%s' is not one of its choices ('%s', '%s', ...)", key, name,
                      names[0], names[1]);
}

void lsr_set_integer(lua_State *L, const char *key, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

/* ---- data sets ---- */

sr_dataset *lsr_checkdataset(lua_State *L, int arg) {
    sr_dataset **box = luaL_checkudata(L, arg, LSR_DATASET);
    return *box;
}

static int dataset_gc(lua_State *L) {
    sr_dataset **box = luaL_checkudata(L, 1, LSR_DATASET);
    sr_dataset_close(*box);
    *box = NULL;
    return 0;
}

static sr_dataset **new_dataset(lua_State *L) {
    sr_dataset **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    luaL_setmetatable(L, LSR_DATASET);
    return box;
}

/* open(path, { held, split, seed, vocab, cache }) -> dataset | nil, message, code */
static int data_open(lua_State *L) {
    static const char *const splits[] = {"tail", "keyed", NULL};
    const char *path = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_dataset_opts opts = {.held = lsr_field_number(L, 2, "held", SR_HELD_USUAL),
                            .keyed = lsr_field_choice(L, 2, "split", splits) == 1,
                            .seed = (uint64_t)lsr_field_integer(L, 2, "seed", 0),
                            .cache = (size_t)lsr_field_integer(L, 2, "cache", 0)};
    if (lua_getfield(L, 2, "vocab") != LUA_TNIL) opts.vocab = lsr_checkvocab(L, -1);
    sr_dataset **box = new_dataset(L);
    sr_status st = sr_dataset_open(box, path, &opts);
    if (st == SR_EINVAL) lsr_check(L, st);
    return st == SR_OK ? 1 : lsr_result(L, st);
}

/* dataset:info() -> table */
static int dataset_info(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    lua_newtable(L);
    lua_pushstring(L, sr_shard_path(d->shard));
    lua_setfield(L, -2, "path");
    lua_pushstring(L, d->kind == SR_DATA_TEXT ? "text" : "examples");
    lua_setfield(L, -2, "kind");
    lua_pushboolean(L, d->lowercase);
    lua_setfield(L, -2, "lowercase");
    lua_pushboolean(L, d->cut);
    lua_setfield(L, -2, "cut");
    lua_pushboolean(L, d->label != NULL);
    lua_setfield(L, -2, "labelled");
    char digest[17];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)sr_shard_digest(d->shard));
    lua_pushstring(L, digest);
    lua_setfield(L, -2, "digest");
    lsr_set_integer(L, "bytes", (int64_t)sr_shard_bytes(d->shard));
    lsr_set_integer(L, "vocab_size", sr_vocab_size(d->vocab));
    lsr_set_integer(L, "tokens", d->tokens);
    lsr_set_integer(L, "sentences", d->sentences);
    lsr_set_integer(L, d->kind == SR_DATA_TEXT ? "documents" : "examples", d->units - d->cut);
    for (int p = 0; p < SR_PARTS; p++) {
        lua_newtable(L);
        lsr_set_integer(L, "units", d->part[p].count);
        lsr_set_integer(L, "tokens", d->part[p].tokens);
        lua_setfield(L, -2, lsr_part_names[p]);
    }
    return 1;
}

/* dataset:meta() -> { key = value } */
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

/* dataset:columns() -> { { name, type, count, bytes }, ... } */
static int dataset_columns(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    lua_newtable(L);
    for (int i = 0; i < sr_shard_columns(d->shard); i++) {
        const sr_column *c = sr_shard_column_at(d->shard, i);
        lua_newtable(L);
        lua_pushstring(L, c->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, sr_column_type_name(c->type));
        lua_setfield(L, -2, "type");
        lsr_set_integer(L, "count", (int64_t)c->count);
        lsr_set_integer(L, "bytes", (int64_t)(c->count * c->size));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* Scratch that goes with the Lua stack. */
static void *scratch(lua_State *L, size_t count, size_t size) {
    size_t bytes = 0;
    lsr_check(L, sr_mul_size(&bytes, count, size));
    void *block = lua_newuserdatauv(L, bytes, 0);
    memset(block, 0, bytes);
    return block;
}

/* dataset:counts(part) -> { how often each token occurs, counts[id + 1] } | nil, message, code */
static int dataset_counts(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    int part = luaL_checkoption(L, 2, "train", lsr_part_names);
    int32_t size = sr_vocab_size(d->vocab);
    uint64_t *count = scratch(L, (size_t)size, sizeof *count);
    sr_status st = sr_scan_tokens(count, d, (sr_data_part)part);
    if (st != SR_OK) return lsr_result(L, st);
    lua_createtable(L, size, 0);
    for (int32_t i = 0; i < size; i++) {
        lua_pushinteger(L, (lua_Integer)count[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* dataset:repeats() -> sentences, documents | nil, message, code */
static int dataset_repeats(lua_State *L) {
    sr_repeats r;
    sr_status st = sr_scan_repeats(&r, lsr_checkdataset(L, 1));
    if (st != SR_OK) return lsr_result(L, st);
    lua_pushinteger(L, r.sentences);
    lua_pushinteger(L, r.documents);
    return 2;
}

/* dataset:verify() -> true | nil, message, code */
static int dataset_verify(lua_State *L) {
    sr_status st = sr_shard_verify(lsr_checkdataset(L, 1)->shard);
    if (st != SR_OK) return lsr_result(L, st);
    lua_pushboolean(L, 1);
    return 1;
}

/* Bytes of ours that go when the box is collected: pushing a string may raise. */
static int bytes_gc(lua_State *L) {
    void **box = lua_touserdata(L, 1);
    sr_free(*box);
    *box = NULL;
    return 0;
}

void **lsr_newbytes(lua_State *L) {
    void **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    if (luaL_newmetatable(L, "seqrun.core.bytes")) {
        lua_pushcfunction(L, bytes_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return box;
}

/* dataset:vocab_text() -> string | nil, message, code */
static int dataset_vocab_text(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    void **bytes = lsr_newbytes(L);
    size_t size;
    sr_status st = sr_dataset_vocab_text(d, bytes, &size);
    if (st != SR_OK) return lsr_result(L, st);
    lua_pushlstring(L, *bytes, size);
    return 1;
}

/* dataset:unit(i) -> { ids }, { sentence lengths }: document (example) i, from 1 */
static int dataset_unit(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    int64_t i = lsr_checkrange(L, 2, 1, d->units) - 1;
    uint64_t first = d->unit_token[i], n = d->unit_token[i + 1] - first;
    int32_t *ids = scratch(L, (size_t)n, sizeof *ids);
    sr_status st = sr_dataset_ids(d, ids, first, n);
    if (st != SR_OK) return lsr_result(L, st);
    lua_createtable(L, (int)n, 0);
    for (uint64_t k = 0; k < n; k++) {
        lua_pushinteger(L, ids[k]);
        lua_rawseti(L, -2, (lua_Integer)k + 1);
    }
    lua_newtable(L);
    if (d->kind == SR_DATA_EXAMPLES) {
        lua_pushinteger(L, d->a_tokens[i]);
        lua_rawseti(L, -2, 1);
        lua_pushinteger(L, (lua_Integer)n - d->a_tokens[i]);
        lua_rawseti(L, -2, 2);
        return 2;
    }
    for (uint64_t s = d->unit_sentence[i]; s < d->unit_sentence[i + 1]; s++) {
        lua_pushinteger(L, d->sentence_tokens[s]);
        lua_rawseti(L, -2, (lua_Integer)(s - d->unit_sentence[i]) + 1);
    }
    return 2;
}

static const luaL_Reg dataset_methods[] = {
    {"info", dataset_info},
    {"meta", dataset_meta},
    {"columns", dataset_columns},
    {"counts", dataset_counts},
    {"repeats", dataset_repeats},
    {"verify", dataset_verify},
    {"vocab_text", dataset_vocab_text},
    {"unit", dataset_unit},
    {NULL, NULL},
};

void lsr_data_class(lua_State *L, const char *name, const luaL_Reg *methods,
                    lua_CFunction release) {
    if (luaL_newmetatable(L, name)) {
        lua_newtable(L);
        luaL_setfuncs(L, methods, 0);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, release);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, release);
        lua_setfield(L, -2, "__close");
    }
    lua_pop(L, 1);
}

static const luaL_Reg data_functions[] = {
    {"open", data_open}, {"ingest", lsr_data_ingest}, {"writer", lsr_data_writer}, {NULL, NULL}};

int luaopen_seqrun_core_data(lua_State *L) {
    lsr_data_class(L, LSR_DATASET, dataset_methods, dataset_gc);
    lsr_open_prepare(L);
    luaL_newlib(L, data_functions);
    return 1;
}

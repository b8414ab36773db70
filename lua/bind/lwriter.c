/* lwriter.c - a .sqr file being written from Lua: columns of any kind; part of seqrun.core.data. */
#include <math.h>
#include <string.h>

#include "core/data/carried.h"
#include "core/data/field.h"
#include "core/data/indexed.h"
#include "lua/bind/ldata.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ltext.h"

#define WRITER "seqrun.core.Writer"

static sr_shard_writer *check_writer(lua_State *L) {
    return lsr_checkobject(L, 1, WRITER, "the file was already committed or closed");
}

LSR_RELEASE(writer_close, WRITER, sr_shard_writer, sr_shard_abort)

/* writer(path: string) -> Writer writer | nil, message, code
 * Begins a .sqr file of any columns, which appears when it is committed. */
static int data_writer(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_shard_writer **box = lsr_newbox(L, sizeof *box, WRITER);
    return lsr_give(L, sr_shard_create(box, path));
}

/* @class seqrun.core.data.writer
 * A .sqr file being written. */

/* writer:column(name: string, type: "bytes"|"u8"|"u16"|"u32"|"u64"|"i32"|"f32"|"f64"|"i64") ->
 *     integer
 * Adds a column and returns its number. */
static int writer_column(lua_State *L) {
    static const char *const types[] = {"bytes", "u8",  "u16", "u32", "u64",
                                        "i32",   "f32", "f64", "i64", NULL};
    sr_shard_writer *w = check_writer(L);
    int number, type = luaL_checkoption(L, 3, NULL, types) + SR_COLUMN_BYTES;
    lsr_check(L, sr_shard_add_column(w, &number, luaL_checkstring(L, 2), (sr_column_type)type));
    return lsr_give_integer(L, number);
}

/* writer:field(name: string, type: "i32"|"i64"|"f32"|"bytes", per: "example"|"token", size:
 *     integer) -> integer column, integer? lengths
 * Adds a column of values that belong to examples or to their tokens, and declares its shape.
 *   size     values of each; 0: lists of any length
 *   lengths  the column of the lengths of lists */
static int writer_field(lua_State *L) {
    static const char *const types[] = {"i32", "i64", "f32", "bytes", NULL};
    static const sr_column_type type[] = {SR_COLUMN_I32, SR_COLUMN_I64, SR_COLUMN_F32,
                                          SR_COLUMN_BYTES};
    static const char *const pers[] = {"example", "token", NULL};
    sr_shard_writer *w = check_writer(L);
    const char *name = luaL_checkstring(L, 2);
    int which = lsr_checkoption(L, 3, "column type", NULL, types);
    bool per_token = lsr_checkoption(L, 4, "per", NULL, pers) == 1;
    uint32_t size = (uint32_t)lsr_checkrange(L, 5, 0, UINT32_MAX);
    sr_field_column f;
    lsr_check(L, sr_field_add(&f, w, name, type[which], per_token, size));
    lua_pushinteger(L, f.values);
    if (f.counts < 0) return 1;
    lua_pushinteger(L, f.counts);
    return 2;
}

/* writer:append(column: integer, bytes: string) -> true done | nil, message, code
 * Appends whole elements, little-endian as string.pack writes them. */
static int writer_append(lua_State *L) {
    size_t size;
    sr_shard_writer *w = check_writer(L);
    int column = (int)lsr_checkrange(L, 2, 0, SR_SHARD_COLUMNS);
    const char *bytes = luaL_checklstring(L, 3, &size);
    size_t each = sr_shard_element(w, column);
    if (each == 0) lsr_argerror(L, 2, "unknown column");
    if (size % each != 0) lsr_argerror(L, 3, "must hold whole elements");
    return lsr_done(L, sr_shard_append(w, column, bytes, size / each));
}

/* ---- values, checked ---- */

typedef struct values {
    int type, column;
    lua_Integer least, most; /* of integers */
    const char *name;        /* for messages */
    lua_Integer example;
    bool each; /* one value per example, from `example` on */
} values;

static int bad_value(lua_State *L, int value, const values *v, lua_Integer i, const char *wanted) {
    const char *given = luaL_tolstring(L, value, NULL);
    lua_Integer example = v->each ? v->example + i - 1 : v->example;
    return lsr_error(L, "data.write: example %I: value %I of '%s' is %s; %s", example,
                     v->each ? 1 : i, v->name, given, wanted);
}

static void integer_range(lua_State *L, values *v) {
    switch (v->type) {
    case SR_COLUMN_U16:
        v->least = 0, v->most = UINT16_MAX;
        break;
    case SR_COLUMN_U32:
        v->least = 0, v->most = UINT32_MAX;
        break;
    case SR_COLUMN_I32:
        v->least = INT32_MIN, v->most = INT32_MAX;
        break;
    case SR_COLUMN_I64:
        v->least = INT64_MIN, v->most = INT64_MAX;
        break;
    case SR_COLUMN_F32:
        break;
    default:
        lsr_argerror(L, 2, "this column holds bytes; use append");
    }
    v->most = luaL_optinteger(L, 6, v->most);
}

/* Writes the value on top of the stack to `out`; little-endian hosts only: x86-64. */
static void read_value(lua_State *L, void *out, const values *v, lua_Integer i) {
    int value = lua_gettop(L);
    bool number = lua_type(L, value) == LUA_TNUMBER; /* not a numeric string */
    if (v->type == SR_COLUMN_F32) {
        float x = (float)lua_tonumber(L, value);
        if (!number || isinf(x)) bad_value(L, value, v, i, "expected a number that fits into f32");
        memcpy(out, &x, sizeof x);
        return;
    }
    int whole = 0;
    lua_Integer x = number ? lua_tointegerx(L, value, &whole) : 0;
    if (!whole || x < v->least || x > v->most)
        bad_value(L, value, v, i,
                  lua_pushfstring(L, "expected an integer from %I to %I", v->least, v->most));
    memcpy(out, &x, sr_column_size(v->type));
}

/* writer:values(column: integer, list: number[], name: string, example: integer, most?: integer,
 *     each?: boolean) -> true done | nil, message, code
 * Appends numbers, each checked against the type of the column.
 *   name     what messages call the column
 *   example  its number, for messages
 *   most     the largest allowed
 *   each     one value for each example, from `example` on */
static int writer_values(lua_State *L) {
    sr_shard_writer *w = check_writer(L);
    values v = {.column = (int)lsr_checkrange(L, 2, 0, SR_SHARD_COLUMNS),
                .name = luaL_checkstring(L, 4),
                .example = luaL_checkinteger(L, 5),
                .each = lua_toboolean(L, 7)};
    v.type = sr_shard_type(w, v.column);
    integer_range(L, &v);
    if (!lua_istable(L, 3)) lsr_typeerror(L, 3, "list");
    int64_t n = (int64_t)lua_rawlen(L, 3);
    size_t size = sr_column_size(v.type);
    char *bytes = lsr_scratch(L, n, size);
    for (int64_t i = 0; i < n; i++) {
        lua_rawgeti(L, 3, i + 1);
        read_value(L, bytes + (size_t)i * size, &v, i + 1);
        lua_pop(L, 1);
    }
    return lsr_done(L, sr_shard_append(w, v.column, bytes, (size_t)n));
}

/* ---- the rest ---- */

/* writer:tokenizer(t: Tokenizer) -> true done | nil, message, code
 * Adds the tokenizer that the ids are of. */
static int writer_tokenizer(lua_State *L) {
    sr_shard_writer *w = check_writer(L);
    return lsr_done(L, sr_carried_write(w, lsr_checktokenizer(L, 2)));
}

/* writer:meta(key: string, value: string) -> true done | nil, message, code
 * Sets a metadata entry. */
static int writer_meta(lua_State *L) {
    sr_shard_writer *w = check_writer(L);
    return lsr_done(L, sr_shard_set_meta(w, luaL_checkstring(L, 2), luaL_checkstring(L, 3)));
}

/* writer:commit() -> true done | nil, message, code
 * Renames the file into place. */
static int writer_commit(lua_State *L) {
    sr_shard_writer *w = check_writer(L);
    *(sr_shard_writer **)lua_touserdata(L, 1) = NULL;
    return lsr_done(L, sr_shard_commit(w));
}

/* writer:import(paths: string|string[], t: Tokenizer) -> { files: integer, documents: integer,
 *     sentences: integer, tokens: integer, left_out: integer } counts | nil, message, code
 * Adds the ids of Megatron's indexed sets, and all columns but those of the tokenizer.
 *   t  that the ids are of */
static int writer_import(lua_State *L) {
    sr_shard_writer *w = check_writer(L);
    size_t count;
    const sr_tokenizer *t = lsr_checktokenizer(L, 3);
    const char *const *paths = lsr_checkpaths(L, 2, &count);
    sr_ids_counts c;
    LSR_TRY(L, sr_indexed_import(&c, w, paths, count, t));
    lua_createtable(L, 0, 5);
    lsr_set_integer(L, "files", (int64_t)c.files);
    lsr_set_integer(L, "documents", (int64_t)c.documents);
    lsr_set_integer(L, "sentences", (int64_t)c.sentences);
    lsr_set_integer(L, "tokens", (int64_t)c.tokens);
    lsr_set_integer(L, "left_out", (int64_t)c.left_out);
    return 1;
}

/* writer:close()
 * Aborts and leaves no file; harmless after commit(). */
static const luaL_Reg writer_methods[] = {
    {"column", writer_column}, {"field", writer_field},
    {"append", writer_append}, {"values", writer_values},
    {"meta", writer_meta},     {"tokenizer", writer_tokenizer},
    {"import", writer_import}, {"commit", writer_commit},
    {"close", writer_close},   {NULL, NULL}};

static const luaL_Reg functions[] = {{"writer", data_writer}, {NULL, NULL}};

void lsr_open_writer(lua_State *L) {
    lsr_class(L, WRITER, writer_methods, writer_close);
    luaL_setfuncs(L, functions, 0);
}

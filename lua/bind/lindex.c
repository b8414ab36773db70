/* lindex.c - index files of DeepSpeed; part of seqrun.core.metric, wrapped by
 * lua/seqrun/data/index.lua. */
#include "core/data/index.h"

#include "lua/bind/lcheck.h"
#include "lua/bind/lmetric.h"

#define INDEX "seqrun.core.Index"
#define WRITER "seqrun.core.IndexWriter"

static const char *const type_names[] = {"u8",  "i8",  "i16", "i32", "i64",
                                         "u16", "u32", "u64", NULL};

/* ---- reading ---- */

LSR_RELEASE(index_gc, INDEX, sr_index, sr_index_close)

static sr_index *check_index(lua_State *L) {
    return lsr_checkobject(L, 1, INDEX, "the index was closed");
}

/* index(name: string) -> Index index | nil, message, code
 * Opens NAME.idx and NAME.bin. */
int lsr_index_open(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    sr_index **box = lsr_newbox(L, sizeof *box, INDEX);
    return lsr_give(L, sr_index_open(box, name));
}

/* @class seqrun.core.metric.index
 * An index of DeepSpeed: rows of integers. */

/* index:info() -> { type: string, rows: integer, documents: integer, bytes: integer }
 * Its type, rows, documents, and bytes of values. */
static int index_info(lua_State *L) {
    const sr_index *x = check_index(L);
    lua_newtable(L);
    lsr_set_string(L, "type", sr_index_type_name(x->type));
    lsr_set_integer(L, "rows", (int64_t)x->rows);
    lsr_set_integer(L, "documents", (int64_t)x->documents);
    lsr_set_integer(L, "bytes", (int64_t)x->bytes);
    return 1;
}

/* index:row(i: integer) -> integer[] values | nil, message, code
 * The values of a row.
 *   i  from 0 */
static int index_row(lua_State *L) {
    const sr_index *x = check_index(L);
    if (x->rows == 0) lsr_error(L, "%s has no rows", x->idx_path);
    uint64_t row = (uint64_t)lsr_checkrange(L, 2, 0, (int64_t)x->rows - 1);
    int64_t count;
    sr_status st = sr_index_size(&count, x, row);
    if (st != SR_OK) return lsr_result(L, st);
    int64_t *value = lsr_scratch(L, count, sizeof *value);
    st = sr_index_read(value, x, row, 0, count);
    if (st != SR_OK) return lsr_result(L, st);
    lua_createtable(L, (int)count, 0);
    for (int64_t i = 0; i < count; i++) {
        lua_pushinteger(L, value[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* ---- writing ---- */

LSR_RELEASE(writer_gc, WRITER, sr_index_writer, sr_index_abort)

static sr_index_writer *check_writer(lua_State *L) {
    return lsr_checkobject(L, 1, WRITER, "the index was already committed or closed");
}

/* index_writer(name: string, type: "u8"|"i8"|"i16"|"i32"|"i64"|"u16"|"u32"|"u64") -> Indexwriter
 *     writer | nil, message, code
 * Begins NAME.idx and NAME.bin, which appear when they are committed. */
int lsr_index_writer(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    int type = lsr_checkoption(L, 2, "type of an index", NULL, type_names) + SR_INDEX_U8;
    sr_index_writer **box = lsr_newbox(L, sizeof *box, WRITER);
    return lsr_give(L, sr_index_create(box, name, (sr_index_type)type));
}

/* @class seqrun.core.metric.indexwriter
 * An index being written. */

/* indexwriter:row(values: integer[]) -> true done | nil, message, code
 * Appends a row. */
static int writer_row(lua_State *L) {
    sr_index_writer *w = check_writer(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    int64_t n = (int64_t)lua_rawlen(L, 2), *value = lsr_scratch(L, n, sizeof *value);
    for (int64_t i = 0; i < n; i++)
        value[i] = lsr_checkelement(L, 2, i + 1, "row", INT64_MIN, INT64_MAX);
    sr_status st = sr_index_put(w, value, n);
    return lsr_done(L, st == SR_OK ? sr_index_end_row(w) : st);
}

/* indexwriter:commit() -> true done | nil, message, code
 * Moves the files to their names. */
static int writer_commit(lua_State *L) {
    sr_index_writer *w = check_writer(L);
    *(sr_index_writer **)lua_touserdata(L, 1) = NULL;
    return lsr_done(L, sr_index_commit(w));
}

/* ---- metrics ---- */

/* index_of(of: Metric, name: string) -> true done | nil, message, code
 * Writes a metric of integers as the files of DeepSpeed's analysis. */
int lsr_index_of(lua_State *L) {
    return lsr_done(L, sr_index_of_metric(lsr_checkmetric(L, 1), luaL_checkstring(L, 2)));
}

/* from_index(name: string) -> Metric metric | nil, message, code
 * The metric that files of DeepSpeed's analysis have, in memory. */
int lsr_index_metric(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    double **values = lsr_newbytes(L);
    sr_metric **box = lsr_newbox(L, sizeof *box, LSR_METRIC);
    int64_t count;
    sr_status st = sr_index_values(values, &count, name);
    if (st == SR_OK) st = sr_metric_of(box, *values, count);
    return lsr_give(L, st);
}

/* index:close()
 * Closes the files. */
static const luaL_Reg index_methods[] = {
    {"info", index_info}, {"row", index_row}, {"close", index_gc}, {NULL, NULL}};

/* indexwriter:close()
 * Removes them unless they were committed. */
static const luaL_Reg writer_methods[] = {
    {"row", writer_row}, {"commit", writer_commit}, {"close", writer_gc}, {NULL, NULL}};

void lsr_open_index(lua_State *L) {
    lsr_class(L, INDEX, index_methods, index_gc);
    lsr_class(L, WRITER, writer_methods, writer_gc);
}

/* lmetric.c - seqrun.core.metric: metrics of data sets; wrapped by lua/seqrun/data/metric.lua. */
#include "lua/bind/lmetric.h"

#include "core/data/shard.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ldata.h"

sr_metric *lsr_checkmetric(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_METRIC, "the metric was closed");
}

LSR_RELEASE(metric_gc, LSR_METRIC, sr_metric, sr_metric_close)

/* open(path: string) -> Metric metric | nil, message, code
 * Opens a metric file. */
static int metric_open(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_metric **box = lsr_newbox(L, sizeof *box, LSR_METRIC);
    return lsr_give(L, sr_metric_open(box, path));
}

/* of(values: number[]) -> Metric
 * A metric in memory: values[uid + 1]. */
static int metric_of(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    int64_t n = (int64_t)lua_rawlen(L, 1);
    double *value = lsr_scratch(L, n, sizeof *value);
    for (int64_t i = 0; i < n; i++) {
        lua_rawgeti(L, 1, i + 1);
        if (lua_type(L, -1) != LUA_TNUMBER)
            lsr_error(L, "metric: value %I is a %s; expected a number", (lua_Integer)i + 1,
                      luaL_typename(L, -1));
        value[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    sr_metric **box = lsr_newbox(L, sizeof *box, LSR_METRIC);
    return lsr_made(L, sr_metric_of(box, value, n));
}

static void push_value(lua_State *L, const sr_metric *m, double value) {
    if (m->whole)
        lua_pushinteger(L, (lua_Integer)value);
    else
        lua_pushnumber(L, value);
}

static void set_meta(lua_State *L, const sr_metric *m, const char *key) {
    const char *value = m->shard != NULL ? sr_shard_meta(m->shard, key) : NULL;
    if (value != NULL) lsr_set_string(L, key, value);
}

/* @class seqrun.core.metric.metric */

/* metric:info() -> table
 * Its name, count, whether it is whole (all integers) and accumulated; of a file its path, bytes
 * and metadata: data and vocab (digests), examples, options, distinct. */
static int metric_info(lua_State *L) {
    const sr_metric *m = lsr_checkmetric(L, 1);
    lua_newtable(L);
    lsr_set_string(L, "name", sr_metric_name(m));
    lsr_set_integer(L, "count", m->count);
    lsr_set_bool(L, "whole", m->whole);
    lsr_set_bool(L, "accumulated", m->accumulated);
    if (m->shard == NULL) return 1;
    lsr_set_string(L, "path", sr_shard_path(m->shard));
    lsr_set_integer(L, "bytes", (int64_t)sr_shard_bytes(m->shard));
    static const char *const keys[] = {"data", "vocab", "examples", "options", "distinct"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) set_meta(L, m, keys[i]);
    return 1;
}

/* metric:value(uid: integer) -> number value | nil, message, code
 * The value of a sequence (accumulated: of an index), from 0. */
static int metric_value(lua_State *L) {
    const sr_metric *m = lsr_checkmetric(L, 1);
    double value;
    LSR_TRY(L, sr_metric_values(&value, m, lsr_checkrange(L, 2, 0, m->count - 1), 1));
    push_value(L, m, value);
    return 1;
}

/* The span of the arguments: first position, from 0, and the number of elements. */
static int64_t check_span(lua_State *L, int64_t *count, int64_t all) {
    int64_t first = lsr_optrange(L, 2, 0, 0, all);
    *count = lsr_optrange(L, 3, all - first, 0, all - first);
    return first;
}

/* metric:values(first?: integer, count?: integer) -> number[] values | nil, message, code
 * The values of `count` sequences from uid `first` on, all by default.
 *   first  from 0 */
static int metric_values(lua_State *L) {
    const sr_metric *m = lsr_checkmetric(L, 1);
    int64_t n, first = check_span(L, &n, m->count);
    double *value = lsr_scratch(L, n, sizeof *value);
    LSR_TRY(L, sr_metric_values(value, m, first, n));
    LSR_PUSH_LIST(L, n, i, push_value(L, m, value[i]));
    return 1;
}

/* metric:order(first?: integer, count?: integer) -> integer[] uids | nil, message, code
 * Uids by ascending value, ties by uid: `count` of them from position `first` on, all by default.
 *   first  from 0 */
static int metric_order(lua_State *L) {
    const sr_metric *m = lsr_checkmetric(L, 1);
    int64_t n, first = check_span(L, &n, m->count);
    uint32_t *uid = lsr_scratch(L, n, sizeof *uid);
    LSR_TRY(L, sr_metric_order(uid, m, first, n));
    LSR_PUSH_LIST(L, n, i, lua_pushinteger(L, uid[i]));
    return 1;
}

/* metric:at(i: integer) -> number value | nil, message, code
 * The value at a position of the order.
 *   i  from 0 */
static int metric_at(lua_State *L) {
    const sr_metric *m = lsr_checkmetric(L, 1);
    double value;
    LSR_TRY(L, sr_metric_at(&value, m, lsr_checkrange(L, 2, 0, m->count - 1)));
    push_value(L, m, value);
    return 1;
}

/* metric:upto(value: number) -> integer count | nil, message, code
 * The number of sequences whose value is at most `value`; they come first in the order. */
static int metric_upto(lua_State *L) {
    int64_t count;
    LSR_TRY(L, sr_metric_upto(&count, lsr_checkmetric(L, 1), luaL_checknumber(L, 2)));
    return lsr_give_integer(L, count);
}

/* metric:check(dataset: Dataset, options?: table, examples?: integer) -> true done | nil, message,
 *     code
 * Whether it is of this data set and of the examples that a loader with these options draws; the
 * failure says what differs.
 *   options   of a loader
 *   examples  that the loader has */
static int metric_check(lua_State *L) {
    const sr_metric *m = lsr_checkmetric(L, 1);
    const sr_dataset *d = lsr_checkdataset(L, 2);
    sr_examples_opts opts = {0};
    bool given = lua_istable(L, 3);
    if (given) lsr_readexamples(L, 3, &opts);
    return lsr_done(L, sr_metric_check(m, d, given ? &opts : NULL, luaL_optinteger(L, 4, -1)));
}

/* arguments(dataset: Dataset, options: table) -> string
 * The arguments that make `seqrun analyze DATA --metric NAME` measure the examples of a loader
 * with these options.
 *   options  part, max_len, nsp, short_seq_prob, short_seq_by, seed, too_long */
static int metric_arguments(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    sr_examples_opts opts = {0};
    char out[SR_METRIC_SUBJECT];
    luaL_checktype(L, 2, LUA_TTABLE);
    lsr_readexamples(L, 2, &opts);
    sr_metric_arguments(out, d, &opts);
    return lsr_give_string(L, out);
}

/* metric:close()
 * Closes the file. */
static const luaL_Reg metric_methods[] = {
    {"info", metric_info},   {"value", metric_value}, {"values", metric_values},
    {"order", metric_order}, {"at", metric_at},       {"upto", metric_upto},
    {"check", metric_check}, {"close", metric_gc},    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"open", metric_open},
    {"arguments", metric_arguments},
    {"of", metric_of},
    {NULL, NULL},
};

/* @class seqrun.core.metric
 * Metrics: one number for each sequence of a data set. */
void lsr_open_metric(lua_State *L) {
    lsr_class(L, LSR_METRIC, metric_methods, metric_gc);
    luaL_setfuncs(L, functions, 0);
}

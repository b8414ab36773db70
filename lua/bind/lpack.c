/* lpack.c - seqrun.core.pack: histograms, solvers, plans. */
#include <string.h>

#include "core/base/mem.h"
#include "core/pack/bounds.h"
#include "core/pack/build.h"
#include "core/pack/depth.h"
#include "core/pack/online.h"
#include "lua/bind/lpack.h"
#include "lua/bind/lseqrun.h"

#define HISTOGRAM "seqrun.pack_histogram"
#define PLAN "seqrun.pack_plan"
#define LENGTHS "seqrun.pack_lengths"
#define BUILDER "seqrun.pack_builder"

void *lsr_pack_box(lua_State *L, size_t size, const char *name) {
    void *box = lua_newuserdatauv(L, size, 0);
    memset(box, 0, size);
    luaL_setmetatable(L, name);
    return box;
}

int lsr_pack_give(lua_State *L, sr_status st) {
    return st == SR_OK ? 1 : lsr_result(L, st);
}

/* ---- options ---- */

static const char *const policies[] = {"error", "truncate", "split", NULL};

static int64_t field_integer(lua_State *L, int arg, const char *name, int64_t otherwise) {
    if (lua_isnoneornil(L, arg)) return otherwise;
    luaL_checktype(L, arg, LUA_TTABLE);
    int64_t value = otherwise;
    if (lua_getfield(L, arg, name) != LUA_TNIL) {
        int whole;
        value = lua_tointegerx(L, -1, &whole);
        if (!whole) lsr_error(L, "pack: option '%s' is not a whole number", name);
    }
    lua_pop(L, 1);
    return value;
}

static double field_number(lua_State *L, int arg, const char *name) {
    if (lua_isnoneornil(L, arg)) return 0;
    double value = 0;
    if (lua_getfield(L, arg, name) != LUA_TNIL) {
        int good;
        value = lua_tonumberx(L, -1, &good);
        if (!good || !(value >= 0)) lsr_error(L, "pack: option '%s' is not a number >= 0", name);
    }
    lua_pop(L, 1);
    return value;
}

static int32_t field_int32(lua_State *L, int arg, const char *name) {
    int64_t value = field_integer(L, arg, name, 0);
    if (value < 0 || value > INT32_MAX)
        lsr_error(L, "pack: option '%s' is not in 0..2147483647", name);
    return (int32_t)value;
}

/* { solver, max_seqs, iterations, seconds, seed, open }; the solver's name stays on the stack. */
sr_pack_opts lsr_pack_options(lua_State *L, int arg) {
    sr_pack_opts o = {.max_seqs = field_int32(L, arg, "max_seqs"),
                      .iterations = field_integer(L, arg, "iterations", 0),
                      .seed = (uint64_t)field_integer(L, arg, "seed", 0),
                      .open = field_int32(L, arg, "open"),
                      .seconds = field_number(L, arg, "seconds")};
    if (lua_istable(L, arg) && lua_getfield(L, arg, "solver") != LUA_TNIL)
        o.solver = luaL_checkstring(L, -1);
    return o;
}

static sr_long_policy check_policy(lua_State *L, int arg) {
    return (sr_long_policy)luaL_checkoption(L, arg, "error", policies);
}

/* ---- lengths ---- */

static int lengths_free(lua_State *L) {
    uint32_t **box = luaL_checkudata(L, 1, LENGTHS);
    sr_free(*box);
    *box = NULL;
    return 0;
}

/* A list of whole numbers as an array in a box on the stack, or a string of 16-bit ones as it is.
 */
sr_lengths lsr_pack_lengths(lua_State *L, int arg) {
    if (lua_type(L, arg) == LUA_TSTRING)
        return (sr_lengths){lua_tostring(L, arg), 2, (int64_t)lua_rawlen(L, arg) / 2};
    luaL_checktype(L, arg, LUA_TTABLE);
    int64_t n = (int64_t)lua_rawlen(L, arg);
    uint32_t **box = lsr_pack_box(L, sizeof *box, LENGTHS);
    lsr_check(L, sr_new(box, n));
    for (int64_t i = 0; i < n; i++) {
        int whole;
        lua_rawgeti(L, arg, i + 1);
        lua_Integer length = lua_tointegerx(L, -1, &whole);
        if (!whole || length < 0 || length > UINT32_MAX)
            lsr_error(L, "pack: length %I is not a whole number of tokens", (lua_Integer)i + 1);
        (*box)[i] = (uint32_t)length;
        lua_pop(L, 1);
    }
    return (sr_lengths){*box, 4, n};
}

/* ---- histogram ---- */

sr_histogram *lsr_pack_histogram(lua_State *L, int arg) {
    return luaL_checkudata(L, arg, HISTOGRAM);
}

static int histogram_free(lua_State *L) {
    sr_histogram_free(lsr_pack_histogram(L, 1));
    return 0;
}

/* count(lengths, max_len[, too_long]) -> Histogram | nil, message, code */
static int pack_count(lua_State *L) {
    int64_t capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_long_policy policy = check_policy(L, 3);
    sr_lengths lengths = lsr_pack_lengths(L, 1);
    sr_histogram *h = lsr_pack_box(L, sizeof *h, HISTOGRAM);
    return lsr_pack_give(L, sr_histogram_count(h, &lengths, capacity, policy));
}

static void push_piece_field(lua_State *L, const sr_piece *piece, int64_t n, int field) {
    lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
    for (int64_t i = 0; i < n; i++) {
        const sr_piece *p = &piece[i];
        lua_pushinteger(L, field == 0 ? p->length : field == 1 ? p->uid : p->start);
        lua_rawseti(L, -2, i + 1);
    }
}

/* split(lengths, max_len) -> lengths of the pieces, uids, starts | nil, message, code */
static int pack_split(lua_State *L) {
    int64_t n, capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_lengths lengths = lsr_pack_lengths(L, 1);
    void **box = lsr_pack_box(L, sizeof *box, LENGTHS);
    sr_status st = sr_lengths_split((sr_piece **)box, &n, &lengths, capacity);
    if (st != SR_OK) return lsr_result(L, st);
    for (int field = 0; field < 3; field++) push_piece_field(L, *box, n, field);
    return 3;
}

/* histogram(counts, max_len[, too_long]) -> Histogram | nil, message, code */
static int pack_histogram(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    int64_t capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH), rows = (int64_t)lua_rawlen(L, 1);
    sr_long_policy policy = check_policy(L, 3);
    sr_histogram *h = lsr_pack_box(L, sizeof *h, HISTOGRAM);
    sr_status st = sr_histogram_new(h, capacity);
    for (int64_t l = 1; l <= rows && st == SR_OK; l++) {
        int whole;
        lua_rawgeti(L, 1, l);
        lua_Integer n = lua_tointegerx(L, -1, &whole);
        if (!whole || n < 0) lsr_error(L, "pack: count %I is not a whole number", (lua_Integer)l);
        st = sr_histogram_add(h, l, n, policy);
        lua_pop(L, 1);
    }
    return lsr_pack_give(L, st);
}

/* load_histogram(path[, max_len[, too_long]]) -> Histogram | nil, message, code */
static int pack_load_histogram(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    int64_t capacity = lua_isnoneornil(L, 2) ? 0 : lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_long_policy policy = check_policy(L, 3);
    sr_histogram *h = lsr_pack_box(L, sizeof *h, HISTOGRAM);
    return lsr_pack_give(L, sr_histogram_load(h, path, capacity, policy));
}

/* histogram:fit(max_len[, too_long]) -> Histogram | nil, message, code */
static int histogram_fit(lua_State *L) {
    const sr_histogram *from = lsr_pack_histogram(L, 1);
    int64_t capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_long_policy policy = check_policy(L, 3);
    sr_histogram *h = lsr_pack_box(L, sizeof *h, HISTOGRAM);
    return lsr_pack_give(L, sr_histogram_fit(h, from, capacity, policy));
}

/* histogram:deal([seed]) -> string: the lengths in a drawn order, 16 bits each */
static int histogram_deal(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    uint64_t seed = (uint64_t)luaL_optinteger(L, 2, 0);
    void **box = lsr_pack_box(L, sizeof *box, LENGTHS);
    lsr_check(L, sr_histogram_deal((uint16_t **)box, h, seed));
    lua_pushlstring(L, *box != NULL ? *box : "", (size_t)h->sequences * 2);
    return 1;
}

/* histogram:save(path) -> true | nil, message, code */
static int histogram_save(lua_State *L) {
    sr_status st = sr_histogram_save(lsr_pack_histogram(L, 1), luaL_checkstring(L, 2));
    lua_pushboolean(L, true);
    return lsr_pack_give(L, st);
}

/* histogram:counts() -> { [1] = sequences of 1 token, ... } */
static int histogram_counts(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    lua_createtable(L, h->capacity, 0);
    for (int32_t l = 1; l <= h->capacity; l++) {
        lua_pushinteger(L, h->count[l]);
        lua_rawseti(L, -2, l);
    }
    return 1;
}

void lsr_pack_integer(lua_State *L, const char *name, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

static void set_number(lua_State *L, const char *name, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *value) {
    lua_pushstring(L, value);
    lua_setfield(L, -2, name);
}

/* histogram:info() -> { max_len, sequences, tokens, longer, lost, distinct } */
static int histogram_info(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    int64_t distinct = 0;
    for (int32_t l = 1; l <= h->capacity; l++) distinct += h->count[l] > 0;
    lua_createtable(L, 0, 6);
    lsr_pack_integer(L, "max_len", h->capacity);
    lsr_pack_integer(L, "sequences", h->sequences);
    lsr_pack_integer(L, "tokens", h->tokens);
    lsr_pack_integer(L, "longer", h->longer);
    lsr_pack_integer(L, "lost", h->lost);
    lsr_pack_integer(L, "distinct", distinct);
    return 1;
}

/* histogram:bounds([max_seqs]) -> { tokens, count, l2 } */
static int histogram_bounds(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    int32_t depth = lua_isnoneornil(L, 2) ? 0 : (int32_t)lsr_checkrange(L, 2, 0, INT32_MAX);
    lua_createtable(L, 0, 3);
    lsr_pack_integer(L, "tokens", sr_bound_tokens(h));
    lsr_pack_integer(L, "count", sr_bound_count(h, depth));
    lsr_pack_integer(L, "l2", sr_bound_l2(h));
    return 1;
}

/* ---- plan ---- */

sr_plan *lsr_pack_plan(lua_State *L, int arg) {
    sr_plan **box = luaL_checkudata(L, arg, PLAN);
    luaL_argcheck(L, *box != NULL, arg, "the plan is closed");
    return *box;
}

static int plan_free(lua_State *L) {
    sr_plan **box = luaL_checkudata(L, 1, PLAN);
    sr_plan_free(*box);
    *box = NULL;
    return 0;
}

/* solvers() -> { names, the default first } */
static int pack_solvers(lua_State *L) {
    const char *name;
    lua_newtable(L);
    for (int i = 0; (name = sr_pack_solver(i)) != NULL; i++) {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* solve(histogram[, options]) -> Plan | nil, message, code; an unknown solver raises */
static int pack_solve(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    sr_pack_opts o = lsr_pack_options(L, 2);
    sr_plan **box = lsr_pack_box(L, sizeof *box, PLAN);
    sr_status st = sr_pack_solve(box, h, &o);
    if (st == SR_EINVAL) lsr_check(L, st);
    return lsr_pack_give(L, st);
}

/* online(lengths, max_len[, options[, too_long]]) -> Plan | nil, message, code */
static int pack_online(lua_State *L) {
    int64_t capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_pack_opts o = lsr_pack_options(L, 3);
    sr_long_policy policy = check_policy(L, 4);
    sr_lengths lengths = lsr_pack_lengths(L, 1);
    sr_plan **box = lsr_pack_box(L, sizeof *box, PLAN);
    return lsr_pack_give(
        L, sr_online_plan(box, &lengths, (int32_t)capacity, o.max_seqs, o.open, policy));
}

/* A builder that is dropped when Lua raises in the middle. */
static int builder_free(lua_State *L) {
    sr_build_drop(luaL_checkudata(L, 1, BUILDER));
    return 0;
}

/* The list of lengths on top of the stack as parts of one copy each. */
static size_t read_parts(lua_State *L, sr_part *parts, int32_t capacity, lua_Integer pattern) {
    size_t n = (size_t)lua_rawlen(L, -1);
    if (n == 0 || n > (size_t)capacity)
        lsr_error(L, "pack: pattern %I has %I lengths; wanted 1 to %d", pattern, (lua_Integer)n,
                  capacity);
    for (size_t k = 0; k < n; k++) {
        lua_rawgeti(L, -1, (lua_Integer)k + 1);
        lua_Integer length = lua_tointeger(L, -1);
        if (length < 1 || length > capacity)
            lsr_error(L, "pack: pattern %I has a length that is not in 1..%d", pattern, capacity);
        parts[k] = (sr_part){(uint16_t)length, 1};
        lua_pop(L, 1);
    }
    return n;
}

/* plan(histogram, { count =, length, length... } list, { solver, max_seqs }) -> Plan | nil, ... */
static int pack_plan(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_pack_opts o = lsr_pack_options(L, 3);
    sr_builder *b = lsr_pack_box(L, sizeof *b, BUILDER);
    sr_part *parts = lua_newuserdatauv(L, (size_t)h->capacity * sizeof *parts, 0);
    lsr_check(L, sr_build_begin(b, h, o.max_seqs, o.solver != NULL ? o.solver : "lua"));
    lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
    for (lua_Integer i = 1; i <= n; i++) {
        if (lua_rawgeti(L, 2, i) != LUA_TTABLE) lsr_error(L, "pack: pattern %I is no table", i);
        int64_t count = field_integer(L, lua_gettop(L), "count", 1);
        if (count < 0) lsr_error(L, "pack: pattern %I has a count below 0", i);
        size_t size = read_parts(L, parts, h->capacity, i);
        lsr_check(L, sr_build_add(b, count, parts, size));
        lua_pop(L, 1);
    }
    sr_plan **box = lsr_pack_box(L, sizeof *box, PLAN);
    return lsr_pack_give(L, sr_build_end(box, b));
}

/* load(path) -> Plan | nil, message, code */
static int pack_load(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_plan **box = lsr_pack_box(L, sizeof *box, PLAN);
    return lsr_pack_give(L, sr_plan_load(box, path));
}

/* parse(text[, name]) -> Plan | nil, message, code */
static int pack_parse(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size), *name = luaL_optstring(L, 2, "plan");
    sr_plan **box = lsr_pack_box(L, sizeof *box, PLAN);
    return lsr_pack_give(L, sr_plan_parse(box, text, size, name));
}

/* plan:save(path) -> true | nil, message, code */
static int plan_save(lua_State *L) {
    sr_status st = sr_plan_save(lsr_pack_plan(L, 1), luaL_checkstring(L, 2));
    lua_pushboolean(L, true);
    return lsr_pack_give(L, st);
}

/* plan:text() -> string */
static int plan_text(lua_State *L) {
    size_t size;
    const sr_plan *p = lsr_pack_plan(L, 1);
    char **box = lsr_pack_box(L, sizeof *box, LENGTHS); /* frees any block */
    lsr_check(L, sr_plan_print(box, &size, p));
    lua_pushlstring(L, *box, size);
    return 1;
}

/* plan:info() -> table of all figures; max_seqs is nil when any number is allowed */
static int plan_info(lua_State *L) {
    const sr_plan *p = lsr_pack_plan(L, 1);
    lua_createtable(L, 0, 20);
    set_string(L, "solver", p->solver);
    lsr_pack_integer(L, "sequences", p->histogram.sequences);
    lsr_pack_integer(L, "tokens", p->histogram.tokens);
    lsr_pack_integer(L, "max_len", p->capacity);
    if (p->max_seqs > 0) lsr_pack_integer(L, "max_seqs", p->max_seqs);
    lsr_pack_integer(L, "packs", p->packs);
    lsr_pack_integer(L, "strategies", (int64_t)p->strategies);
    set_number(L, "efficiency", sr_plan_efficiency(p));
    set_number(L, "factor", sr_plan_factor(p));
    lsr_pack_integer(L, "padding_tokens", sr_plan_padding(p));
    lsr_pack_integer(L, "lower_bound", p->bound.packs);
    set_string(L, "bound_kind", sr_bound_name(p->bound.kind));
    lsr_pack_integer(L, "gap_packs", sr_plan_gap(p));
    lsr_pack_integer(L, "deepest", p->deepest);
    lsr_pack_integer(L, "unfilled", p->unfilled);
    lsr_pack_integer(L, "longer", p->histogram.longer);
    lsr_pack_integer(L, "lost", p->histogram.lost);
    set_number(L, "milliseconds", p->milliseconds);
    return 1;
}

/* plan:histogram() -> Histogram */
static int plan_histogram(lua_State *L) {
    const sr_plan *p = lsr_pack_plan(L, 1);
    sr_histogram *h = lsr_pack_box(L, sizeof *h, HISTOGRAM);
    lsr_check(L, sr_histogram_copy(h, &p->histogram));
    return 1;
}

/* plan:pattern(i) -> { count =, length, length, ... }: pattern i, from 1 */
static int plan_pattern(lua_State *L) {
    const sr_plan *p = lsr_pack_plan(L, 1);
    lua_Integer i = lsr_checkrange(L, 2, 1, (int64_t)p->strategies);
    const sr_pattern *q = &p->pattern[i - 1];
    lua_newtable(L);
    lsr_pack_integer(L, "count", q->count);
    lua_Integer at = 0;
    for (uint32_t k = 0; k < q->parts; k++)
        for (uint16_t c = 0; c < p->part[q->first + k].copies; c++) {
            lua_pushinteger(L, p->part[q->first + k].length);
            lua_rawseti(L, -2, ++at);
        }
    return 1;
}

/* choose_depth(histogram, options, tolerance) -> depth, reason, packs, bound | nil, message, code
 */
static int pack_choose_depth(lua_State *L) {
    sr_depth_choice c;
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    double tolerance = luaL_optnumber(L, 3, SR_DEPTH_TOLERANCE);
    sr_pack_opts o = lsr_pack_options(L, 2);
    sr_status st = sr_pack_choose_depth(&c, h, &o, tolerance);
    if (st == SR_EINVAL) lsr_check(L, st);
    if (st != SR_OK) return lsr_result(L, st);
    lua_pushinteger(L, c.max_seqs);
    lua_pushstring(L, c.reason);
    lua_pushinteger(L, c.packs);
    lua_pushinteger(L, c.bound);
    return 4;
}

/* ---- the module ---- */

static const luaL_Reg functions[] = {
    {"solvers", pack_solvers},
    {"count", pack_count},
    {"split", pack_split},
    {"histogram", pack_histogram},
    {"load_histogram", pack_load_histogram},
    {"solve", pack_solve},
    {"online", pack_online},
    {"plan", pack_plan},
    {"load", pack_load},
    {"parse", pack_parse},
    {"choose_depth", pack_choose_depth},
    {NULL, NULL},
};

static const luaL_Reg histogram_methods[] = {
    {"counts", histogram_counts},
    {"info", histogram_info},
    {"bounds", histogram_bounds},
    {"fit", histogram_fit},
    {"save", histogram_save},
    {"deal", histogram_deal},
    {NULL, NULL},
};
static const luaL_Reg plan_methods[] = {
    {"info", plan_info}, {"pattern", plan_pattern}, {"histogram", plan_histogram},
    {"text", plan_text}, {"save", plan_save},       {NULL, NULL},
};
void lsr_pack_class(lua_State *L, const char *name, const luaL_Reg *methods,
                    lua_CFunction release) {
    if (luaL_newmetatable(L, name)) {
        lua_pushcfunction(L, release);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, release);
        lua_setfield(L, -2, "__close");
        lua_newtable(L);
        if (methods != NULL) luaL_setfuncs(L, methods, 0);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
}

int luaopen_seqrun_core_pack(lua_State *L);
int luaopen_seqrun_core_pack(lua_State *L) {
    lsr_pack_class(L, HISTOGRAM, histogram_methods, histogram_free);
    lsr_pack_class(L, PLAN, plan_methods, plan_free);
    lsr_pack_class(L, LENGTHS, NULL, lengths_free);
    lsr_pack_class(L, BUILDER, NULL, builder_free);
    luaL_newlib(L, functions);
    lsr_pack_proofs(L);
    return 1;
}

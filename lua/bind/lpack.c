/* lpack.c - seqrun.core.pack: solvers and their plans. */
#include <stdio.h>

#include "core/pack/bounds.h"
#include "core/pack/build.h"
#include "core/pack/depth.h"
#include "core/pack/online.h"
#include "lua/bind/lpack.h"
#include "lua/bind/lcheck.h"

#define PLAN "seqrun.core.Plan"
#define BUILDER "seqrun.core.Builder"

/* ---- options ---- */

/* { solver, max_seqs, iterations, seconds, seed, open }. The table keeps the solver's name alive.
 */
sr_pack_opts lsr_pack_options(lua_State *L, int arg) {
    sr_pack_opts o = {.max_seqs = (int32_t)lsr_field_range(L, arg, "max_seqs", 0, 0, INT32_MAX),
                      .iterations = lsr_field_integer(L, arg, "iterations", 0),
                      .seed = (uint64_t)lsr_field_integer(L, arg, "seed", 0),
                      .open = (int32_t)lsr_field_range(L, arg, "open", 0, 0, INT32_MAX),
                      .seconds = lsr_field_number(L, arg, "seconds", 0),
                      .solver = lsr_field_string(L, arg, "solver", NULL)};
    if (!(o.seconds >= 0)) lsr_error(L, "option 'seconds' must be >= 0, got %f", o.seconds);
    return o;
}

/* ---- plan ---- */

sr_plan *lsr_pack_plan(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, PLAN, "the plan is closed");
}

LSR_RELEASE(plan_free, PLAN, sr_plan, sr_plan_free)

/* @alias seqrun.PackOptions { solver?: string, max_seqs?: integer, iterations?: integer, seconds?:
 *     number, seed?: integer, open?: integer } */

/* solvers() -> string[]
 * The names of all solvers, the default first. */
static int pack_solvers(lua_State *L) {
    const char *name;
    lua_newtable(L);
    for (int i = 0; (name = sr_pack_solver(i)) != NULL; i++) {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* solve(histogram: Histogram, options?: seqrun.PackOptions) -> Plan plan | nil, message, code
 * Packs a histogram; raises for an unknown solver or a depth that it does not support. */
static int pack_solve(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    sr_pack_opts o = lsr_pack_options(L, 2);
    sr_plan **box = lsr_newbox(L, sizeof *box, PLAN);
    return lsr_give(L, sr_pack_solve(box, h, &o));
}

/* online(lengths: integer[]|string, max_len: integer, options?: seqrun.PackOptions, too_long?:
 *     "error"|"truncate"|"split") -> Plan plan | nil, message, code
 * Packs a stream of lengths in order of arrival: best fit over options.open packs. */
static int pack_online(lua_State *L) {
    int64_t capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_pack_opts o = lsr_pack_options(L, 3);
    sr_long_policy policy = lsr_pack_policy(L, 4);
    sr_lengths lengths = lsr_pack_lengths(L, 1);
    sr_plan **box = lsr_newbox(L, sizeof *box, PLAN);
    return lsr_give(L,
                    sr_online_plan(box, &lengths, (int32_t)capacity, o.max_seqs, o.open, policy));
}

/* A builder, freed if Lua raises before it is done. */
static int builder_free(lua_State *L) {
    sr_build_drop(lsr_checkbox(L, 1, BUILDER));
    return 0;
}

/* The list of lengths on top of the stack as parts of one copy each. */
static size_t read_parts(lua_State *L, sr_plan_part *parts, int32_t capacity, lua_Integer pattern) {
    size_t n = (size_t)lua_rawlen(L, -1);
    if (n == 0 || n > (size_t)capacity)
        lsr_error(L, "pack: pattern %I has %I lengths; expected 1 to %d", pattern, (lua_Integer)n,
                  capacity);
    char what[40];
    snprintf(what, sizeof what, "pack: pattern %lld", (long long)pattern);
    for (size_t k = 0; k < n; k++) {
        int64_t length = lsr_checkelement(L, lua_gettop(L), (int64_t)k + 1, what, 1, capacity);
        parts[k] = (sr_plan_part){(uint16_t)length, 1};
    }
    return n;
}

/* plan(histogram: Histogram, patterns: table[], options?: { solver?: string, max_seqs?: integer })
 *     -> Plan plan | nil, message, code
 * Makes a plan of given patterns, { count = packs, length, length, ... } each, and checks it. */
static int pack_plan(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_pack_opts o = lsr_pack_options(L, 3);
    sr_builder *b = lsr_newbox(L, sizeof *b, BUILDER);
    sr_plan_part *parts = lsr_scratch(L, h->capacity, sizeof *parts);
    lsr_check(L, sr_build_begin(b, h, o.max_seqs, o.solver != NULL ? o.solver : "lua"));
    lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
    for (lua_Integer i = 1; i <= n; i++) {
        if (lua_rawgeti(L, 2, i) != LUA_TTABLE) lsr_error(L, "pack: pattern %I is not a table", i);
        int64_t count = lsr_field_range(L, lua_gettop(L), "count", 1, 0, INT64_MAX);
        size_t size = read_parts(L, parts, h->capacity, i);
        lsr_check(L, sr_build_add(b, count, parts, size));
        lua_pop(L, 1);
    }
    sr_plan **box = lsr_newbox(L, sizeof *box, PLAN);
    return lsr_give(L, sr_build_end(box, b));
}

/* load(path: string) -> Plan plan | nil, message, code
 * Reads a plan file. */
static int pack_load(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_plan **box = lsr_newbox(L, sizeof *box, PLAN);
    return lsr_give(L, sr_plan_load(box, path));
}

/* parse(text: string, name?: string) -> Plan plan | nil, message, code
 * Reads the text of a plan; `name` replaces the path in messages. */
static int pack_parse(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size), *name = luaL_optstring(L, 2, "plan");
    sr_plan **box = lsr_newbox(L, sizeof *box, PLAN);
    return lsr_give(L, sr_plan_parse(box, text, size, name));
}

/* @class seqrun.core.pack.Plan
 * Which lengths share a pack, and how often. */

/* plan:save(path: string) -> true done | nil, message, code
 * Writes the plan file. */
static int plan_save(lua_State *L) {
    return lsr_done(L, sr_plan_save(lsr_pack_plan(L, 1), luaL_checkstring(L, 2)));
}

/* plan:text() -> string
 * The plan file as a string. */
static int plan_text(lua_State *L) {
    size_t size;
    const sr_plan *p = lsr_pack_plan(L, 1);
    char **box = lsr_newbytes(L);
    lsr_check(L, sr_plan_print(box, &size, p));
    return lsr_give_bytes(L, *box, size);
}

void lsr_set_plan(lua_State *L, const sr_plan *p) {
    lsr_set_string(L, "solver", p->solver);
    lsr_set_integer(L, "sequences", p->histogram.sequences);
    lsr_set_integer(L, "tokens", p->histogram.tokens);
    lsr_set_integer(L, "max_len", p->capacity);
    lsr_set_integer(L, "packs", p->packs);
    lsr_set_integer(L, "strategies", (int64_t)p->strategies);
    lsr_set_number(L, "efficiency", sr_plan_efficiency(p));
    lsr_set_number(L, "factor", sr_plan_factor(p));
    lsr_set_integer(L, "padding_tokens", sr_plan_padding(p));
    lsr_set_integer(L, "lower_bound", p->bound.packs);
    lsr_set_string(L, "bound_kind", sr_bound_name(p->bound.kind));
    lsr_set_integer(L, "gap_packs", sr_plan_gap(p));
    lsr_set_integer(L, "deepest", p->deepest);
    lsr_set_number(L, "milliseconds", p->milliseconds);
}

/* plan:info() -> table<string, number|string>
 * The figures of the plan; max_seqs is nil if unlimited. */
static int plan_info(lua_State *L) {
    const sr_plan *p = lsr_pack_plan(L, 1);
    lua_createtable(L, 0, 20);
    lsr_set_plan(L, p);
    if (p->max_seqs > 0) lsr_set_integer(L, "max_seqs", p->max_seqs);
    lsr_set_integer(L, "unfilled", p->unfilled);
    lsr_set_integer(L, "longer", p->histogram.longer);
    lsr_set_integer(L, "lost", p->histogram.lost);
    return 1;
}

/* plan:histogram() -> Histogram
 * The histogram that the plan packs. */
static int plan_histogram(lua_State *L) {
    const sr_plan *p = lsr_pack_plan(L, 1);
    sr_histogram *h = lsr_pack_new_histogram(L);
    return lsr_made(L, sr_histogram_copy(h, &p->histogram));
}

/* plan:pattern(i: integer) -> table
 * Pattern i, from 1: { count = packs, length, length, ... }. */
static int plan_pattern(lua_State *L) {
    const sr_plan *p = lsr_pack_plan(L, 1);
    lua_Integer i = lsr_checkrange(L, 2, 1, (int64_t)p->strategies);
    const sr_plan_pattern *q = &p->pattern[i - 1];
    lua_newtable(L);
    lsr_set_integer(L, "count", q->count);
    lua_Integer at = 0;
    for (uint32_t k = 0; k < q->parts; k++)
        for (uint16_t c = 0; c < p->part[q->first + k].copies; c++) {
            lua_pushinteger(L, p->part[q->first + k].length);
            lua_rawseti(L, -2, ++at);
        }
    return 1;
}

/* choose_depth(histogram: Histogram, options?: seqrun.PackOptions, tolerance?: number) -> integer?
 *     depth, string? reason, integer|string|nil packs, integer? bound
 * The smallest depth whose packs are within `tolerance` (0.0005) of the bound without a limit, and
 * why. */
static int pack_choose_depth(lua_State *L) {
    sr_depth_choice c;
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    double tolerance = luaL_optnumber(L, 3, SR_DEPTH_TOLERANCE);
    sr_pack_opts o = lsr_pack_options(L, 2);
    LSR_TRY(L, sr_pack_choose_depth(&c, h, &o, tolerance));
    lua_pushinteger(L, c.max_seqs);
    lua_pushstring(L, c.reason);
    lua_pushinteger(L, c.packs);
    lua_pushinteger(L, c.bound);
    return 4;
}

/* ---- the module ---- */

static const luaL_Reg functions[] = {
    {"solvers", pack_solvers},
    {"solve", pack_solve},
    {"online", pack_online},
    {"plan", pack_plan},
    {"load", pack_load},
    {"parse", pack_parse},
    {"choose_depth", pack_choose_depth},
    {NULL, NULL},
};

static const luaL_Reg plan_methods[] = {
    {"info", plan_info}, {"pattern", plan_pattern}, {"histogram", plan_histogram},
    {"text", plan_text}, {"save", plan_save},       {NULL, NULL},
};
/* @class seqrun.core.pack
 * Packing: histograms, solvers, plans, certificates and instances. */
void lsr_open_pack(lua_State *L) {
    lsr_class(L, PLAN, plan_methods, plan_free);
    lsr_class(L, BUILDER, NULL, builder_free);
    luaL_setfuncs(L, functions, 0);
}

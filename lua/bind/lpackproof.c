/* lpackproof.c - seqrun.core.pack: certificates, instances, ranks. */
#include <stdbool.h>

#include "core/pack/assign.h"
#include "core/pack/certificate.h"
#include "core/pack/instances.h"
#include "core/pack/prove.h"
#include "lua/bind/lpack.h"
#include "lua/bind/lcheck.h"

#define CERTIFICATE "seqrun.core.Certificate"
#define PACKING "seqrun.core.Packing"

/* ---- certificate ---- */

static sr_certificate *check_certificate(lua_State *L, int arg) {
    return lsr_checkbox(L, arg, CERTIFICATE);
}

static int certificate_free(lua_State *L) {
    sr_certificate_free(check_certificate(L, 1));
    return 0;
}

/* prove(histogram: Histogram, options?: seqrun.PackOptions) -> Certificate certificate | nil,
 *     message, code
 * The strongest certificate available. */
static int pack_prove(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    sr_pack_opts o = lsr_pack_options(L, 2);
    sr_certificate *c = lsr_newbox(L, sizeof *c, CERTIFICATE);
    return lsr_give(L, sr_pack_prove(c, h, &o));
}

/* load_certificate(path: string) -> Certificate certificate | nil, message, code
 * Reads a certificate file. */
static int pack_load_certificate(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_certificate *c = lsr_newbox(L, sizeof *c, CERTIFICATE);
    return lsr_give(L, sr_certificate_load(c, path));
}

/* @class seqrun.core.pack.Certificate
 * A proof that no packing needs fewer packs. */

/* certificate:save(path: string, histogram: Histogram) -> true done | nil, message, code
 * Writes the certificate file; it lists the lengths of the histogram. */
static int certificate_save(lua_State *L) {
    const sr_certificate *c = check_certificate(L, 1);
    const char *path = luaL_checkstring(L, 2);
    return lsr_done(L, sr_certificate_save(c, lsr_pack_histogram(L, 3), path));
}

/* certificate:check(histogram: Histogram) -> true holds | nil, message, code
 * Checks the proof for these lengths by an exact knapsack. */
static int certificate_check(lua_State *L) {
    return lsr_done(L, sr_certificate_check(check_certificate(L, 1), lsr_pack_histogram(L, 2)));
}

/* certificate:info() -> table<string, integer>
 * max_len, max_seqs, heaviest (V), total (S) and the bound, ceil(S / V). */
static int certificate_info(lua_State *L) {
    const sr_certificate *c = check_certificate(L, 1);
    lua_createtable(L, 0, 5);
    lsr_set_integer(L, "max_len", c->capacity);
    if (c->max_seqs > 0) lsr_set_integer(L, "max_seqs", c->max_seqs);
    lsr_set_integer(L, "heaviest", c->heaviest);
    lsr_set_integer(L, "total", c->total);
    lsr_set_integer(L, "bound", c->bound);
    return 1;
}

/* ---- instances ---- */

static sr_packing *check_packing(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, PACKING, "the packing is closed");
}

LSR_RELEASE(packing_free, PACKING, sr_packing, sr_packing_free)

/* packing(plan: Plan, lengths: integer[]|string, seed?: integer) -> Packing packing | nil,
 *     message, code
 * Binds a plan to the lengths that it was made from. */
static int pack_packing(lua_State *L) {
    const sr_plan *p = lsr_pack_plan(L, 1);
    uint64_t seed = (uint64_t)luaL_optinteger(L, 3, 0);
    sr_lengths lengths = lsr_pack_lengths(L, 2);
    sr_packing **box = lsr_newbox(L, sizeof *box, PACKING);
    return lsr_give(L, sr_packing_new(box, p, &lengths, seed));
}

/* @class seqrun.core.pack.Packing
 * A plan bound to a list of sequences; `#packing` is the number of packs in an epoch.
 * @operator len: integer */

/* packing:at(epoch: integer, i: integer) -> integer[] uids, integer pattern
 * Pack i of an epoch, from 1: the uids of its sequences (from 0) and the pattern that it follows.
 *   epoch  from 0 */
static int packing_at(lua_State *L) {
    const sr_packing *k = check_packing(L, 1);
    uint32_t epoch = (uint32_t)lsr_checkrange(L, 2, 0, UINT32_MAX);
    int64_t i = lsr_checkrange(L, 3, 1, sr_packing_packs(k)) - 1;
    uint32_t *uids = lsr_scratch(L, sr_packing_deepest(k), sizeof *uids);
    int32_t n;
    lsr_check(L, sr_packing_at(k, epoch, i, uids, &n));
    LSR_PUSH_LIST(L, n, j, lua_pushinteger(L, uids[j]));
    lua_pushinteger(L, sr_packing_pattern(k, epoch, i) + 1);
    return 2;
}

/* packing:tally(epoch: integer, first: integer, last: integer) -> integer sequences, integer
 *     squares
 * Walks packs first..last of an epoch: their sequences, and the sum of the squares of the uids
 * modulo 2^64, which shows whether each came once. */
static int packing_tally(lua_State *L) {
    const sr_packing *k = check_packing(L, 1);
    uint32_t epoch = (uint32_t)lsr_checkrange(L, 2, 0, UINT32_MAX);
    int64_t first = lsr_checkrange(L, 3, 1, INT64_MAX), last = lsr_checkrange(L, 4, 0, INT64_MAX);
    uint32_t *uids = lsr_scratch(L, sr_packing_deepest(k), sizeof *uids);
    int64_t sequences = 0;
    uint64_t squares = 0;
    for (int64_t i = first - 1; i < last; i++) {
        int32_t n;
        lsr_check(L, sr_packing_at(k, epoch, i, uids, &n));
        sequences += n;
        for (int32_t j = 0; j < n; j++) squares += (uint64_t)uids[j] * uids[j];
    }
    lua_pushinteger(L, sequences);
    lua_pushinteger(L, (lua_Integer)squares);
    return 2;
}

static int packing_length(lua_State *L) {
    return lsr_give_integer(L, sr_packing_packs(check_packing(L, 1)));
}

/* assign(costs: number[], groups: integer, balance?: "cost"|"random") -> integer[] group, number
 *     imbalance
 * Assigns packs to groups of equal size by cost; the imbalance is the most expensive group over
 * the mean.
 *   balance  cost by default */
static int pack_assign(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    int32_t groups = (int32_t)lsr_checkrange(L, 2, 1, 1 << 20);
    int32_t n = (int32_t)lua_rawlen(L, 1);
    sr_balance how = (sr_balance)luaL_checkoption(L, 3, "cost", sr_balance_names);
    double *cost = lsr_scratch(L, n, sizeof *cost), imbalance;
    int32_t *group = lsr_scratch(L, n, sizeof *group);
    for (int32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 1, i + 1);
        cost[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    lsr_check(L, sr_assign_packs(group, &imbalance, cost, n, groups, how));
    LSR_PUSH_LIST(L, n, i, lua_pushinteger(L, group[i] + 1));
    lua_pushnumber(L, imbalance);
    return 2;
}

/* ---- their part of the module ---- */

static const luaL_Reg functions[] = {
    {"prove", pack_prove},
    {"load_certificate", pack_load_certificate},
    {"packing", pack_packing},
    {"assign", pack_assign},
    {NULL, NULL},
};

static const luaL_Reg certificate_methods[] = {
    {"info", certificate_info},
    {"check", certificate_check},
    {"save", certificate_save},
    {NULL, NULL},
};
static const luaL_Reg packing_methods[] = {
    {"at", packing_at}, {"tally", packing_tally}, {"__len", packing_length}, {NULL, NULL}};

void lsr_open_proofs(lua_State *L) {
    lsr_class(L, CERTIFICATE, certificate_methods, certificate_free);
    lsr_class(L, PACKING, packing_methods, packing_free);
    luaL_getmetatable(L, CERTIFICATE);
    lua_setfield(L, -2, "certificate_class");
    luaL_setfuncs(L, functions, 0);
}

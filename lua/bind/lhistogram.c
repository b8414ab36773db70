/* lhistogram.c - seqrun.core.pack: lengths and their histograms. */
#include "core/pack/bounds.h"
#include "lua/bind/lpack.h"
#include "lua/bind/lcheck.h"

#define HISTOGRAM "seqrun.core.Histogram"

/* ---- lengths ---- */

static const char *const policies[] = {"error", "truncate", "split", NULL};

sr_long_policy lsr_pack_policy(lua_State *L, int arg) {
    return (sr_long_policy)luaL_checkoption(L, arg, "error", policies);
}

/* A list of integers as an array in a box on the stack, or a string of 16-bit ones as it is.
 */
sr_lengths lsr_pack_lengths(lua_State *L, int arg) {
    if (lua_type(L, arg) == LUA_TSTRING)
        return (sr_lengths){lua_tostring(L, arg), 2, (int64_t)lua_rawlen(L, arg) / 2};
    int64_t n;
    const void *length = lsr_checklist(L, arg, &n, "pack: lengths", 0, UINT32_MAX, 4);
    return (sr_lengths){length, 4, n};
}

/* ---- histogram ---- */

sr_histogram *lsr_pack_histogram(lua_State *L, int arg) {
    return lsr_checkbox(L, arg, HISTOGRAM);
}

sr_histogram *lsr_pack_new_histogram(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_histogram), HISTOGRAM);
}

static int histogram_free(lua_State *L) {
    sr_histogram_free(lsr_pack_histogram(L, 1));
    return 0;
}

/* count(lengths: integer[]|string, max_len: integer, too_long?: "error"|"truncate"|"split") ->
 *     Histogram histogram | nil, message, code
 * Counts lengths; `too_long` decides about those above max_len. */
static int pack_count(lua_State *L) {
    int64_t capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_long_policy policy = lsr_pack_policy(L, 3);
    sr_lengths lengths = lsr_pack_lengths(L, 1);
    sr_histogram *h = lsr_pack_new_histogram(L);
    return lsr_give(L, sr_histogram_count(h, &lengths, capacity, policy));
}

/* split(lengths: integer[]|string, max_len: integer) -> integer[]? pieces, integer[]|string uids,
 *     integer[]|string starts
 * The pieces that too_long = "split" makes of these lengths, in the order of the sequences: for
 * each its length, uid and first token, the last two from 0. */
static int pack_split(lua_State *L) {
    int64_t n, capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_lengths lengths = lsr_pack_lengths(L, 1);
    sr_split_piece **box = lsr_newbytes(L);
    LSR_TRY(L, sr_lengths_split(box, &n, &lengths, capacity));
    LSR_PUSH_LIST(L, n, i, lua_pushinteger(L, (*box)[i].length));
    LSR_PUSH_LIST(L, n, i, lua_pushinteger(L, (*box)[i].uid));
    LSR_PUSH_LIST(L, n, i, lua_pushinteger(L, (*box)[i].start));
    return 3;
}

/* histogram(counts: integer[], max_len: integer, too_long?: "error"|"truncate"|"split") ->
 *     Histogram histogram | nil, message, code
 * A histogram from counts: counts[l] sequences of l tokens. */
static int pack_histogram(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    int64_t capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH), rows = (int64_t)lua_rawlen(L, 1);
    sr_long_policy policy = lsr_pack_policy(L, 3);
    sr_histogram *h = lsr_pack_new_histogram(L);
    sr_status st = sr_histogram_new(h, capacity);
    for (int64_t l = 1; l <= rows && st == SR_OK; l++) {
        int64_t n = lsr_checkelement(L, 1, l, "pack: counts", 0, INT64_MAX);
        st = sr_histogram_add(h, l, n, policy);
    }
    return lsr_give(L, st);
}

/* load_histogram(path: string, max_len?: integer, too_long?: "error"|"truncate"|"split") ->
 *     Histogram histogram | nil, message, code
 * Reads a .hist file; max_len is the number of its lines when nil. */
static int pack_load_histogram(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    int64_t capacity = lsr_optrange(L, 2, 0, 1, SR_MAX_LENGTH);
    sr_long_policy policy = lsr_pack_policy(L, 3);
    sr_histogram *h = lsr_pack_new_histogram(L);
    return lsr_give(L, sr_histogram_load(h, path, capacity, policy));
}

/* @class seqrun.core.pack.Histogram
 * How many sequences there are of each length. */

/* histogram:fit(max_len: integer, too_long?: "error"|"truncate"|"split") -> Histogram histogram |
 *     nil, message, code
 * The same sequences for packs of another size. */
static int histogram_fit(lua_State *L) {
    const sr_histogram *from = lsr_pack_histogram(L, 1);
    int64_t capacity = lsr_checkrange(L, 2, 1, SR_MAX_LENGTH);
    sr_long_policy policy = lsr_pack_policy(L, 3);
    sr_histogram *h = lsr_pack_new_histogram(L);
    return lsr_give(L, sr_histogram_fit(h, from, capacity, policy));
}

/* histogram:shuffled(seed?: integer) -> string
 * The lengths in an order drawn by the seed, 16 bits each: accepted as a list of lengths. */
static int histogram_shuffled(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    uint64_t seed = (uint64_t)luaL_optinteger(L, 2, 0);
    uint16_t **box = lsr_newbytes(L);
    lsr_check(L, sr_histogram_shuffled(box, h, seed));
    return lsr_give_bytes(L, *box != NULL ? (char *)*box : "", (size_t)h->sequences * 2);
}

/* histogram:save(path: string) -> true done | nil, message, code
 * Writes a .hist file. */
static int histogram_save(lua_State *L) {
    return lsr_done(L, sr_histogram_save(lsr_pack_histogram(L, 1), luaL_checkstring(L, 2)));
}

/* histogram:counts() -> integer[]
 * The counts, by length. */
static int histogram_counts(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    LSR_PUSH_LIST(L, h->capacity, i, lua_pushinteger(L, h->count[i + 1]));
    return 1;
}

/* histogram:info() -> { max_len: integer, sequences: integer, tokens: integer, distinct: integer,
 *     longer: integer, lost: integer }
 * max_len, sequences, tokens, distinct; longer and lost are the sequences and tokens that too_long
 * affected. */
static int histogram_info(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    int64_t distinct = 0;
    for (int32_t l = 1; l <= h->capacity; l++) distinct += h->count[l] > 0;
    lua_createtable(L, 0, 6);
    lsr_set_integer(L, "max_len", h->capacity);
    lsr_set_integer(L, "sequences", h->sequences);
    lsr_set_integer(L, "tokens", h->tokens);
    lsr_set_integer(L, "longer", h->longer);
    lsr_set_integer(L, "lost", h->lost);
    lsr_set_integer(L, "distinct", distinct);
    return 1;
}

/* histogram:bounds(max_seqs?: integer) -> { tokens: integer, count: integer, l2: integer }
 * The cheap lower bounds on the packs. */
static int histogram_bounds(lua_State *L) {
    const sr_histogram *h = lsr_pack_histogram(L, 1);
    int32_t depth = (int32_t)lsr_optrange(L, 2, 0, 0, INT32_MAX);
    lua_createtable(L, 0, 3);
    lsr_set_integer(L, "tokens", sr_bound_tokens(h));
    lsr_set_integer(L, "count", sr_bound_count(h, depth));
    lsr_set_integer(L, "l2", sr_bound_l2(h));
    return 1;
}

/* ---- their part of the module ---- */

static const luaL_Reg functions[] = {
    {"count", pack_count},
    {"split", pack_split},
    {"histogram", pack_histogram},
    {"load_histogram", pack_load_histogram},
    {NULL, NULL},
};

static const luaL_Reg histogram_methods[] = {
    {"counts", histogram_counts},
    {"info", histogram_info},
    {"bounds", histogram_bounds},
    {"fit", histogram_fit},
    {"save", histogram_save},
    {"shuffled", histogram_shuffled},
    {NULL, NULL},
};

void lsr_open_histograms(lua_State *L) {
    lsr_class(L, HISTOGRAM, histogram_methods, histogram_free);
    luaL_getmetatable(L, HISTOGRAM);
    lua_setfield(L, -2, "histogram_class");
    luaL_setfuncs(L, functions, 0);
}

/* lcoarse.c - the coarse ops of seqrun.core.ops, with positional arguments;
 * lua/seqrun/tensor/ops.lua names them. */
#include <string.h>

#include "core/tensor/ops.h"
#include "lua/bind/ltensor.h"

/* Dropout sites: their names, and their purposes in the random key. */
static const char *const site_names[] = {"embedding", "attention", "projection", "inner",
                                         "feed",      "head",      "user",       NULL};
static const sr_purpose site_purposes[] = {SR_PURPOSE_DROP_EMBEDDING,  SR_PURPOSE_DROP_ATTENTION,
                                           SR_PURPOSE_DROP_PROJECTION, SR_PURPOSE_DROP_INNER,
                                           SR_PURPOSE_DROP_FEED,       SR_PURPOSE_DROP_HEAD,
                                           SR_PURPOSE_DROP_USER};

/* Arguments `arg`: probability, site, layer; nil probability means none is dropped. */
static sr_dropout check_dropout(lua_State *L, int arg) {
    double p = luaL_optnumber(L, arg, 0.0);
    if (!(p >= 0 && p < 1))
        lsr_argerror(L, arg, lua_pushfstring(L, "dropout is %f; must be a probability below 1", p));
    sr_dropout drop = {.keep = sr_keep_256(p)};
    if (drop.keep == 0)
        lsr_argerror(L, arg, "dropout is too close to 1: the keep probability n/256 rounds to 0");
    drop.purpose = site_purposes[lsr_checkoption(L, arg + 1, "dropout: site", "user", site_names)];
    drop.layer = lua_isnoneornil(L, arg + 2) ? 0 : (uint32_t)lsr_checkrange(L, arg + 2, 0, 0xFFF);
    return drop;
}

static const sr_layout *opt_layout(lua_State *L, int arg) {
    return lua_isnoneornil(L, arg) ? NULL : lsr_checklayout(L, arg);
}

#define NAME_OF(NAME, name, keeps_input) #name,
static const char *const acts[] = {"none", SR_ACTIVATIONS(NAME_OF) NULL};

/* coarse.linear(x, w, b or nil, act) */
static int op_linear(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1), *w = lsr_checktensor(L, 2), *b = lsr_opttensor(L, 3);
    sr_act act = (sr_act)lsr_checkoption(L, 4, "linear: act", "none", acts);
    return lsr_made(L, sr_op_linear(lsr_newtensor(L), x, w, b, act));
}

/* coarse.group_rows(items, layout, groups, capacity or nil) -> rows, place, starts */
static int op_group_rows(lua_State *L) {
    sr_tensor *items = lsr_checktensor(L, 1);
    const sr_layout *layout = lsr_checklayout(L, 2);
    int64_t groups = lsr_checkrange(L, 3, 1, INT32_MAX - 1);
    int64_t capacity = lsr_optrange(L, 4, 0, 1, INT64_MAX);
    sr_tensor **rows = lsr_newtensor(L), **place = lsr_newtensor(L), **starts = lsr_newtensor(L);
    lsr_check(L, sr_op_group_rows(rows, place, starts, items, layout, groups, capacity));
    return 3;
}

/* coarse.grouped_linear(x, w, b or nil, starts, act) */
static int op_grouped_linear(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1), *w = lsr_checktensor(L, 2), *b = lsr_opttensor(L, 3);
    sr_tensor *starts = lsr_checktensor(L, 4);
    sr_act act = (sr_act)lsr_checkoption(L, 5, "grouped_linear: act", "none", acts);
    return lsr_made(L, sr_op_grouped_linear(lsr_newtensor(L), x, w, b, starts, act));
}

/* coarse.attention(qkv, layout, rows or nil, heads, kv_heads or nil, scale or nil, window or
 *     nil, causal, p, site, layer) */
static int op_attention(lua_State *L) {
    sr_tensor *qkv = lsr_checktensor(L, 1);
    const sr_layout *layout = lsr_checklayout(L, 2);
    sr_tensor *rows = lsr_opttensor(L, 3);
    sr_attention_opts opts = {.heads = (int)lsr_checkrange(L, 4, 1, 4095),
                              .kv_heads = (int)lsr_optrange(L, 5, 0, 1, 4095),
                              .scale = luaL_optnumber(L, 6, 0.0),
                              .window = lsr_optrange(L, 7, -1, 0, INT64_MAX),
                              .causal = lua_toboolean(L, 8),
                              .drop = check_dropout(L, 9)};
    return lsr_made(L, sr_op_attention(lsr_newtensor(L), qkv, rows, layout, opts));
}

/* coarse.rotary(qkv, layout, heads, kv_heads or nil, theta, positions or nil, limit or nil,
 *     in_place) */
static int op_rotary(lua_State *L) {
    sr_tensor *qkv = lsr_checktensor(L, 1), *positions = lsr_opttensor(L, 6);
    const sr_layout *layout = lsr_checklayout(L, 2);
    sr_rotary_opts opts = {.heads = (int)lsr_checkrange(L, 3, 1, 4095),
                           .theta = luaL_checknumber(L, 5),
                           .in_place = lua_toboolean(L, 8)};
    opts.kv_heads = lua_isnoneornil(L, 4) ? 0 : (int)lsr_checkrange(L, 4, 1, 4095);
    if (!lua_isnoneornil(L, 7)) opts.limit = lsr_checkrange(L, 7, 1, SR_ROTARY_LONGEST);
    return lsr_made(L, sr_op_rotary(lsr_newtensor(L), qkv, positions, layout, opts));
}

/* coarse.gated(x, act, gate or nil) */
static int op_gated(lua_State *L) {
    static const char *const gates[] = {"second", "first", NULL};
    sr_tensor *x = lsr_checktensor(L, 1);
    sr_act act = (sr_act)lsr_checkoption(L, 2, "gated: act", NULL, acts);
    bool gate_first = lsr_checkoption(L, 3, "gated: gate", "second", gates) == 1;
    return lsr_made(L, sr_op_gated(lsr_newtensor(L), x, act, gate_first));
}

/* Arguments `arg`: eps, kind. */
static sr_norm check_norm(lua_State *L, int arg, const char *what) {
    static const char *const kinds[] = {"layer", "rms", NULL};
    sr_norm norm = {.eps = luaL_checknumber(L, arg)};
    norm.rms = lsr_checkoption(L, arg + 1, what, "layer", kinds) == 1;
    return norm;
}

/* coarse.residual_norm(x, residual or nil, gamma, beta or nil, layout or nil, eps, kind, p,
 *     site, layer, sum) -> y, and the sum if `sum` */
static int op_residual_norm(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1), *residual = lsr_opttensor(L, 2);
    sr_tensor *gamma = lsr_checktensor(L, 3), *beta = lsr_opttensor(L, 4);
    const sr_layout *layout = opt_layout(L, 5);
    sr_norm norm = check_norm(L, 6, "residual_norm: kind");
    sr_dropout drop = check_dropout(L, 8);
    bool both = lua_toboolean(L, 11);
    sr_tensor **y = lsr_newtensor(L), **sum = both ? lsr_newtensor(L) : NULL;
    lsr_check(L, sr_op_residual_norm(y, sum, x, residual, gamma, beta, layout, norm, drop));
    return both ? 2 : 1;
}

/* coarse.embed(ids, types, positions, word, position, type, gamma, beta, layout, eps, kind, p,
 *     site, layer), of which all but ids, word, layout and eps may be nil */
static int op_embed(lua_State *L) {
    sr_tensor *ids = lsr_checktensor(L, 1), *types = lsr_opttensor(L, 2);
    sr_tensor *positions = lsr_opttensor(L, 3);
    sr_embeddings tables = {lsr_checktensor(L, 4), lsr_opttensor(L, 5), lsr_opttensor(L, 6),
                            lsr_opttensor(L, 7), lsr_opttensor(L, 8)};
    const sr_layout *layout = lsr_checklayout(L, 9);
    sr_norm norm = check_norm(L, 10, "embed: kind");
    sr_dropout drop = check_dropout(L, 12);
    return lsr_made(
        L, sr_op_embed(lsr_newtensor(L), ids, types, positions, &tables, layout, norm, drop));
}

/* coarse.dropout(x, layout, p, site, layer) */
static int op_dropout(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    const sr_layout *layout = lsr_checklayout(L, 2);
    sr_dropout drop = check_dropout(L, 3);
    return lsr_made(L, sr_op_dropout(lsr_newtensor(L), x, layout, drop));
}

/* coarse.sequence_mean(x, layout) */
static int op_sequence_mean(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    const sr_layout *layout = lsr_checklayout(L, 2);
    return lsr_made(L, sr_op_sequence_mean(lsr_newtensor(L), x, layout));
}

/* coarse.mlm_loss(x, word, bias or nil, labels, weights) -> total, nll, correct */
static int op_mlm_loss(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1), *word = lsr_checktensor(L, 2);
    sr_tensor *bias = lsr_opttensor(L, 3), *labels = lsr_checktensor(L, 4);
    sr_tensor *weights = lsr_checktensor(L, 5);
    sr_tensor **total = lsr_newtensor(L), **nll = lsr_newtensor(L), **correct = lsr_newtensor(L);
    lsr_check(L, sr_op_mlm_loss(total, nll, correct, x, word, bias, labels, weights));
    return 3;
}

/* coarse.cross_entropy(logits, labels, weights) -> total, nll, correct */
static int op_cross_entropy(lua_State *L) {
    sr_tensor *logits = lsr_checktensor(L, 1), *labels = lsr_checktensor(L, 2);
    sr_tensor *weights = lsr_checktensor(L, 3);
    sr_tensor **total = lsr_newtensor(L), **nll = lsr_newtensor(L), **correct = lsr_newtensor(L);
    lsr_check(L, sr_op_cross_entropy(total, nll, correct, logits, labels, weights));
    return 3;
}

/* coarse.sample(logits, keys, seed) -> ids */
static int op_sample(lua_State *L) {
    sr_tensor *logits = lsr_checktensor(L, 1), *keys = lsr_checktensor(L, 2);
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 3);
    return lsr_made(L, sr_op_sample(lsr_newtensor(L), logits, keys, seed));
}

/* keep_probability(p: number) -> number
 * The keep probability of dropout with probability p: n/256. */
static int keep_probability(lua_State *L) {
    return lsr_give_number(L, check_dropout(L, 1).keep / 256.0);
}

static const luaL_Reg functions[] = {
    {"linear", op_linear},
    {"group_rows", op_group_rows},
    {"grouped_linear", op_grouped_linear},
    {"attention", op_attention},
    {"rotary", op_rotary},
    {"gated", op_gated},
    {"residual_norm", op_residual_norm},
    {"embed", op_embed},
    {"dropout", op_dropout},
    {"sequence_mean", op_sequence_mean},
    {"mlm_loss", op_mlm_loss},
    {"cross_entropy", op_cross_entropy},
    {"sample", op_sample},
    {NULL, NULL},
};

/* Adds coarse, activations and keep_probability to the module on top of the stack. */
void lsr_open_coarse(lua_State *L) {
    luaL_newlib(L, functions);
    lua_setfield(L, -2, "coarse");
    LSR_PUSH_LIST(L, sizeof acts / sizeof *acts - 2, i, lua_pushstring(L, acts[i + 1]));
    lua_setfield(L, -2, "activations");
    lua_pushcfunction(L, keep_probability);
    lua_setfield(L, -2, "keep_probability");
}

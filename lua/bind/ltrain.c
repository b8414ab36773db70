/* ltrain.c - seqrun.core.train: the parameter store and the optimizers; for lua/seqrun/params.lua
 * and optim.lua, which give them names and defaults. */
#include "lua/bind/ltrain.h"

#include <math.h>
#include <string.h>

#include "core/train/optim.h"
#include "core/train/params.h"
#include "lua/bind/ltensor.h"

#define PARAMS "seqrun.core.Params"
#define OPTIM "seqrun.core.Optim"

int lsr_done(lua_State *L, sr_status status) {
    if (status != SR_OK) return lsr_result(L, status);
    lua_pushboolean(L, 1);
    return 1;
}

void lsr_new_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction release) {
    luaL_newmetatable(L, name);
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, release);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, release);
    lua_setfield(L, -2, "__close");
    lua_pop(L, 1);
}

/* ---- parameters ------------------------------------------------------------------------------ */

sr_params *lsr_checkparams(lua_State *L, int arg) {
    sr_params **box = luaL_checkudata(L, arg, PARAMS);
    if (*box == NULL) lsr_argerror(L, arg, "the parameters were released");
    return *box;
}

static sr_param *check_param(lua_State *L, int arg) {
    sr_params *p = lsr_checkparams(L, 1);
    return &p->list[lsr_checkrange(L, arg, 1, p->count) - 1];
}

static int64_t int_field(lua_State *L, const char *key, int64_t otherwise) {
    lua_getfield(L, -1, key);
    int64_t x = luaL_optinteger(L, -1, otherwise);
    lua_pop(L, 1);
    return x;
}

static double number_field(lua_State *L, const char *key, double otherwise) {
    lua_getfield(L, -1, key);
    double x = luaL_optnumber(L, -1, otherwise);
    lua_pop(L, 1);
    return x;
}

static bool bool_field(lua_State *L, const char *key) {
    lua_getfield(L, -1, key);
    bool x = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return x;
}

/* A string of the table on top of the stack, which keeps it alive; or NULL. */
static const char *string_field(lua_State *L, const char *key) {
    lua_getfield(L, -1, key);
    const char *text = luaL_optstring(L, -1, NULL);
    lua_pop(L, 1);
    return text;
}

/* The spec that the table on top of the stack describes. */
static void read_spec(lua_State *L, sr_param_spec *spec) {
    luaL_checktype(L, -1, LUA_TTABLE);
    spec->name = string_field(L, "name");
    spec->fuse = string_field(L, "fuse");
    spec->std = number_field(L, "std", 0.02);
    spec->pad_rows_to = int_field(L, "pad_rows_to", 0);
    const char *init = string_field(L, "init");
    if (init == NULL || strcmp(init, "normal") == 0)
        spec->init = SR_INIT_NORMAL;
    else if (strcmp(init, "zeros") == 0)
        spec->init = SR_INIT_ZEROS;
    else if (strcmp(init, "ones") == 0)
        spec->init = SR_INIT_ONES;
    else
        lsr_error(L, "params: '%s' has init '%s'; use normal, zeros or ones", spec->name, init);
    lua_getfield(L, -1, "shape");
    luaL_checktype(L, -1, LUA_TTABLE);
    spec->ndim = lsr_checksizes(L, lua_gettop(L), spec->shape);
    lua_pop(L, 1);
}

/* params(list) -> Params on the current device, all zero */
static int train_params(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    int64_t count = luaL_len(L, 1);
    sr_param_spec *specs = lua_newuserdatauv(L, (size_t)count * sizeof *specs + 1, 0);
    memset(specs, 0, (size_t)count * sizeof *specs);
    for (int64_t i = 0; i < count; i++) {
        lua_geti(L, 1, i + 1);
        read_spec(L, &specs[i]);
        lua_pop(L, 1);
    }
    sr_params **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    luaL_setmetatable(L, PARAMS);
    lsr_check(L, sr_params_new(box, lsr_device(L), specs, count));
    return 1;
}

static int params_release(lua_State *L) {
    sr_params **box = luaL_checkudata(L, 1, PARAMS);
    sr_params_free(*box);
    *box = NULL;
    return 0;
}

/* params:get(i) -> leaf tensor, its grad a view of the gradient store */
static int params_get(lua_State *L) {
    sr_param *param = check_param(L, 2);
    lsr_pushtensor(L, sr_tensor_retain(param->leaf));
    return 1;
}

/* params:fused(name) -> leaf tensor over all members of the group */
static int params_fused(lua_State *L) {
    sr_params *p = lsr_checkparams(L, 1);
    const char *name = luaL_checkstring(L, 2);
    sr_fused *group = sr_params_find_fused(p, name);
    if (group == NULL) return lsr_error(L, "params: there is no fuse group '%s'", name);
    lsr_pushtensor(L, sr_tensor_retain(group->leaf));
    return 1;
}

/* params:value() -> the flat store of values, padding included */
static int params_value(lua_State *L) {
    lsr_pushtensor(L, sr_tensor_retain(lsr_checkparams(L, 1)->value));
    return 1;
}

/* params:grad() -> the flat store of gradients */
static int params_grad(lua_State *L) {
    lsr_pushtensor(L, sr_tensor_retain(lsr_checkparams(L, 1)->grad));
    return 1;
}

/* params:place(i) -> offset, size, stored: elements, from 0, in the flat stores */
static int params_place(lua_State *L) {
    sr_param *param = check_param(L, 2);
    lua_pushinteger(L, param->offset);
    lua_pushinteger(L, param->size);
    lua_pushinteger(L, param->stored);
    return 3;
}

/* params:elements() -> elements without padding, elements of a store */
static int params_elements(lua_State *L) {
    sr_params *p = lsr_checkparams(L, 1);
    lua_pushinteger(L, p->elements);
    lua_pushinteger(L, p->stored);
    return 2;
}

/* params:initialise(seed [, i]): all of them, or one */
static int params_initialise(lua_State *L) {
    sr_params *p = lsr_checkparams(L, 1);
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 2);
    lsr_check(L, lua_isnoneornil(L, 3) ? sr_params_initialise(p, seed)
                                       : sr_params_initialise_one(p, check_param(L, 3), seed));
    return 0;
}

/* params:zero_grad() */
static int params_zero_grad(lua_State *L) {
    lsr_check(L, sr_params_zero_grad(lsr_checkparams(L, 1)));
    return 0;
}

static const luaL_Reg params_methods[] = {
    {"get", params_get},
    {"fused", params_fused},
    {"value", params_value},
    {"grad", params_grad},
    {"place", params_place},
    {"elements", params_elements},
    {"initialise", params_initialise},
    {"zero_grad", params_zero_grad},
    {"release", params_release},
    {NULL, NULL},
};

/* ---- optimizers ------------------------------------------------------------------------------ */

static sr_optim *check_optim(lua_State *L, int arg) {
    sr_optim **box = luaL_checkudata(L, arg, OPTIM);
    if (*box == NULL) lsr_argerror(L, arg, "the optimizer was released");
    lua_getiuservalue(L, arg, 1);
    sr_params **params = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (params == NULL || *params == NULL)
        lsr_argerror(L, arg, "the parameters of the optimizer were released");
    return *box;
}

static void read_segment(lua_State *L, sr_segment *s) {
    luaL_checktype(L, -1, LUA_TTABLE);
    s->rate = number_field(L, "rate", 1);
    s->decay = number_field(L, "decay", 0);
    s->trust = bool_field(L, "trust");
    s->frozen = bool_field(L, "frozen");
}

static sr_optim_opts read_opts(lua_State *L, int arg) {
    luaL_checktype(L, arg, LUA_TTABLE);
    lua_pushvalue(L, arg);
    sr_optim_opts opts = {
        .lamb = bool_field(L, "lamb"),
        .beta1 = number_field(L, "beta1", 0.9),
        .beta2 = number_field(L, "beta2", 0.999),
        .eps = number_field(L, "eps", 1e-6),
        .power = number_field(L, "power", 1),
        .clip_eps = bool_field(L, "clip_eps"),
        .max_skipped = (int)int_field(L, "max_skipped", 3),
    };
    lua_pop(L, 1);
    return opts;
}

/* optim(params, opts, segments) -> Optim; segments: {rate, decay, trust, frozen} per parameter */
static int train_optim(lua_State *L) {
    sr_params *p = lsr_checkparams(L, 1);
    sr_optim_opts opts = read_opts(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    sr_segment *segments = lua_newuserdatauv(L, (size_t)p->count * sizeof *segments, 0);
    memset(segments, 0, (size_t)p->count * sizeof *segments);
    for (int64_t i = 0; i < p->count; i++) {
        lua_geti(L, 3, i + 1);
        read_segment(L, &segments[i]);
        lua_pop(L, 1);
    }
    sr_optim **box = lua_newuserdatauv(L, sizeof *box, 1);
    *box = NULL;
    luaL_setmetatable(L, OPTIM);
    lua_pushvalue(L, 1); /* the parameters live as long as their optimizer */
    lua_setiuservalue(L, -2, 1);
    lsr_check(L, sr_optim_new(box, p, segments, &opts));
    return 1;
}

static int optim_release(lua_State *L) {
    sr_optim **box = luaL_checkudata(L, 1, OPTIM);
    sr_optim_free(*box);
    *box = NULL;
    return 0;
}

/* optim:step(rate, clip [, loss]) -> true | nil, message, code ("numeric") */
static int optim_step(lua_State *L) {
    sr_optim *o = check_optim(L, 1);
    sr_status st =
        sr_optim_step(o, luaL_checknumber(L, 2), luaL_checknumber(L, 3), lsr_opttensor(L, 4));
    if (st == SR_ENUMERIC) return lsr_result(L, st);
    lsr_check(L, st);
    return lsr_done(L, st);
}

/* optim:settle() -> { serial, norm, finite, applied }, or nil, message, code and that table */
static int optim_settle(lua_State *L) {
    sr_optim_result r;
    sr_status st = sr_optim_settle(&r, check_optim(L, 1));
    if (st != SR_ENUMERIC) lsr_check(L, st);
    int pushed = st == SR_OK ? 0 : lsr_result(L, st);
    lua_createtable(L, 0, 4);
    lua_pushinteger(L, r.serial);
    lua_setfield(L, -2, "serial");
    lua_pushnumber(L, r.norm);
    lua_setfield(L, -2, "norm");
    lua_pushboolean(L, r.finite);
    lua_setfield(L, -2, "finite");
    lua_pushboolean(L, r.applied);
    lua_setfield(L, -2, "applied");
    return pushed + 1;
}

/* optim:counts() -> updates applied, updates skipped, of them in a row */
static int optim_counts(lua_State *L) {
    sr_optim *o = check_optim(L, 1);
    lua_pushinteger(L, o->steps);
    lua_pushinteger(L, o->skipped);
    lua_pushinteger(L, o->in_a_row);
    return 3;
}

/* optim:set_counts(steps, skipped, in_a_row [, power]): from a checkpoint */
static int optim_set_counts(lua_State *L) {
    sr_optim *o = check_optim(L, 1);
    int64_t steps = lsr_checkrange(L, 2, 0, INT64_MAX);
    int64_t skipped = lsr_checkrange(L, 3, 0, INT64_MAX);
    int64_t in_a_row = lsr_checkrange(L, 4, 0, INT64_MAX);
    double power = luaL_optnumber(L, 5, o->opts.power);
    luaL_argcheck(L, power > 0 && power < HUGE_VAL, 5, "a power above 0 is wanted");
    lsr_check(L, sr_optim_settle(NULL, o));
    o->steps = steps;
    o->skipped = skipped;
    o->in_a_row = in_a_row;
    o->opts.power = power;
    return 0;
}

static void push_moment(lua_State *L, const sr_tensor *flat, const sr_param *param) {
    const sr_tensor *leaf = param->leaf;
    sr_tensor **out = lsr_newtensor(L);
    lsr_check(L, sr_tensor_view(out, flat, leaf->ndim, leaf->shape, leaf->stride, param->offset));
}

/* optim:moments(i) -> m, v: views in the shape of parameter i */
static int optim_moments(lua_State *L) {
    sr_optim *o = check_optim(L, 1);
    const sr_param *param = &o->params->list[lsr_checkrange(L, 2, 1, o->params->count) - 1];
    push_moment(L, o->m, param);
    push_moment(L, o->v, param);
    return 2;
}

static const luaL_Reg optim_methods[] = {
    {"step", optim_step},
    {"settle", optim_settle},
    {"counts", optim_counts},
    {"set_counts", optim_set_counts},
    {"moments", optim_moments},
    {"release", optim_release},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"params", train_params},
    {"optim", train_optim},
    {NULL, NULL},
};

int luaopen_seqrun_core_train(lua_State *L) {
    lsr_new_class(L, PARAMS, params_methods, params_release);
    lsr_new_class(L, OPTIM, optim_methods, optim_release);
    luaL_newlib(L, functions);
    lsr_open_safetensors(L);
    lsr_open_checkpoint(L);
    lsr_open_log(L);
    lsr_open_shares(L);
    return 1;
}

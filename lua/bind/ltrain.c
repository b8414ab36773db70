/* ltrain.c - seqrun.core.train: the parameter store and the optimizers; for
 * lua/seqrun/tensor/params.lua and lua/seqrun/optim, which add names and defaults. */
#include "lua/bind/ltrain.h"

#include <math.h>

#include "core/train/average.h"
#include "core/train/optim.h"
#include "core/train/params.h"
#include "lua/bind/ltensor.h"

#define PARAMS "seqrun.core.Params"
#define OPTIM "seqrun.core.Optim"

/* ---- parameters ------------------------------------------------------------------------------ */

sr_params *lsr_checkparams(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, PARAMS, "the parameters were released");
}

static sr_param *check_param(lua_State *L, int arg) {
    sr_params *p = lsr_checkparams(L, 1);
    return &p->list[lsr_checkrange(L, arg, 1, p->count) - 1];
}

/* The spec that the table at `at` describes. */
static void read_spec(lua_State *L, int at, sr_param_spec *spec) {
    static const char *const inits[] = {"normal", "zeros", "ones", NULL};
    static const sr_init kinds[] = {SR_INIT_NORMAL, SR_INIT_ZEROS, SR_INIT_ONES};
    luaL_checktype(L, at, LUA_TTABLE);
    spec->name = lsr_field_string(L, at, "name", NULL);
    spec->fuse = lsr_field_string(L, at, "fuse", NULL);
    spec->std = lsr_field_number(L, at, "std", 0.02);
    spec->pad_rows_to = lsr_field_integer(L, at, "pad_rows_to", 0);
    spec->init = kinds[lsr_field_choice(L, at, "init", inits)];
    spec->keep_f32 = lsr_field_string(L, at, "keep", NULL) != NULL;
    lua_getfield(L, at, "shape");
    luaL_checktype(L, -1, LUA_TTABLE);
    spec->ndim = lsr_checksizes(L, lua_gettop(L), spec->shape);
    lua_pop(L, 1);
}

/* params(list: { name: string, shape: integer[], init?: string, std?: number, pad_rows_to?:
 *     integer, fuse?: string }[]) -> Params
 * A store of parameters on the current device, all zero. */
static int train_params(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    sr_dtype precision = lua_isnoneornil(L, 2) ? lsr_device(L)->real : lsr_checkdtype(L, 2);
    lua_settop(L, 1);
    int64_t count = luaL_len(L, 1);
    sr_param_spec *specs = lsr_scratch(L, count, sizeof *specs);
    for (int64_t i = 0; i < count; i++) {
        lua_geti(L, 1, i + 1);
        read_spec(L, lua_gettop(L), &specs[i]);
        lua_pop(L, 1);
    }
    sr_params **box = lsr_newbox(L, sizeof *box, PARAMS);
    return lsr_made(L, sr_params_new(box, lsr_device(L), specs, count, precision));
}

LSR_RELEASE(params_release, PARAMS, sr_params, sr_params_free)

/* @class seqrun.core.Params
 * A store of parameters; parameters are counted from 1 in the order of the list. */

/* params:get(i: integer) -> Tensor
 * The parameter as a leaf; its grad is a view of the gradient store. */
static int params_get(lua_State *L) {
    sr_param *param = check_param(L, 2);
    lsr_pushtensor(L, sr_tensor_retain(param->leaf));
    return 1;
}

/* params:master(i: integer) -> Tensor
 * The values of a parameter, which the optimizer updates and checkpoints hold. */
static int params_master(lua_State *L) {
    sr_param *param = check_param(L, 2);
    lsr_check(L, sr_params_check_whole(lsr_checkparams(L, 1)));
    lsr_pushtensor(L, sr_tensor_retain(param->master));
    return 1;
}

/* params:refresh()
 * After writes to masters: updates the copies that ops read. */
static int params_refresh(lua_State *L) {
    return lsr_nothing(L, sr_params_refresh(lsr_checkparams(L, 1)));
}

/* params:fused(name: string) -> Tensor
 * All members of a fuse group as one leaf. */
static int params_fused(lua_State *L) {
    sr_params *p = lsr_checkparams(L, 1);
    const char *name = luaL_checkstring(L, 2);
    sr_fused *group = sr_params_find_fused(p, name);
    if (group == NULL) return lsr_error(L, "params: no fuse group named '%s'", name);
    lsr_pushtensor(L, sr_tensor_retain(group->leaf));
    return 1;
}

/* params:value() -> Tensor
 * The flat store of values, padding included. */
static int params_value(lua_State *L) {
    lsr_pushtensor(L, sr_tensor_retain(lsr_checkparams(L, 1)->value));
    return 1;
}

/* params:grad() -> Tensor
 * The flat store of gradients. */
static int params_grad(lua_State *L) {
    lsr_pushtensor(L, sr_tensor_retain(lsr_checkparams(L, 1)->grad));
    return 1;
}

/* params:place(i: integer) -> integer offset, integer size, integer stored
 * The range of a parameter in the stores: first element from 0, elements, elements with padding. */
static int params_place(lua_State *L) {
    sr_param *param = check_param(L, 2);
    lua_pushinteger(L, param->offset);
    lua_pushinteger(L, param->size);
    lua_pushinteger(L, param->stored);
    return 3;
}

/* params:elements() -> integer, integer
 * Elements without padding, and elements of a store. */
static int params_elements(lua_State *L) {
    sr_params *p = lsr_checkparams(L, 1);
    lua_pushinteger(L, p->elements);
    lua_pushinteger(L, p->stored);
    return 2;
}

/* params:initialise(seed: integer, i?: integer)
 * Writes the initial values of all parameters, or of one. */
static int params_initialise(lua_State *L) {
    sr_params *p = lsr_checkparams(L, 1);
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 2);
    return lsr_nothing(L, lua_isnoneornil(L, 3)
                              ? sr_params_initialise(p, seed)
                              : sr_params_initialise_one(p, check_param(L, 3), seed));
}

/* params:keep_whole(i: integer)
 * Parameter i belongs to one owner wherever the store is cut over ranks. */
static int params_keep_whole(lua_State *L) {
    lsr_checkparams(L, 1);
    check_param(L, 2)->whole = true;
    return 0;
}

/* params:zero_grad()
 * Clears all gradients. */
static int params_zero_grad(lua_State *L) {
    return lsr_nothing(L, sr_params_zero_grad(lsr_checkparams(L, 1)));
}

static bool is_reached(const sr_params *p, const sr_param *param) {
    return param->leaf->reached || (param->fused >= 0 && p->fused[param->fused].leaf->reached);
}

/* params:reached() -> boolean[]
 * Whether backward passes have come to each parameter since the last call. */
static int params_reached(lua_State *L) {
    const sr_params *p = lsr_checkparams(L, 1);
    LSR_PUSH_LIST(L, p->count, i, lua_pushboolean(L, is_reached(p, &p->list[i])));
    for (int64_t i = 0; i < p->count + p->fused_count; i++) p->read[i]->reached = false;
    return 1;
}

/* params:release()
 * Frees the store; tensors held elsewhere stay live. */
static const luaL_Reg params_methods[] = {
    {"get", params_get},
    {"master", params_master},
    {"refresh", params_refresh},
    {"fused", params_fused},
    {"value", params_value},
    {"grad", params_grad},
    {"place", params_place},
    {"elements", params_elements},
    {"initialise", params_initialise},
    {"keep_whole", params_keep_whole},
    {"zero_grad", params_zero_grad},
    {"reached", params_reached},
    {"release", params_release},
    {NULL, NULL},
};

/* ---- optimizers ------------------------------------------------------------------------------ */

sr_optim *lsr_checkoptim(lua_State *L, int arg) {
    sr_optim *o = lsr_checkobject(L, arg, OPTIM, "the optimizer was released");
    lua_getiuservalue(L, arg, 1);
    sr_params **params = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (params == NULL || *params == NULL)
        lsr_argerror(L, arg, "the parameters of the optimizer were released");
    return o;
}

static void read_segment(lua_State *L, int at, sr_segment *s) {
    luaL_checktype(L, at, LUA_TTABLE);
    s->rate = lsr_field_number(L, at, "rate", 1);
    s->decay = lsr_field_number(L, at, "decay", 0);
    s->trust = lsr_field_bool(L, at, "trust", false);
    s->frozen = lsr_field_bool(L, at, "frozen", false);
    s->rows = lsr_field_range(L, at, "rows", 0, 0, INT64_MAX);
    s->columns = lsr_field_range(L, at, "columns", 0, 0, INT64_MAX);
    s->scale = lsr_field_number(L, at, "scale", 1);
}

static sr_method read_method(lua_State *L, int at) {
    static const char *const names[] = {"adamw", "lamb", "stable_adamw", "muon", NULL};
    lua_getfield(L, at, "method");
    int method = luaL_checkoption(L, -1, "adamw", names);
    lua_pop(L, 1);
    return (sr_method)method;
}

static sr_optim_opts read_opts(lua_State *L, int at) {
    luaL_checktype(L, at, LUA_TTABLE);
    return (sr_optim_opts){
        .method = read_method(L, at),
        .momentum = lsr_field_number(L, at, "momentum", 0.95),
        .nesterov = lsr_field_bool(L, at, "nesterov", true),
        .beta1 = lsr_field_number(L, at, "beta1", 0.9),
        .beta2 = lsr_field_number(L, at, "beta2", 0.999),
        .eps = lsr_field_number(L, at, "eps", 1e-6),
        .power = lsr_field_number(L, at, "power", 1),
        .average = lsr_field_number(L, at, "average", 0),
        .clip_eps = lsr_field_bool(L, at, "clip_eps", false),
        .max_skipped = (int)lsr_field_range(L, at, "max_skipped", 3, 0, INT32_MAX),
        .range = {lsr_field_range(L, at, "first", 0, 0, INT64_MAX),
                  lsr_field_range(L, at, "last", 0, 0, INT64_MAX)},
    };
}

/* optim(params: Params, opts: { method?: "adamw"|"lamb"|"stable_adamw"|"muon", beta1?: number,
 *     beta2?: number, momentum?: number, nesterov?: boolean, eps?: number, power?: number,
 *     average?: number, clip_eps?: boolean, max_skipped?: integer, first?: integer, last?: integer
 *     }, segments: { rate?: number, decay?: number, trust?: boolean, frozen?: boolean, rows?:
 *     integer, columns?: integer, scale?: number }[]) -> Optim
 * An optimizer over a store, with zero moments.
 *   opts      first, last: the elements of the store that it owns; average: decay of a moving
 *             average of the values
 *   segments  one for each parameter, or for each matrix of Muon in it, from the top; rows,
 *             columns, scale: of a matrix of Muon */
static int train_optim(lua_State *L) {
    sr_params *p = lsr_checkparams(L, 1);
    sr_optim_opts opts = read_opts(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    int64_t count = opts.segment_count = luaL_len(L, 3);
    luaL_argcheck(L, count >= p->count, 3, "fewer segments than parameters");
    sr_segment *segments = lsr_scratch(L, count, sizeof *segments);
    for (int64_t i = 0; i < count; i++) {
        lua_geti(L, 3, i + 1);
        read_segment(L, lua_gettop(L), &segments[i]);
        lua_pop(L, 1);
    }
    sr_optim **box = lsr_newbox_with(L, sizeof *box, OPTIM, 1);
    lsr_keep(L, 1, 1); /* the parameters live as long as their optimizer */
    return lsr_made(L, sr_optim_new(box, p, segments, &opts));
}

LSR_RELEASE(optim_release, OPTIM, sr_optim, sr_optim_free)

/* @class seqrun.core.Optim
 * An optimizer; it keeps its parameters alive. */

/* optim:step(rate: number, clip: number, loss?: Tensor) -> true | nil, message, code
 * One step with the gradients in the store.
 *   clip  0: none
 *   loss  scalar that must be finite
 *   code  "numeric" when too many steps in a row were skipped */
static int optim_step(lua_State *L) {
    sr_optim *o = lsr_checkoptim(L, 1);
    sr_status st =
        sr_optim_step(o, luaL_checknumber(L, 2), luaL_checknumber(L, 3), lsr_opttensor(L, 4));
    if (st == SR_ENUMERIC) return lsr_result(L, st);
    lsr_check(L, st);
    return lsr_done(L, st);
}

/* optim:read_results() -> true | nil, message, code
 * Waits for the results of all pending steps.
 *   code  "numeric" when too many steps in a row were skipped */
static int optim_read_results(lua_State *L) {
    sr_status st = sr_optim_read_results(lsr_checkoptim(L, 1));
    if (st != SR_ENUMERIC) lsr_check(L, st);
    return lsr_done(L, st);
}

/* optim:result(serial: integer) -> { serial: integer, norm: number, finite: boolean, applied:
 *     boolean } zeros
 * The result of a step that was read.
 *   serial  counts the steps, from 1
 *   zeros   if the step is long past */
static int optim_result(lua_State *L) {
    sr_optim_result r = sr_optim_result_of(lsr_checkoptim(L, 1), luaL_checkinteger(L, 2));
    lua_createtable(L, 0, 4);
    lsr_set_integer(L, "serial", r.serial);
    lsr_set_number(L, "norm", r.norm);
    lsr_set_bool(L, "finite", r.finite);
    lsr_set_bool(L, "applied", r.applied);
    return 1;
}

/* optim:pending() -> integer pending, integer room
 * How many steps are pending, and how many may be. */
static int optim_pending(lua_State *L) {
    const sr_optim *o = lsr_checkoptim(L, 1);
    lua_pushinteger(L, o->pending);
    lua_pushinteger(L, o->room);
    return 2;
}

/* optim:counts() -> integer, integer, integer, integer
 * Steps applied, steps skipped, steps skipped in a row, and steps that moved the average. */
static int optim_counts(lua_State *L) {
    sr_optim *o = lsr_checkoptim(L, 1);
    lua_pushinteger(L, o->steps);
    lua_pushinteger(L, o->skipped);
    lua_pushinteger(L, o->in_a_row);
    lua_pushinteger(L, o->averaged);
    return 4;
}

/* optim:set_counts(applied: integer, skipped: integer, in_a_row: integer, power?: number,
 *     averaged?: integer)
 * Restores the counts of a checkpoint.
 *   power     of the betas
 *   averaged  default 0 */
static int optim_set_counts(lua_State *L) {
    sr_optim *o = lsr_checkoptim(L, 1);
    int64_t steps = lsr_checkrange(L, 2, 0, INT64_MAX);
    int64_t skipped = lsr_checkrange(L, 3, 0, INT64_MAX);
    int64_t in_a_row = lsr_checkrange(L, 4, 0, INT64_MAX);
    double power = luaL_optnumber(L, 5, o->opts.power);
    luaL_argcheck(L, power > 0 && power < HUGE_VAL, 5, "the power must be positive and finite");
    int64_t averaged = lua_isnoneornil(L, 6) ? 0 : lsr_checkrange(L, 6, 0, INT64_MAX);
    lsr_check(L, sr_optim_set_counts(o, steps, skipped, in_a_row, averaged));
    o->opts.power = power;
    return 0;
}

/* optim:piece(i: integer) -> Tensor? m, Tensor? v, integer? first, integer? last
 * The part of the moments of a parameter that this optimizer owns, as flat views; nothing if it
 * owns none.
 *   first  element of the parameter, from 0
 *   last   one past the last element */
static int optim_piece(lua_State *L) {
    sr_optim *o = lsr_checkoptim(L, 1);
    int64_t i = lsr_checkrange(L, 2, 1, o->params->count) - 1;
    sr_tensor **m = lsr_newtensor(L), **v = lsr_newtensor(L);
    sr_range held;
    lsr_check(L, sr_optim_moments_of(m, v, &held, o, i));
    if (*m == NULL) return 0;
    lua_pushinteger(L, held.first);
    lua_pushinteger(L, held.last);
    return 4;
}

/* optim:average_piece(i: integer) -> Tensor? average, integer? first, integer? last
 * The part of the average of a parameter that this optimizer owns, as a flat view; nothing if
 * there is none.
 *   first  element of the parameter, from 0
 *   last   one past the last element */
static int optim_average_piece(lua_State *L) {
    sr_optim *o = lsr_checkoptim(L, 1);
    int64_t i = lsr_checkrange(L, 2, 1, o->params->count) - 1;
    sr_tensor **average = lsr_newtensor(L);
    sr_range held;
    lsr_check(L, sr_optim_average_of(average, &held, o, i));
    if (*average == NULL) return 0;
    lua_pushinteger(L, held.first);
    lua_pushinteger(L, held.last);
    return 3;
}

/* optim:set_averaging(on: boolean)
 * Whether later steps move the average. */
static int optim_set_averaging(lua_State *L) {
    sr_optim *o = lsr_checkoptim(L, 1);
    luaL_checktype(L, 2, LUA_TBOOLEAN);
    o->averaging = o->average != NULL && lua_toboolean(L, 2);
    return 0;
}

/* optim:swap_average() -> true | nil, message, code
 * The values and their average change places, with what ops read. */
static int optim_swap_average(lua_State *L) {
    sr_optim *o = lsr_checkoptim(L, 1);
    sr_status st = sr_optim_swap_average(o);
    return lsr_done(L, st == SR_OK ? sr_params_after_step(o->params) : st);
}

/* optim:range() -> integer first, integer last
 * The elements of the store that this optimizer owns.
 *   first  from 0
 *   last   one past the last */
static int optim_range(lua_State *L) {
    const sr_optim *o = lsr_checkoptim(L, 1);
    lua_pushinteger(L, o->range.first);
    lua_pushinteger(L, o->range.last);
    return 2;
}

/* optim:release()
 * Frees the moments. */
static const luaL_Reg optim_methods[] = {
    {"step", optim_step},
    {"read_results", optim_read_results},
    {"result", optim_result},
    {"pending", optim_pending},
    {"counts", optim_counts},
    {"set_counts", optim_set_counts},
    {"piece", optim_piece},
    {"range", optim_range},
    {"average_piece", optim_average_piece},
    {"set_averaging", optim_set_averaging},
    {"swap_average", optim_swap_average},
    {"release", optim_release},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"params", train_params},
    {"optim", train_optim},
    {NULL, NULL},
};

/* @class seqrun.core.train
 * Parameters, optimizers, checkpoints and records; a thin layer over core/train. */
void lsr_open_train(lua_State *L) {
    lsr_class(L, PARAMS, params_methods, params_release);
    lsr_class(L, OPTIM, optim_methods, optim_release);
    luaL_setfuncs(L, functions, 0);
}

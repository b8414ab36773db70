/* ltwin.c - a second copy of the state of an optimizer, and its hashes; part of
 * seqrun.core.train, wrapped by lua/seqrun/run/verify. */
#include "core/train/twin.h"

#include "lua/bind/ltensor.h"
#include "lua/bind/ltrain.h"

#define TWIN "seqrun.core.Twin"

static const char *const kinds[] = {"gradient", "weights", "copies", "m", "v", "average", NULL};

static sr_twin *check_twin(lua_State *L) {
    sr_twin *t = lsr_checkobject(L, 1, TWIN, "the twin was released");
    lua_getiuservalue(L, 1, 1);
    lsr_checkoptim(L, -1);
    lua_pop(L, 1);
    return t;
}

/* twin(optim: Optim) -> Twin | nil, message, code
 * A second copy of the state of an optimizer, which it keeps alive: weights, moments and counts of
 * steps. */
static int train_twin(lua_State *L) {
    sr_optim *optim = lsr_checkoptim(L, 1);
    sr_twin **box = lsr_newbox_with(L, sizeof *box, TWIN, 1);
    lsr_keep(L, 1, 1);
    return lsr_give(L, sr_twin_new(box, optim));
}

LSR_RELEASE(twin_release, TWIN, sr_twin, sr_twin_free)

/* @class seqrun.core.Twin
 * A second copy of the state of an optimizer; results of its steps must have been read before each
 * call. */

/* twin:take()
 * The twin becomes a copy of the state. */
static int twin_take(lua_State *L) {
    return lsr_nothing(L, sr_twin_take(check_twin(L)));
}

/* twin:swap()
 * The twin and the state change places. */
static int twin_swap(lua_State *L) {
    return lsr_nothing(L, sr_twin_swap(check_twin(L)));
}

/* twin:compare() -> { what: string, param: integer, element: integer, elements: integer }|nil
 * The first difference between the two; nil if there is none. */
static int twin_compare(lua_State *L) {
    sr_twin_difference d;
    lsr_check(L, sr_twin_compare(&d, check_twin(L)));
    if (d.param < 0) return 0;
    lua_createtable(L, 0, 4);
    lsr_set_string(L, "what", kinds[d.what]);
    lsr_set_integer(L, "param", d.param + 1);
    lsr_set_integer(L, "element", d.element);
    lsr_set_integer(L, "elements", d.elements);
    return 1;
}

/* state_hashes(optim: Optim, what: "gradient"|"weights"|"copies"|"m"|"v"|"average", first?:
 *     integer, last?: integer) -> string
 * Hashes of chunks of the store in order, 8 bytes each: those in elements [first, last), by
 * default all that this optimizer has.
 *   first  from 0 */
static int train_state_hashes(lua_State *L) {
    const sr_optim *o = lsr_checkoptim(L, 1);
    sr_held what = (sr_held)lsr_checkoption(L, 2, "state_hashes: what", NULL, kinds);
    sr_range range = {lsr_optrange(L, 3, 0, 0, o->params->stored),
                      lsr_optrange(L, 4, o->params->stored, 0, o->params->stored)};
    int64_t count, room = sr_hash_count(o->params);
    uint64_t *hashes = lsr_scratch(L, room, sizeof *hashes);
    lsr_check(L, sr_hash_state(hashes, &count, o, what, range));
    return lsr_give_bytes(L, (const char *)hashes, (size_t)count * sizeof *hashes);
}

/* hash_before(params: Params, i: integer) -> integer
 * Chunks of the parameters before number i; of all with i = count + 1. */
static int train_hash_before(lua_State *L) {
    const sr_params *p = lsr_checkparams(L, 1);
    return lsr_give_integer(L, sr_hash_before(p, lsr_checkrange(L, 2, 1, p->count + 1) - 1));
}

/* twin:release()
 * Frees the copy. */
static const luaL_Reg methods[] = {
    {"take", twin_take},       {"swap", twin_swap}, {"compare", twin_compare},
    {"release", twin_release}, {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"twin", train_twin},
    {"state_hashes", train_state_hashes},
    {"hash_before", train_hash_before},
    {NULL, NULL},
};

void lsr_open_twin(lua_State *L) {
    lsr_class(L, TWIN, methods, twin_release);
    luaL_setfuncs(L, functions, 0);
}

/* lsharded.c - an optimizer that is sharded over ranks; part of seqrun.core.train, wrapped by
 * lua/seqrun/optim/init.lua. */
#include "core/train/sharded.h"

#include "lua/bind/lcomm.h"
#include "lua/bind/ltensor.h"
#include "lua/bind/ltrain.h"

#define SHARDED "seqrun.core.Sharded"

/* User values: the optimizer and the world, which live as long as this. */
static sr_sharded *check_sharded(lua_State *L) {
    sr_sharded *s = lsr_checkobject(L, 1, SHARDED, "the optimizer was released");
    lua_getiuservalue(L, 1, 1);
    lsr_checkoptim(L, -1);
    lua_getiuservalue(L, 1, 2);
    lsr_checkworld(L, -1);
    lua_pop(L, 2);
    return s;
}

/* cut(params: Params, rank: integer, ranks: integer) -> integer first, integer last
 * The elements of the store that the optimizer of a rank owns: cut between chunks, about as many
 * for each.
 *   rank   from 0
 *   first  from 0
 *   last   one past the last */
static int train_cut(lua_State *L) {
    const sr_params *p = lsr_checkparams(L, 1);
    int ranks = (int)lsr_checkrange(L, 3, 1, INT32_MAX);
    sr_range range = sr_optim_cut(p, (int)lsr_checkrange(L, 2, 0, ranks - 1), ranks);
    lua_pushinteger(L, range.first);
    lua_pushinteger(L, range.last);
    return 2;
}

/* sharded(optim: Optim, world: World) -> Sharded
 * An optimizer that is sharded over the ranks of a world; it keeps both alive.
 *   optim  which owns the range of this rank */
static int train_sharded(lua_State *L) {
    sr_optim *optim = lsr_checkoptim(L, 1);
    sr_comm *comm = lsr_checkworld(L, 2);
    sr_sharded **box = lsr_newbox_with(L, sizeof *box, SHARDED, 2);
    lsr_keep(L, 1, 1);
    lsr_keep(L, 2, 2);
    return lsr_made(L, sr_sharded_new(box, comm, optim));
}

LSR_RELEASE(sharded_release, SHARDED, sr_sharded, sr_sharded_free)

/* @class seqrun.core.Sharded
 * An optimizer of which each rank owns a range. */

/* sharded:step(rate: number, clip: number, loss?: Tensor) -> true | nil, message, code
 * One step; all ranks make it, each with the gradients of its range.
 *   clip  0: none
 *   loss  scalar of this rank that must be finite
 *   code  "numeric" when too many steps in a row were skipped; "peer" when another rank failed */
static int sharded_step(lua_State *L) {
    sr_sharded *s = check_sharded(L);
    double rate = luaL_checknumber(L, 2), clip = luaL_checknumber(L, 3);
    return lsr_done(L, sr_sharded_step(s, rate, clip, lsr_opttensor(L, 4)));
}

/* sharded:gather() -> true | nil, message, code
 * Makes the masters of a bf16 copy whole on rank 0; all ranks call it. */
static int sharded_gather(lua_State *L) {
    return lsr_done(L, sr_sharded_gather(check_sharded(L)));
}

/* sharded:swap_average() -> true | nil, message, code
 * The values and their average change places on all ranks; all ranks call it. */
static int sharded_swap_average(lua_State *L) {
    return lsr_done(L, sr_sharded_swap_average(check_sharded(L)));
}

/* sharded:release()
 * Frees the buffers. */
static const luaL_Reg methods[] = {
    {"swap_average", sharded_swap_average}, {"step", sharded_step}, {"gather", sharded_gather},
    {"release", sharded_release},           {NULL, NULL},
};

void lsr_open_sharded(lua_State *L) {
    lsr_class(L, SHARDED, methods, sharded_release);
    lua_pushcfunction(L, train_sharded);
    lua_setfield(L, -2, "sharded");
    lua_pushcfunction(L, train_cut);
    lua_setfield(L, -2, "cut");
}

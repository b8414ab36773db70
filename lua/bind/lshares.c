/* lshares.c - the gradient of an update as a sum over shares; part of seqrun.core.train,
 * wrapped by lua/seqrun/tensor/params.lua. */
#include "core/loader/update.h"
#include "core/train/shares.h"

#include "lua/bind/ltrain.h"

#define SHARES "seqrun.core.Shares"

sr_shares *lsr_checkshares(lua_State *L, int arg) {
    sr_shares *shares = lsr_checkobject(L, arg, SHARES, "the shares were released");
    lua_getiuservalue(L, arg, 1);
    lsr_checkparams(L, -1);
    lua_pop(L, 1);
    return shares;
}

/* shares(params: Params) -> Shares
 * The sum over the shares of an update; see Params:begin_update. */
static int train_shares(lua_State *L) {
    sr_params *params = lsr_checkparams(L, 1);
    sr_shares **box = lsr_newbox_with(L, sizeof *box, SHARES, 1);
    lsr_keep(L, 1, 1); /* the parameters live as long as their shares */
    return lsr_made(L, sr_shares_new(box, params));
}

/* share_sums(total: integer, rank: integer, ranks: integer, joined?: boolean) -> integer own,
 *     integer left
 * The sums of shares that a rank holds during an update.
 *   total   shares of the update
 *   rank    from 0
 *   joined  the sum with its last share stays in the gradients
 *   own     the most that wait beside its gradients
 *   left    those that it leaves for other ranks */
static int train_share_sums(lua_State *L) {
    int64_t total = lsr_checkrange(L, 1, 1, SR_MOST_SHARES);
    int ranks = (int)lsr_checkrange(L, 3, 1, INT32_MAX);
    int rank = (int)lsr_checkrange(L, 2, 0, ranks - 1);
    int64_t first = sr_first_share(total, rank, ranks),
            end = sr_first_share(total, rank + 1, ranks);
    sr_share_node node[SR_MOST_NODES];
    lua_pushinteger(L, sr_shares_most(total, first, end, lua_toboolean(L, 4)));
    lua_pushinteger(L, sr_shares_nodes(node, total, first, end));
    return 2;
}

LSR_RELEASE(shares_release, SHARES, sr_shares, sr_shares_free)

/* @class seqrun.core.Shares
 * The gradient of an update, summed over its shares. */

/* shares:begin(total: integer)
 * Begins an update of `total` shares. */
static int shares_begin(lua_State *L) {
    return lsr_nothing(L, sr_shares_begin(lsr_checkshares(L, 1), luaL_checkinteger(L, 2)));
}

/* shares:end_share(i: integer)
 * Completes share number i, whose gradient is in the gradient store.
 *   i  from 1 */
static int shares_end_share(lua_State *L) {
    return lsr_nothing(L, sr_shares_end(lsr_checkshares(L, 1), luaL_checkinteger(L, 2) - 1));
}

/* shares:finish()
 * Adds up the remaining partial sums and ends the update. */
static int shares_finish(lua_State *L) {
    return lsr_nothing(L, sr_shares_finish(lsr_checkshares(L, 1)));
}

/* shares:drop()
 * Drops the partial sums and ends the update. */
static int shares_drop(lua_State *L) {
    sr_shares_drop(lsr_checkshares(L, 1));
    return 0;
}

/* shares:release()
 * Frees the memory. */
static const luaL_Reg methods[] = {
    {"begin", shares_begin}, {"end_share", shares_end_share}, {"finish", shares_finish},
    {"drop", shares_drop},   {"release", shares_release},     {NULL, NULL},
};

void lsr_open_shares(lua_State *L) {
    lsr_class(L, SHARES, methods, shares_release);
    lua_pushcfunction(L, train_shares);
    lua_setfield(L, -2, "shares");
    lua_pushcfunction(L, train_share_sums);
    lua_setfield(L, -2, "share_sums");
}

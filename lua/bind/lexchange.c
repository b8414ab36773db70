/* lexchange.c - the gradient of an update summed over ranks; part of seqrun.core.train,
 * wrapped by lua/seqrun/tensor/params.lua. */
#include "core/train/exchange.h"

#include "lua/bind/lcomm.h"
#include "lua/bind/ltrain.h"

#define EXCHANGE "seqrun.core.Exchange"

static sr_exchange *check_exchange(lua_State *L) {
    sr_exchange *exchange = lsr_checkobject(L, 1, EXCHANGE, "the exchange was released");
    lua_getiuservalue(L, 1, 1);
    lsr_checkshares(L, -1);
    lua_getiuservalue(L, 1, 2);
    lsr_checkworld(L, -1);
    lua_pop(L, 2);
    return exchange;
}

/* exchange(shares: Shares, world: World, options: { library?: boolean, sharded?: boolean,
 *     overlap?: boolean, bucket?: integer }) -> Exchange
 * The sum of shares over ranks; see Params:share_with.
 *   options  bucket: elements */
static int train_exchange(lua_State *L) {
    sr_shares *shares = lsr_checkshares(L, 1);
    sr_comm *comm = lsr_checkworld(L, 2);
    static const char *const known[] = {"library", "sharded", "overlap", "bucket", NULL};
    lsr_check_options(L, 3, "exchange", known);
    sr_exchange_opts opts = {
        .library = lsr_field_bool(L, 3, "library", false),
        .sharded = lsr_field_bool(L, 3, "sharded", false),
        .overlap = lsr_field_bool(L, 3, "overlap", false),
        .bucket = lsr_field_integer(L, 3, "bucket", 1),
    };
    sr_exchange **box = lsr_newbox_with(L, sizeof *box, EXCHANGE, 2);
    lsr_keep(L, 1, 1); /* both live as long as the exchange */
    lsr_keep(L, 2, 2);
    return lsr_made(L, sr_exchange_new(box, shares, comm, &opts));
}

LSR_RELEASE(exchange_release, EXCHANGE, sr_exchange, sr_exchange_free)

/* A share, from 1, or none: -1. */
static int64_t share_argument(lua_State *L, int arg) {
    return luaL_optinteger(L, arg, 0) - 1;
}

/* @class seqrun.core.Exchange
 * The gradient of an update, summed over the ranks of a world; all of them make the same calls. */

/* exchange:batch(total: integer, last?: integer) -> true | nil, message, code
 * A micro-batch begins; `last` is the last share of this rank, if it ends with it.
 *   total  shares of the update
 *   last   from 1 */
static int exchange_batch(lua_State *L) {
    sr_exchange *x = check_exchange(L);
    return lsr_done(L, sr_exchange_batch(x, luaL_checkinteger(L, 2), share_argument(L, 3)));
}

/* exchange:rest(total: integer, last?: integer) -> true | nil, message, code
 * The micro-batches of this rank have ended: sends what has not been sent, with the share that is
 * in the gradients.
 *   last  from 1 */
static int exchange_rest(lua_State *L) {
    sr_exchange *x = check_exchange(L);
    return lsr_done(L, sr_exchange_rest(x, luaL_checkinteger(L, 2), share_argument(L, 3)));
}

/* exchange:reduce(total: integer) -> true | nil, message, code
 * Ends an update of `total` shares: the gradients of this rank's piece of the store are its sum. */
static int exchange_reduce(lua_State *L) {
    sr_exchange *x = check_exchange(L);
    return lsr_done(L, sr_exchange_reduce(x, luaL_checkinteger(L, 2)));
}

/* exchange:gather() -> true | nil, message, code
 * After reduce: all gradients, on all ranks. */
static int exchange_gather(lua_State *L) {
    return lsr_done(L, sr_exchange_gather(check_exchange(L)));
}

/* exchange:release()
 * Frees the memory. */
static const luaL_Reg methods[] = {
    {"reduce", exchange_reduce}, {"gather", exchange_gather},   {"batch", exchange_batch},
    {"rest", exchange_rest},     {"release", exchange_release}, {NULL, NULL},
};

void lsr_open_exchange(lua_State *L) {
    lsr_class(L, EXCHANGE, methods, exchange_release);
    lua_pushcfunction(L, train_exchange);
    lua_setfield(L, -2, "exchange");
}

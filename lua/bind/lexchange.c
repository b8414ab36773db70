/* lexchange.c - the gradient of an update summed over ranks; for lua/seqrun/params.lua. */
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

/* exchange(shares, world) -> Exchange */
static int train_exchange(lua_State *L) {
    sr_shares *shares = lsr_checkshares(L, 1);
    sr_comm *comm = lsr_checkworld(L, 2);
    sr_exchange **box = lsr_newbox_with(L, sizeof *box, EXCHANGE, 2);
    for (int i = 1; i <= 2; i++) { /* both live as long as the exchange */
        lua_pushvalue(L, i);
        lua_setiuservalue(L, -2, i);
    }
    lsr_check(L, sr_exchange_new(box, shares, comm));
    return 1;
}

LSR_RELEASE(exchange_release, EXCHANGE, sr_exchange, sr_exchange_free)

/* exchange:reduce(total) -> true, or nil, message, code */
static int exchange_reduce(lua_State *L) {
    sr_exchange *x = check_exchange(L);
    return lsr_done(L, sr_exchange_reduce(x, luaL_checkinteger(L, 2)));
}

/* exchange:gather() -> true, or nil, message, code */
static int exchange_gather(lua_State *L) {
    return lsr_done(L, sr_exchange_gather(check_exchange(L)));
}

/* exchange:library() -> true, or nil, message, code */
static int exchange_library(lua_State *L) {
    return lsr_done(L, sr_exchange_library(check_exchange(L)));
}

static const luaL_Reg methods[] = {
    {"reduce", exchange_reduce},
    {"gather", exchange_gather},
    {"library", exchange_library},
    {"release", exchange_release},
    {NULL, NULL},
};

void lsr_open_exchange(lua_State *L) {
    lsr_class(L, EXCHANGE, methods, exchange_release);
    lua_pushcfunction(L, train_exchange);
    lua_setfield(L, -2, "exchange");
}

#include "lua/bind/lsolver.h"

#include <lauxlib.h>
#include <string.h>

#include "lua/bind/lcheck.h"
#include "lua/bind/lpack.h"

typedef struct request {
    sr_plan **out;
    const sr_histogram *histogram;
    const sr_pack_opts *opts;
} request;

static sr_status status_of(const char *code) {
    for (int st = SR_OK + 1; code != NULL && st < SR_STATUS_COUNT; st++)
        if (strcmp(code, sr_status_name((sr_status)st)) == 0) return (sr_status)st;
    return SR_EINVAL;
}

/* (function, request) -> message, code | nothing */
static int call(lua_State *L) {
    request *r = lua_touserdata(L, 2);
    lua_settop(L, 1);
    sr_histogram *h = lsr_pack_new_histogram(L);
    lsr_check(L, sr_histogram_copy(h, r->histogram));
    lua_pushinteger(L, r->opts->max_seqs);
    lua_call(L, 2, 3);
    if (lua_isnil(L, 1)) return 2;
    *r->out = sr_plan_retain(lsr_pack_plan(L, 1));
    return 0;
}

/* The function has a Lua thread of its own, so any coroutine may ask a loader for updates. */
static sr_status solve(sr_plan **out, const sr_histogram *histogram, const sr_pack_opts *opts) {
    lua_State *L = opts->own_context;
    request r = {out, histogram, opts};
    lua_settop(L, 1);
    lua_pushcfunction(L, call); /* this and what follows allocates nothing */
    lua_pushvalue(L, 1);
    lua_pushlightuserdata(L, &r);
    int failed = lua_pcall(L, 2, 2, 0);
    if (*out != NULL) return SR_OK;
    const char *message = lua_tostring(L, failed ? -1 : -2);
    const char *code = failed || !lua_isstring(L, -1) ? NULL : lua_tostring(L, -1);
    return sr_fail(failed == LUA_ERRMEM ? SR_ENOMEM : status_of(code), "%s",
                   message != NULL ? message : "pack: the solver failed without a message");
}

void lsr_push_solver(lua_State *L, int arg, sr_pack_opts *o) {
    if (lua_getfield(L, arg, "solve") != LUA_TFUNCTION) {
        lua_pop(L, 1);
        lua_pushnil(L);
        return;
    }
    lua_State *thread = lua_newthread(L);
    lua_insert(L, -2);
    lua_xmove(L, thread, 1);
    o->own = solve;
    o->own_context = thread;
    o->solver = NULL;
}

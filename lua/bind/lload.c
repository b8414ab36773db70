/* lload.c - only source text is loaded: precompiled chunks can corrupt memory, so load, loadfile,
 * dofile and require reject them. */
#include "lua/bind/lstate.h"

#include <lauxlib.h>
#include <string.h>

/* Upvalue 1 is the library's own function; its mode argument, at `at`, is made "t". */
static int call_as_text(lua_State *L, int at) {
    if (lua_gettop(L) < at) lua_settop(L, at);
    if (!lua_isnil(L, at) && strchr(luaL_checkstring(L, at), 't') == NULL) {
        lua_pushnil(L);
        lua_pushliteral(L, "precompiled chunks are not allowed; load the source text");
        return 2;
    }
    lua_pushliteral(L, "t");
    lua_replace(L, at);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* load(chunk [, name [, mode [, env]]]) */
static int load_text(lua_State *L) {
    return call_as_text(L, 3);
}

/* loadfile([name [, mode [, env]]]) */
static int loadfile_text(lua_State *L) {
    return call_as_text(L, 2);
}

static int dofile_continue(lua_State *L, int status, lua_KContext context) {
    (void)status, (void)context;
    return lua_gettop(L) - 1;
}

/* dofile([name]) */
static int dofile_text(lua_State *L) {
    const char *name = luaL_optstring(L, 1, NULL);
    lua_settop(L, 1);
    if (luaL_loadfilex(L, name, "t") != LUA_OK) return lua_error(L);
    lua_callk(L, 0, LUA_MULTRET, 0, dofile_continue);
    return dofile_continue(L, 0, 0);
}

/* package.searchers[2]: looks a module up in package.path (upvalue 1 is the package table). */
static int search_text(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    lua_getfield(L, lua_upvalueindex(1), "searchpath");
    lua_pushvalue(L, 1);
    if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING)
        return luaL_error(L, "'package.path' must be a string");
    lua_call(L, 2, 2);
    if (lua_isnil(L, -2)) return 1; /* the message lists the paths searched */
    const char *file = lua_tostring(L, -2);
    if (luaL_loadfilex(L, file, "t") != LUA_OK)
        return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, file,
                          lua_tostring(L, -1));
    lua_pushstring(L, file);
    return 2;
}

static void wrap(lua_State *L, const char *name, lua_CFunction function) {
    lua_getglobal(L, name);
    lua_pushcclosure(L, function, 1);
    lua_setglobal(L, name);
}

void lsr_text_only(lua_State *L) {
    wrap(L, "load", load_text);
    wrap(L, "loadfile", loadfile_text);
    wrap(L, "dofile", dofile_text);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, search_text, 1);
    lua_rawseti(L, -2, 2);
    lua_pop(L, 2);
}

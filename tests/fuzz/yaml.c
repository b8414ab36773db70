/* yaml.c - any bytes as a config: a tree whose nodes all have positions, or at least one problem,
 * and a balanced Lua stack.  Includes the bindings, which are not in the library. */
#include "lua/bind/lcheck.c"
#include "lua/bind/lyaml.c"

#include "tests/fuzz/fuzz.h"

static void check_node(lua_State *L, int depth) {
    FUZZ_CHECK(depth <= DEPTH_LIMIT + 1);
    luaL_checkstack(L, 8, NULL);
    FUZZ_CHECK(lua_getfield(L, -1, "line") == LUA_TNUMBER && lua_tointeger(L, -1) >= 1);
    FUZZ_CHECK(lua_getfield(L, -2, "column") == LUA_TNUMBER && lua_tointeger(L, -1) >= 1);
    lua_pop(L, 2);
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, i);
        if (lua_getfield(L, -1, "key") == LUA_TTABLE) {
            check_node(L, depth + 1);
            lua_pop(L, 1);
            lua_getfield(L, -1, "value");
            check_node(L, depth + 1);
        } else {
            lua_pop(L, 1);
            lua_pushvalue(L, -1);
            check_node(L, depth + 1);
        }
        lua_pop(L, 2);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    lua_State *L = luaL_newstate();
    if (L == NULL) return 0;
    lua_newtable(L);
    lsr_open_yaml(L);
    lua_getfield(L, -1, "parse");
    lua_pushlstring(L, (const char *)bytes, size);
    FUZZ_CHECK(lua_pcall(L, 1, 2, 0) == LUA_OK);
    FUZZ_CHECK(lua_type(L, -1) == LUA_TTABLE);
    lua_Integer problems = (lua_Integer)lua_rawlen(L, -1);
    lua_pop(L, 1);
    FUZZ_CHECK(lua_isnil(L, -1) || lua_istable(L, -1));
    FUZZ_CHECK(!lua_isnil(L, -1) || problems > 0 || size < (1 << 20));
    if (lua_istable(L, -1)) check_node(L, 1);
    FUZZ_CHECK(lua_gettop(L) == 2);
    lua_close(L);
    return 0;
}

#include "lua/bind/lseqrun.h"

#include <lauxlib.h>
#include <lualib.h>

#include "lua/bind/lcheck.h"

int luaopen_seqrun_core_batch(lua_State *L);
int luaopen_seqrun_core_comm(lua_State *L);
int luaopen_seqrun_core_data(lua_State *L);
int luaopen_seqrun_core_edit(lua_State *L);
int luaopen_seqrun_core_json(lua_State *L);
int luaopen_seqrun_core_metric(lua_State *L);
int luaopen_seqrun_core_ops(lua_State *L);
int luaopen_seqrun_core_pack(lua_State *L);
int luaopen_seqrun_core_socket(lua_State *L);
int luaopen_seqrun_core_sys(lua_State *L);
int luaopen_seqrun_core_tensor(lua_State *L);
int luaopen_seqrun_core_text(lua_State *L);
int luaopen_seqrun_core_train(lua_State *L);
int luaopen_seqrun_core_yaml(lua_State *L);

/* One line per module, in the order of the layers. */
/* clang-format off */
static const luaL_Reg modules[] = {
    {"json", luaopen_seqrun_core_json},
    {"sys", luaopen_seqrun_core_sys},
    {"socket", luaopen_seqrun_core_socket},
    {"edit", luaopen_seqrun_core_edit},
    {"text", luaopen_seqrun_core_text},
    {"data", luaopen_seqrun_core_data},
    {"metric", luaopen_seqrun_core_metric},
    {"pack", luaopen_seqrun_core_pack},
    {"batch", luaopen_seqrun_core_batch},
    {"tensor", luaopen_seqrun_core_tensor},
    {"ops", luaopen_seqrun_core_ops},
    {"comm", luaopen_seqrun_core_comm},
    {"train", luaopen_seqrun_core_train},
    {"yaml", luaopen_seqrun_core_yaml},
    {NULL, NULL},
};
/* clang-format on */

void lsr_open(lua_State *L, const char *lua_dir) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    for (const luaL_Reg *m = modules; m->name != NULL; m++) {
        lua_pushfstring(L, "seqrun.core.%s", m->name);
        lua_pushcfunction(L, m->func);
        lua_settable(L, -3);
    }
    lua_pop(L, 1);
    lua_getglobal(L, "package");
    lua_pushfstring(L,
                    "%s/?.lua;%s/?/init.lua;/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua",
                    lua_dir, lua_dir);
    lua_setfield(L, -2, "path");
    lua_pop(L, 1);
    lsr_set_library(L, lua_dir);
}

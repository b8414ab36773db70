#include "lua/bind/lseqrun.h"

#include <inttypes.h>
#include <lualib.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

int luaopen_seqrun_core_batch(lua_State *L);
int luaopen_seqrun_core_data(lua_State *L);
int luaopen_seqrun_core_json(lua_State *L);
int luaopen_seqrun_core_fault(lua_State *L);
int luaopen_seqrun_core_ops(lua_State *L);
int luaopen_seqrun_core_pack(lua_State *L);
int luaopen_seqrun_core_sys(lua_State *L);
int luaopen_seqrun_core_tensor(lua_State *L);
int luaopen_seqrun_core_text(lua_State *L);
int luaopen_seqrun_core_train(lua_State *L);
int luaopen_seqrun_core_yaml(lua_State *L);

/* One line a module, in the order of the house. */
/* clang-format off */
static const luaL_Reg modules[] = {
    {"json", luaopen_seqrun_core_json},
    {"fault", luaopen_seqrun_core_fault},
    {"sys", luaopen_seqrun_core_sys},
    {"text", luaopen_seqrun_core_text},
    {"data", luaopen_seqrun_core_data},
    {"pack", luaopen_seqrun_core_pack},
    {"batch", luaopen_seqrun_core_batch},
    {"tensor", luaopen_seqrun_core_tensor},
    {"ops", luaopen_seqrun_core_ops},
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
}

/* Files of thin wrappers: their callers made the mistake, not they. */
static bool is_wrapper(const char *source) {
    static const char *const files[] = {"/seqrun/tensor.lua", "/seqrun/ops.lua",
                                        "/seqrun/params.lua", "/seqrun/optim.lua",
                                        "/seqrun/pack/init.lua"};
    size_t n = strlen(source);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t m = strlen(files[i]);
        if (n >= m && strcmp(source + n - m, files[i]) == 0) return true;
    }
    return false;
}

/* Pushes "file:line: " of the innermost Lua function that called us and is no wrapper; "" where a
 * tail call has left no trace of it. */
static void push_where(lua_State *L) {
    lua_Debug at;
    for (int level = 1; lua_getstack(L, level, &at); level++) {
        lua_getinfo(L, "Slt", &at);
        if (at.currentline > 0 && is_wrapper(at.source) && at.istailcall) break;
        if (at.currentline <= 0 || is_wrapper(at.source)) continue;
        lua_pushfstring(L, "%s:%d: ", at.short_src, at.currentline);
        return;
    }
    lua_pushliteral(L, "");
}

/* Raises a Failure of lua/seqrun/failure.lua, which keeps the status for the exit code. */
static void raise_failure(lua_State *L, sr_status status) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, "seqrun.failure") != LUA_TTABLE) return;
    lua_getfield(L, -1, "raise");
    lua_pushstring(L, sr_status_name(status));
    lua_pushliteral(L, "%s");
    lua_pushstring(L, sr_message());
    lua_call(L, 3, 0);
}

void lsr_check(lua_State *L, sr_status status) {
    if (status == SR_OK) return;
    if (status != SR_EINVAL && status != SR_ECONFIG) raise_failure(L, status);
    push_where(L);
    lua_pushstring(L, sr_message());
    lua_concat(L, 2);
    lua_error(L);
}

int lsr_error(lua_State *L, const char *format, ...) {
    va_list arguments;
    push_where(L);
    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    lua_concat(L, 2);
    return lua_error(L);
}

int lsr_argerror(lua_State *L, int arg, const char *what) {
    lua_Debug at;
    if (!lua_getstack(L, 0, &at)) return lsr_error(L, "bad argument #%d (%s)", arg, what);
    lua_getinfo(L, "n", &at);
    const char *name = at.name != NULL ? at.name : "?";
    if (strcmp(at.namewhat, "method") != 0)
        return lsr_error(L, "%s: argument %d: %s", name, arg, what);
    if (arg == 1) return lsr_error(L, "%s: called with a dot instead of a colon? %s", name, what);
    return lsr_error(L, "%s: argument %d: %s", name, arg - 1, what);
}

int lsr_typeerror(lua_State *L, int arg, const char *wanted) {
    return lsr_argerror(L, arg,
                        lua_pushfstring(L, "wanted %s, got %s", wanted, luaL_typename(L, arg)));
}

int lsr_checkoption(lua_State *L, int arg, const char *what, const char *otherwise,
                    const char *const names[]) {
    const char *name = lua_isnoneornil(L, arg) ? otherwise : lua_tostring(L, arg);
    for (int i = 0; name != NULL && names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0) return i;
    luaL_Buffer known;
    luaL_buffinit(L, &known);
    for (int i = 0; names[i] != NULL; i++) {
        luaL_addstring(&known, i > 0 ? ", " : "");
        luaL_addstring(&known, names[i]);
    }
    luaL_pushresult(&known);
    return lsr_error(L, "%s is %s; use one of: %s", what,
                     name != NULL ? name : luaL_typename(L, arg), lua_tostring(L, -1));
}

int lsr_result(lua_State *L, sr_status status) {
    lua_pushnil(L);
    lua_pushstring(L, sr_message());
    lua_pushstring(L, sr_status_name(status));
    return 3;
}

int64_t lsr_checkrange(lua_State *L, int arg, int64_t least, int64_t most) {
    lua_Integer x = luaL_checkinteger(L, arg);
    if (x < least || x > most)
        lsr_argerror(
            L, arg,
            lua_pushfstring(L, "%I is not in %I..%I", x, (lua_Integer)least, (lua_Integer)most));
    return x;
}

/* lload.c - only source text is loaded: precompiled chunks can corrupt memory, so load, loadfile,
 * dofile and require reject them.  require also names the file of a module that it cannot read. */
#include "lua/bind/lstate.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Upvalue 1 is Lua's own function; its mode argument, at `at`, is set to "t". */
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

static int open_error(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) return errno;
    fclose(file);
    return 0;
}

/* Whether require was called by C or by seqrun's own files, which begin like the first template. */
static bool library_requires(lua_State *L, const char *templates) {
    lua_Debug caller;
    if (!lua_getstack(L, 2, &caller) || !lua_getinfo(L, "S", &caller)) return true;
    size_t directory = strcspn(templates, "?");
    return caller.source[0] != '@' || strncmp(caller.source + 1, templates, directory) == 0;
}

static int cannot_load(lua_State *L, const char *name, const char *path, const char *why) {
    bool own = strcmp(name, "seqrun") == 0 || strncmp(name, "seqrun.", 7) == 0;
    const char *way = own ? "; install seqrun again" : "";
    return luaL_error(L, LSR_CANNOT_LOAD "%s': %s: %s%s", name, path, why, way);
}

/* A module that no template finds: an error if one of its files is there and cannot be opened, or
 * if seqrun itself lacks it. */
static void check_lost(lua_State *L, const char *name, const char *templates) {
    const char *first = NULL, *part = luaL_gsub(L, name, ".", "/");
    bool own = strncmp(part, "seqrun/", 7) == 0 && library_requires(L, templates);
    for (const char *at = templates; *at != '\0'; at += strspn(at, ";")) {
        size_t length = strcspn(at, ";");
        lua_pushlstring(L, at, length);
        const char *path = luaL_gsub(L, lua_tostring(L, -1), "?", part);
        int why = open_error(path);
        if (why != 0 && why != ENOENT && why != ENOTDIR) cannot_load(L, name, path, strerror(why));
        if (first == NULL) first = path;
        at += length;
        luaL_checkstack(L, 4, "package.path");
    }
    if (own && first != NULL) cannot_load(L, name, first, strerror(ENOENT));
}

/* package.searchers[2]: looks a module up in package.path (upvalue 1 is the package table). */
static int search_text(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    lua_settop(L, 1);
    if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING)
        return luaL_error(L, "'package.path' must be a string");
    lua_getfield(L, lua_upvalueindex(1), "searchpath");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 2);
    const char *file = lua_tostring(L, 3);
    if (file == NULL) {
        check_lost(L, name, lua_tostring(L, 2));
        lua_pushvalue(L, 4);
        return 1; /* the message lists the paths searched */
    }
    int status = luaL_loadfilex(L, file, "t");
    if (status == LUA_ERRFILE) return cannot_load(L, name, file, "it cannot be read");
    if (status != LUA_OK)
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

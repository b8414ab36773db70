#include "lua/bind/lstate.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/mem.h"

typedef struct {
    size_t used, limit;
} account;

/* Lua's allocator.  Shrinking must not fail, so a failed one keeps the larger block. */
static void *allocate(void *context, void *block, size_t old, size_t size) {
    account *a = context;
    if (block == NULL) old = 0; /* then it is the type of the object */
    if (size == 0) {
        sr_free(block);
        a->used -= old;
        return NULL;
    }
    if (size > old && a->limit != 0 &&
        size - old > a->limit - (a->used < a->limit ? a->used : a->limit))
        return NULL;
    void *moved = sr_mem_realloc(block, size);
    if (moved == NULL && size > old) return NULL;
    a->used = a->used - old + size;
    return moved != NULL ? moved : block;
}

static account *account_of(lua_State *L) {
    void *context;
    lua_getallocf(L, &context);
    return context;
}

size_t lsr_state_memory(lua_State *L) {
    return account_of(L)->used;
}

void lsr_state_limit(lua_State *L, size_t bytes) {
    account_of(L)->limit = bytes;
}

/* An error outside any protected call: the process aborts. */
static int panic(lua_State *L) {
    const char *message = lua_tostring(L, -1);
    fprintf(stderr, "seqrun: internal error: %s\n", message != NULL ? message : "no message");
    fflush(stderr);
    _exit(70);
}

/* os.exit([code]): as in Lua, but the state is closed unless the second argument is false, so
 * that files are flushed and __close handlers run. */
static int exit_closing(lua_State *L) {
    int code = lua_isboolean(L, 1) ? (lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE)
                                   : (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
    if (lua_isnoneornil(L, 2) || lua_toboolean(L, 2)) lsr_state_close(L);
    exit(code);
}

int lsr_traceback(lua_State *L) {
    const char *message = lua_tostring(L, 1);
    if (message == NULL) {
        if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
        message = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    }
    luaL_traceback(L, L, message, 1);
    return 1;
}

static void drop_here(lua_State *L, const char *field) {
    lua_getfield(L, -1, field);
    luaL_gsub(L, lua_tostring(L, -1), ";./?.so", "");
    lua_setfield(L, -3, field);
    lua_pop(L, 1);
}

static int prepare(lua_State *L) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV"); /* before the libraries read it */
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    drop_here(L, "cpath");
    lua_getglobal(L, "os");
    lua_pushcfunction(L, exit_closing);
    lua_setfield(L, -2, "exit");
    lua_pop(L, 2);
    lsr_text_only(L);
    return 0;
}

lua_State *lsr_state_new(void) {
    account *a;
    if (sr_new(&a, 1) != SR_OK) return NULL;
    lua_State *L = lua_newstate(allocate, a);
    if (L == NULL) {
        sr_free(a);
        return NULL;
    }
    lua_atpanic(L, panic);
    lua_pushcfunction(L, prepare);
    if (lua_pcall(L, 0, 0, 0) == LUA_OK) return L;
    lsr_state_close(L);
    return NULL;
}

void lsr_state_close(lua_State *L) {
    account *a = account_of(L);
    lua_close(L);
    sr_free(a);
}

/* main.c - the program: finds its Lua files and hands over to lua/seqrun/cli.lua. */
#include <libgen.h>
#include <limits.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lua/bind/lseqrun.h"

/* The folder of the Lua files: beside build/ in a checkout, else share/seqrun/lua. */
static void find_lua_dir(char out[PATH_MAX]) {
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n < 0 ? 0 : n] = '\0';
    const char *dir = dirname(exe);
    snprintf(out, PATH_MAX, "%.4000s/../lua", dir);
    if (access(out, R_OK) != 0) snprintf(out, PATH_MAX, "%.4000s/../share/seqrun/lua", dir);
}

int main(int argc, char **argv) {
    char lua_dir[PATH_MAX];
    find_lua_dir(lua_dir);
    lua_State *L = luaL_newstate();
    if (L == NULL) return 4;
    luaL_openlibs(L);
    lsr_open(L, lua_dir);
    lua_createtable(L, argc, 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_setglobal(L, "arg");
    int rc = 70;
    if (argc > 1) { /* until the command line stands: run a file */
        if (luaL_dofile(L, argv[1]) == LUA_OK)
            rc = 0;
        else
            fprintf(stderr, "seqrun: %s\n", lua_tostring(L, -1)), rc = 1;
    }
    lua_close(L);
    return rc;
}

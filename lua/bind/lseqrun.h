/* lseqrun.h - opening the C modules.
 *
 * lua.h appears in lua/bind only.  A C module is `require "seqrun.core.NAME"`, opened by
 * luaopen_seqrun_core_NAME(); lseqrun.c lists them.
 */
#pragma once

#include <lua.h>

/* Fills package.preload with the C modules and sets package.path to seqrun's Lua files. */
void lsr_open(lua_State *L, const char *lua_dir);

/* lseqrun.h - what the bindings share: opening the modules, and turning a status into Lua.
 *
 * lua.h appears in lua/bind only.  A C module is `require "seqrun.core.NAME"`, opened by
 * luaopen_seqrun_core_NAME(); lseqrun.c lists them.
 *
 *   What a correct program can meet (no such file, bad YAML, a full disk) returns nil, message,
 *   code: use lsr_result().  What only a mistaken program can meet (shape, type, range) raises at
 *   the caller's line: use lsr_check().
 */
#ifndef LSR_LSEQRUN_H
#define LSR_LSEQRUN_H

#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>

#include "core/base/status.h"

/* Fills package.preload with the C modules and sets package.path to the house's Lua files. */
void lsr_open(lua_State *L, const char *lua_dir);

/* Raises the thread's message at the caller's line when the status is not SR_OK. */
void lsr_check(lua_State *L, sr_status status);

/* As luaL_error (lua_pushfstring's formats), at the caller's line: thin wrappers are passed over.
 */
int lsr_error(lua_State *L, const char *format, ...);

/* As luaL_argerror and luaL_typeerror, at the caller's line. */
int lsr_argerror(lua_State *L, int arg, const char *what);
int lsr_typeerror(lua_State *L, int arg, const char *wanted);

/* As luaL_checkoption, at the caller's line: "WHAT is NAME; use one of: ..."; `otherwise` (or NULL)
 * stands for nil. */
int lsr_checkoption(lua_State *L, int arg, const char *what, const char *otherwise,
                    const char *const names[]);

/* Pushes nil, message, code and returns 3 (call it when a status is not SR_OK). */
int lsr_result(lua_State *L, sr_status status);

/* An integer argument in [least, most], or an argument error that says the range. */
int64_t lsr_checkrange(lua_State *L, int arg, int64_t least, int64_t most);

#endif

/* lstate.h - how the program makes its Lua state: allocator, search paths, text-only loading. */
#pragma once

#include <lua.h>
#include <stddef.h>

/* A state with the standard libraries, which allocates through core/base/mem.h; NULL if out of
 * memory.  The environment (LUA_PATH, LUA_CPATH, LUA_INIT) is ignored; modules are never found in
 * the current directory. */
lua_State *lsr_state_new(void);
void lsr_state_close(lua_State *L);

/* Bytes that Lua holds now, and the limit (0: none). */
size_t lsr_state_memory(lua_State *L);
void lsr_state_limit(lua_State *L, size_t bytes);

/* Makes load, loadfile, dofile and require reject precompiled chunks.  Where a file of a module
 * cannot be opened, or seqrun requires one of its own that is missing, the message of require is
 * LSR_CANNOT_LOAD, then "MODULE': PATH: REASON", in one line. */
#define LSR_CANNOT_LOAD "cannot load module '"
void lsr_text_only(lua_State *L);

/* Turns an error value into a message with a traceback: a handler for lua_pcall. */
int lsr_traceback(lua_State *L);

/* lpack.h - what the two files of seqrun.core.pack share. */
#ifndef LSR_LPACK_H
#define LSR_LPACK_H

#include <lauxlib.h>
#include <lua.h>

#include "core/pack/pack.h"

/* A zeroed box of a class, pushed; and the class: its methods, and what __gc and __close call. */
void *lsr_pack_box(lua_State *L, size_t size, const char *name);
void lsr_pack_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction release);

/* What stands on the stack when the status is SR_OK, else nil, message, code. */
int lsr_pack_give(lua_State *L, sr_status st);

/* Arguments.  Options leave the solver's name on the stack; lengths are a list of whole numbers,
 * which becomes a box on the stack, or a string of 16-bit ones. */
sr_pack_opts lsr_pack_options(lua_State *L, int arg);
sr_lengths lsr_pack_lengths(lua_State *L, int arg);
sr_histogram *lsr_pack_histogram(lua_State *L, int arg);
sr_plan *lsr_pack_plan(lua_State *L, int arg);

/* table.name = value, the table on top of the stack. */
void lsr_pack_integer(lua_State *L, const char *name, int64_t value);

/* Adds certificates, instances and ranks to the module's table on top of the stack. */
void lsr_pack_proofs(lua_State *L);

#endif

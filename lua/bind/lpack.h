/* lpack.h - shared by the three files of seqrun.core.pack. */
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "core/pack/pack.h"

/* Arguments.  Options leave the solver's name on the stack; lengths are a list of integers,
 * which becomes a box on the stack, or a string of 16-bit ones. */
sr_pack_opts lsr_pack_options(lua_State *L, int arg);
sr_lengths lsr_pack_lengths(lua_State *L, int arg);
sr_long_policy lsr_pack_policy(lua_State *L, int arg);
sr_histogram *lsr_pack_histogram(lua_State *L, int arg);
sr_plan *lsr_pack_plan(lua_State *L, int arg);

/* Pushes an empty histogram. */
sr_histogram *lsr_pack_new_histogram(lua_State *L);

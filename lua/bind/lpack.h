/* lpack.h - packing, for the three files of seqrun.core.pack and for loaders. */
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

/* Sets the figures of a plan, but for max_seqs, in the table on top of the stack. */
void lsr_set_plan(lua_State *L, const sr_plan *p);

/* Pushes an empty histogram. */
sr_histogram *lsr_pack_new_histogram(lua_State *L);

/* lsolver.h - a packing solver that is a Lua function, for the loaders of seqrun.core.batch. */
#pragma once

#include <lua.h>

#include "core/pack/pack.h"

/* Reads the field `solve` of the table at `arg`: a function of a histogram and the maximum
 * number of sequences per pack (0: no limit) that returns a plan, or nil, message, code.  Pushes
 * what must live as long as `o` is in use (nil without a function).  The function may only be
 * called by the thread that runs Lua. */
void lsr_push_solver(lua_State *L, int arg, sr_pack_opts *o);

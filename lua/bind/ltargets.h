/* ltargets.h - the targets of a loader's batches, between Lua and core/batch. */
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "core/loader/update.h"

extern const char *const lsr_mean_names[];

/* Reads the list `targets` of an options table: an array that lives as long as the stack and the
 * options do.  NULL when it is absent. */
const sr_target_opts *lsr_readtargets(lua_State *L, int options, sr_mean mean, int *count);

/* Pushes the facts about a target that are known before its tensors are made: { name, reads, count,
 * denominator }. */
void lsr_pushtarget(lua_State *L, const sr_target *t);

/* Sets a deferred target of a batch from the list of rows and the list of labels at two arguments.
 */
sr_status lsr_settarget(lua_State *L, sr_batch *b, int number, int rows, int labels);

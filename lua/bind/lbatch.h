/* lbatch.h - updates and loaders, for other bindings. */
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "core/loader/loader.h"

#define LSR_UPDATE "seqrun.core.Update"
#define LSR_LOADER "seqrun.core.Loader"

/* Pushes an empty box for an update, which it will own. */
sr_update **lsr_newupdate(lua_State *L);

/* Reports an update's memory, which the collector cannot see; otherwise unused updates would
 * accumulate. */
void lsr_account_update(lua_State *L, const sr_update *u);

void lsr_pushcursor(lua_State *L, const sr_cursor *c);

sr_loader *lsr_checkloader(lua_State *L, int arg);

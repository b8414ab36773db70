/* lbatch.h - updates as other bindings push them. */
#ifndef LSR_LBATCH_H
#define LSR_LBATCH_H

#include <lauxlib.h>
#include <lua.h>

#include "core/batch/update.h"

#define LSR_UPDATE "seqrun.core.Update"

/* Pushes an empty box for an update, which it will own. */
sr_update **lsr_newupdate(lua_State *L);

/* Tells the collector of an update's memory, which it cannot see: else updates that nobody needs
 * any more would pile up. */
void lsr_account_update(lua_State *L, const sr_update *u);

void lsr_pushcursor(lua_State *L, const sr_cursor *c);

/* Registers the class. */
void lsr_open_updates(lua_State *L);

#endif

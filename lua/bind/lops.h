/* lops.h - the parts of seqrun.core.ops: each adds to the table on top of the stack. */
#pragma once

#include <lua.h>

void lsr_open_coarse(lua_State *L);    /* lcoarse.c: functions */
void lsr_open_grad(lua_State *L);      /* lgrad.c: functions */
void lsr_open_backward(lua_State *L);  /* lgrad.c: methods of tensors */
void lsr_open_functions(lua_State *L); /* lfunction.c: functions */
void lsr_open_random(lua_State *L);    /* lrandom.c: functions */
void lsr_open_fills(lua_State *L);     /* lrandom.c: methods of tensors */

int luaopen_seqrun_core_ops(lua_State *L);

/* ltrain.h - the parts of seqrun.core.train: each adds its functions to the module table on top of
 * the stack. */
#ifndef LSR_LTRAIN_H
#define LSR_LTRAIN_H

#include "core/train/params.h"
#include "lua/bind/lseqrun.h"

void lsr_open_safetensors(lua_State *L);
void lsr_open_checkpoint(lua_State *L);
void lsr_open_log(lua_State *L);
void lsr_open_shares(lua_State *L);

/* The parameter store of an argument: raises when it is none, or was released. */
sr_params *lsr_checkparams(lua_State *L, int arg);

/* true | nil, message, code */
int lsr_done(lua_State *L, sr_status status);

/* A class: metatable `name` with these methods, __index to itself, __gc and __close by `release`.
 */
void lsr_new_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction release);

int luaopen_seqrun_core_train(lua_State *L);

#endif

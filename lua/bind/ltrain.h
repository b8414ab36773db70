/* ltrain.h - the parts of seqrun.core.train: each adds its functions to the module table on top of
 * the stack. */
#pragma once

#include "core/train/optim.h"
#include "core/train/params.h"
#include "core/train/shares.h"
#include "lua/bind/lcheck.h"

void lsr_open_safetensors(lua_State *L);
void lsr_open_checkpoint(lua_State *L);
void lsr_open_log(lua_State *L);
void lsr_open_shares(lua_State *L);
void lsr_open_exchange(lua_State *L);
void lsr_open_sharded(lua_State *L);
void lsr_open_twin(lua_State *L);

/* The parameter store of an argument: raises if it is of another type or was released. */
sr_params *lsr_checkparams(lua_State *L, int arg);
sr_shares *lsr_checkshares(lua_State *L, int arg);

/* The same of an optimizer, whose parameters must live too. */
sr_optim *lsr_checkoptim(lua_State *L, int arg);

int luaopen_seqrun_core_train(lua_State *L);

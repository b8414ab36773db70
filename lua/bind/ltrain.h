/* ltrain.h - parameters, their shares and optimizers, for other bindings. */
#pragma once

#include "core/train/optim.h"
#include "core/train/params.h"
#include "core/train/shares.h"
#include "lua/bind/lcheck.h"

/* The parameter store of an argument: raises if it is of another type or was released. */
sr_params *lsr_checkparams(lua_State *L, int arg);
sr_shares *lsr_checkshares(lua_State *L, int arg);

/* The same of an optimizer, whose parameters must live too. */
sr_optim *lsr_checkoptim(lua_State *L, int arg);

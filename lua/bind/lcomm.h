/* lcomm.h - worlds of ranks as other bindings see them. */
#pragma once

#include <lua.h>

#include "core/tensor/comm.h"

/* The open world of an argument: the userdata that World.core holds (lua/seqrun/tensor/ranks.lua).
 */
sr_comm *lsr_checkworld(lua_State *L, int arg);

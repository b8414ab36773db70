/* lsafetensors.h - a planned safetensors file as lcheckpoint.c needs it. */
#pragma once

#include "core/store/safetensors.h"
#include "lua/bind/lcheck.h"

/* The plan of an argument, which the box on the stack keeps alive. */
const sr_st_plan *lsr_checkplan(lua_State *L, int arg);

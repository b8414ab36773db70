/* lsampler.h - methods of loaders that use samplers. */
#pragma once

#include <lauxlib.h>
#include <lua.h>

/* loader:sampler(metrics, reversed), loader:push_window(sampler, window) */
int lsr_loader_sampler(lua_State *L);
int lsr_loader_push_window(lua_State *L);

/* Registers the class. */
void lsr_open_samplers(lua_State *L);

/* lmetric.h - metrics, for other bindings. */
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "core/data/metric.h"

#define LSR_METRIC "seqrun.core.Metric"

/* The metric of an argument, open as long as its userdata lives. */
sr_metric *lsr_checkmetric(lua_State *L, int arg);

/* lanalysis.c: registers its class; its functions of the module. */
void lsr_open_analysis(lua_State *L);
int lsr_metric_analysis(lua_State *L);
int lsr_metric_rarity(lua_State *L);
int lsr_metric_coefficient(lua_State *L);

int luaopen_seqrun_core_metric(lua_State *L);

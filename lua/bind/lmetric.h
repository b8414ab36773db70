/* lmetric.h - metrics, for other bindings. */
#ifndef LSR_LMETRIC_H
#define LSR_LMETRIC_H

#include <lauxlib.h>
#include <lua.h>

#include "core/data/metric.h"

#define LSR_METRIC "seqrun.core.Metric"

/* The metric of an argument, open as long as its userdata lives. */
sr_metric *lsr_checkmetric(lua_State *L, int arg);

int luaopen_seqrun_core_metric(lua_State *L);

#endif

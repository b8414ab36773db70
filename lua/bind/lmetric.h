/* lmetric.h - metrics, for other bindings. */
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "core/data/metric.h"

#define LSR_METRIC "seqrun.core.Metric"

/* The metric of an argument, open as long as its userdata lives. */
sr_metric *lsr_checkmetric(lua_State *L, int arg);

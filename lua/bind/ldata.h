/* ldata.h - data sets, for other bindings. */
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "core/data/examples.h"

#define LSR_DATASET "seqrun.core.Dataset"

/* The data set of an argument, open as long as its userdata lives. */
sr_dataset *lsr_checkdataset(lua_State *L, int arg);

/* The options of a loader that choose the examples. */
void lsr_readexamples(lua_State *L, int table, sr_examples_opts *opts);

extern const char *const lsr_part_names[]; /* "train", "held", NULL */

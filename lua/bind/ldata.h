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

/* lprepare.c: registers its classes; its functions of the module. */
void lsr_open_writer(lua_State *L);
void lsr_open_prepare(lua_State *L);
int lsr_data_ingest(lua_State *L);
int lsr_data_writer(lua_State *L);

int luaopen_seqrun_core_data(lua_State *L);

extern const char *const lsr_part_names[]; /* "train", "held", NULL */

/* ldata.h - data sets as other bindings take them. */
#ifndef LSR_LDATA_H
#define LSR_LDATA_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>

#include "core/data/dataset.h"

#define LSR_DATASET "seqrun.core.Dataset"

/* The data set of an argument, open as long as its userdata lives. */
sr_dataset *lsr_checkdataset(lua_State *L, int arg);

/* Pushes a box for memory of sr_alloc(), which goes when the box does: pushing a string may raise.
 */
void **lsr_newbytes(lua_State *L);

/* Fields of an options table, which may be absent; a value of the wrong type is an argument error
 * that names the key.  `lsr_field_choice` returns the index of the string in `names`. */
int64_t lsr_field_integer(lua_State *L, int table, const char *key, int64_t otherwise);
int64_t lsr_field_range(lua_State *L, int table, const char *key, int64_t otherwise, int64_t least,
                        int64_t most);
double lsr_field_number(lua_State *L, int table, const char *key, double otherwise);
bool lsr_field_bool(lua_State *L, int table, const char *key, bool otherwise);
const char *lsr_field_string(lua_State *L, int table, const char *key, const char *otherwise);
int lsr_field_choice(lua_State *L, int table, const char *key, const char *const *names);

/* A class of userdata with methods and a release function for __gc and __close. */
void lsr_data_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction release);

/* lprepare.c: registers its classes; its functions of the module. */
void lsr_open_prepare(lua_State *L);
int lsr_data_ingest(lua_State *L);
int lsr_data_writer(lua_State *L);

int luaopen_seqrun_core_data(lua_State *L);
int luaopen_seqrun_core_batch(lua_State *L); /* lloader.c */

extern const char *const lsr_part_names[]; /* "train", "held", NULL */

/* Sets an integer field of the table on top of the stack. */
void lsr_set_integer(lua_State *L, const char *key, int64_t value);

#endif

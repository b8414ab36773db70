/* lconcepts.h - tables of concepts, and the option of loaders that masks them. */
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include "core/batch/concepts.h"

/* Reads mask.concepts = { table =, share =, from = {...} } of an options table.  Leaves on the
 * stack what it points into, and on its top the table or nil, which must live as long as the
 * loader. */
void lsr_readconcepts(lua_State *L, int options, sr_concept_masks *m);

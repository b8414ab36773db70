/* ltext.h - text objects, for other bindings. */
#pragma once

#include <lua.h>

#include "core/text/source.h"
#include "core/tokenizer/vocab.h"
#include "core/tokenizer/tokenizer.h"

#define LSR_VOCAB "seqrun.core.Vocab"

/* The object of an argument, valid as long as the argument, or an argument error. */
sr_vocab *lsr_checkvocab(lua_State *L, int arg);
sr_tokenizer *lsr_checktokenizer(lua_State *L, int arg);

/* Pushes a tokenizer, which it retains. */
void lsr_pushtokenizer(lua_State *L, sr_tokenizer *t);

/* A path, or a table of paths, as an array that lives as long as the argument and the userdata that
 * is pushed. */
const char *const *lsr_checkpaths(lua_State *L, int arg, size_t *count);

/* Pushes a box that owns what the option `records` = { field=, where=, all= } of a table means, and
 * returns it; without the option it has no field.  `where` is a tree of base/condition.lua. */
sr_records lsr_pushrecords(lua_State *L, int options);

/* pad, unk, cls, sep, mask, NULL. */
extern const char *const lsr_special_names[];

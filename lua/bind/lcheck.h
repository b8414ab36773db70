/* lcheck.h - shared by all bindings: classes, arguments, options, results, errors.
 *
 *   Failures of a correct program (no such file, bad YAML, a full disk) return nil, message,
 *   code: end with lsr_give(), lsr_done() or lsr_result().  Errors in the program itself
 *   (shape, type, range) raise at the caller's line: use lsr_check().
 */
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

/* ---- errors and results ---------------------------------------------------------------------- */

/* Names the directory of the library's files: lua_dir/seqrun. */
void lsr_set_library(lua_State *L, const char *lua_dir);

/* Whether the function at a level of the stack is of a file outside the library. */
bool lsr_is_outside(lua_State *L, int level);

/* Pushes "file:line: " of the innermost Lua function outside the library, which
 * passed the wrong argument; "" if there is none. */
void lsr_where(lua_State *L);

/* Raises the thread's message at the caller's line when the status is not SR_OK. */
void lsr_check(lua_State *L, sr_status status);

/* As luaL_error (lua_pushfstring's formats), at the caller's line: thin wrappers are skipped.
 */
int lsr_error(lua_State *L, const char *format, ...);

/* As luaL_argerror and luaL_typeerror, at the caller's line. */
int lsr_argerror(lua_State *L, int arg, const char *what);
int lsr_typeerror(lua_State *L, int arg, const char *wanted);

/* For a status that is not SR_OK: pushes nil, message, code and returns 3; SR_EINVAL raises. */
int lsr_result(lua_State *L, sr_status status);
/* The same where SR_EINVAL may also come from a file, not only from the program. */
int lsr_failure(lua_State *L, sr_status status);

/* What a function returns that cannot fail in a correct program: the value on top of the stack; else
 * lsr_check(). */
int lsr_made(lua_State *L, sr_status status);

/* What a function returns: the value on top of the stack (give), or true (done), when the status is
 * SR_OK; else lsr_result(). */
int lsr_give(lua_State *L, sr_status status);
int lsr_done(lua_State *L, sr_status status);

/* What a function without results returns: nothing, after lsr_check(). */
int lsr_nothing(lua_State *L, sr_status status);

/* What a function returns: this value (a string may be NULL: nil), 16 hex digits, or its first
 * argument. */
int lsr_give_integer(lua_State *L, int64_t value);
int lsr_give_number(lua_State *L, double value);
int lsr_give_bool(lua_State *L, bool value);
int lsr_give_string(lua_State *L, const char *value);
int lsr_give_bytes(lua_State *L, const void *bytes, size_t size);
int lsr_give_hex(lua_State *L, uint64_t value);
int lsr_self(lua_State *L);

/* Returns lsr_result() from a function when `expr` fails. */
#define LSR_TRY(L, expr)                                                                           \
    do {                                                                                           \
        sr_status lsr_try_status_ = (expr);                                                        \
        if (lsr_try_status_ != SR_OK) return lsr_result(L, lsr_try_status_);                       \
    } while (0)

/* ---- classes and boxes -----------------------------------------------------------------------
 *
 * Lua errors jump, so C memory is in a box before anything can raise.  A box is a userdata, all
 * zero at first; its class releases the contents, by __gc or by __close; calling either
 * twice is safe.
 */

/* A class, created once per state.  Names that begin with __ are metamethods, the others methods;
 * `methods` may be NULL.  `release` serves __gc and, unless `methods` names another, __close. */
void lsr_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction release);

/* Pushes a box of a class, with user values or without. */
void *lsr_newbox(lua_State *L, size_t size, const char *type);
void *lsr_newbox_with(lua_State *L, size_t size, const char *type, int values);

/* The box on top of the stack keeps the value at `arg` alive, as its user value number n. */
void lsr_keep(lua_State *L, int arg, int n);

/* The box of an argument, or an argument error that names the class. */
void *lsr_checkbox(lua_State *L, int arg, const char *type);
/* The pointer in the box of an argument; `gone` is the error when it is NULL, such as "the file was
 * closed". */
void *lsr_checkobject(lua_State *L, int arg, const char *type, const char *gone);

/* Defines the release function `name` of a class whose boxes hold one pointer; `drop` accepts NULL.
 */
#define LSR_RELEASE(name, box_type, type, drop)                                                    \
    static int name(lua_State *L) {                                                                \
        type **box = lsr_checkbox(L, 1, box_type);                                                 \
        type *object = *box;                                                                       \
        *box = NULL;                                                                               \
        drop(object);                                                                              \
        return 0;                                                                                  \
    }

/* Pushes a box for memory of sr_alloc(): pushing a string from it may raise. */
void *lsr_newbytes(lua_State *L);

/* `count` zeroed elements freed with the Lua stack; at least one byte. */
void *lsr_scratch(lua_State *L, int64_t count, size_t size);

/* ---- arguments ------------------------------------------------------------------------------- */

/* An integer argument in [least, most], or an argument error that names the range; `otherwise` for
 * nil and none. */
int64_t lsr_checkrange(lua_State *L, int arg, int64_t least, int64_t most);
int64_t lsr_optrange(lua_State *L, int arg, int64_t otherwise, int64_t least, int64_t most);

/* As luaL_checkoption, at the caller's line: "WHAT is NAME; use one of: ..."; `otherwise` (or NULL)
 * is the result for nil. */
int lsr_checkoption(lua_State *L, int arg, const char *what, const char *otherwise,
                    const char *const names[]);

/* Element i, from 1, of the list at `arg`: an integer in [least, most], or an error that names
 * "WHAT[i]". */
int64_t lsr_checkelement(lua_State *L, int arg, int64_t i, const char *what, int64_t least,
                         int64_t most);

/* The list of integers at `arg`, checked so, as an array of `size` bytes an element, 4 or 8, that
 * is freed with the Lua stack; *count is its length. */
void *lsr_checklist(lua_State *L, int arg, int64_t *count, const char *what, int64_t least,
                    int64_t most, size_t size);

/* ---- options ---------------------------------------------------------------------------------
 *
 * Fields of the table at a stack index; nil and none mean an empty table; an absent field
 * has the value `otherwise`.  A value of the wrong type raises and names the key.
 */

/* Raises when the table has a key that is not among `known`, with a suggestion; `what`
 * is the function, for the message. */
void lsr_check_options(lua_State *L, int table, const char *what, const char *const *known);

int64_t lsr_field_integer(lua_State *L, int table, const char *key, int64_t otherwise);
int64_t lsr_field_range(lua_State *L, int table, const char *key, int64_t otherwise, int64_t least,
                        int64_t most);
double lsr_field_number(lua_State *L, int table, const char *key, double otherwise);
bool lsr_field_bool(lua_State *L, int table, const char *key, bool otherwise);
const char *lsr_field_string(lua_State *L, int table, const char *key, const char *otherwise);
/* The place of the string in `names`, 0 when it is absent. */
int lsr_field_choice(lua_State *L, int table, const char *key, const char *const *names);

/* ---- tables of results ----------------------------------------------------------------------- */

/* Pushes a list of `count` elements; the call `push` pushes element i, from 0. */
#define LSR_PUSH_LIST(L, count, i, push)                                                           \
    do {                                                                                           \
        int64_t lsr_count_ = (int64_t)(count);                                                     \
        lua_createtable(L, lsr_count_ < INT32_MAX ? (int)lsr_count_ : 0, 0);                       \
        for (int64_t i = 0; i < lsr_count_; i++) {                                                 \
            push;                                                                                  \
            lua_rawseti(L, -2, i + 1);                                                             \
        }                                                                                          \
    } while (0)

/* A field of the table on top of the stack. */
void lsr_set_integer(lua_State *L, const char *key, int64_t value);
void lsr_set_number(lua_State *L, const char *key, double value);
void lsr_set_bool(lua_State *L, const char *key, bool value);
void lsr_set_string(lua_State *L, const char *key, const char *value);

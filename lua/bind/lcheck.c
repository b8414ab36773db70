#include "lua/bind/lcheck.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

/* ---- errors and results ---------------------------------------------------------------------- */

/* In the registry: "@DIRECTORY/seqrun/", with which the sources of the library's files begin. */
#define LIBRARY "seqrun.library"

void lsr_set_library(lua_State *L, const char *lua_dir) {
    lua_pushfstring(L, "@%s/seqrun/", lua_dir);
    lua_setfield(L, LUA_REGISTRYINDEX, LIBRARY);
}

/* Whether a chunk is a file of the library; a wrong argument is then its caller's mistake. */
static bool is_library(lua_State *L, const char *source) {
    lua_getfield(L, LUA_REGISTRYINDEX, LIBRARY);
    size_t size;
    const char *root = lua_tolstring(L, -1, &size);
    bool is = root != NULL && strncmp(source, root, size) == 0;
    lua_pop(L, 1);
    return is;
}

bool lsr_is_outside(lua_State *L, int level) {
    lua_Debug at;
    if (!lua_getstack(L, level, &at)) return false;
    lua_getinfo(L, "S", &at);
    return at.source[0] == '@' && !is_library(L, at.source);
}

void lsr_where(lua_State *L) {
    lua_Debug at;
    for (int level = 0; lua_getstack(L, level, &at); level++) {
        lua_getinfo(L, "Sl", &at);
        if (at.currentline <= 0 || is_library(L, at.source)) continue;
        lua_pushfstring(L, "%s:%d: ", at.short_src, at.currentline);
        return;
    }
    lua_pushliteral(L, "");
}

/* Raises a Failure of lua/seqrun/base/failure.lua, which keeps the status for the exit code. */
static void raise_failure(lua_State *L, sr_status status) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, "seqrun.base.failure") != LUA_TTABLE) return;
    lua_getfield(L, -1, "raise");
    lua_pushstring(L, sr_status_name(status));
    lua_pushliteral(L, "%s");
    lua_pushstring(L, sr_message());
    lua_call(L, 3, 0);
}

void lsr_check(lua_State *L, sr_status status) {
    if (status == SR_OK) return;
    if (status != SR_EINVAL && status != SR_ECONFIG) raise_failure(L, status);
    lsr_where(L);
    lua_pushstring(L, sr_message());
    lua_concat(L, 2);
    lua_error(L);
}

int lsr_error(lua_State *L, const char *format, ...) {
    va_list arguments;
    lsr_where(L);
    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    lua_concat(L, 2);
    return lua_error(L);
}

int lsr_argerror(lua_State *L, int arg, const char *what) {
    lua_Debug at;
    if (!lua_getstack(L, 0, &at)) return lsr_error(L, "bad argument #%d (%s)", arg, what);
    lua_getinfo(L, "n", &at);
    const char *name = at.name != NULL ? at.name : "?";
    if (strcmp(at.namewhat, "method") != 0)
        return lsr_error(L, "%s: argument %d: %s", name, arg, what);
    if (arg == 1) return lsr_error(L, "%s: called with a dot instead of a colon? %s", name, what);
    return lsr_error(L, "%s: argument %d: %s", name, arg - 1, what);
}

int lsr_typeerror(lua_State *L, int arg, const char *wanted) {
    return lsr_argerror(L, arg,
                        lua_pushfstring(L, "expected %s, got %s", wanted, luaL_typename(L, arg)));
}

int lsr_result(lua_State *L, sr_status status) {
    if (status == SR_EINVAL) lsr_check(L, status);
    return lsr_failure(L, status);
}

int lsr_failure(lua_State *L, sr_status status) {
    lua_pushnil(L);
    lua_pushstring(L, sr_message());
    lua_pushstring(L, sr_status_name(status));
    return 3;
}

int lsr_made(lua_State *L, sr_status status) {
    lsr_check(L, status);
    return 1;
}

int lsr_give(lua_State *L, sr_status status) {
    return status == SR_OK ? 1 : lsr_result(L, status);
}

int lsr_done(lua_State *L, sr_status status) {
    if (status != SR_OK) return lsr_result(L, status);
    return lsr_give_bool(L, true);
}

int lsr_nothing(lua_State *L, sr_status status) {
    lsr_check(L, status);
    return 0;
}

int lsr_give_integer(lua_State *L, int64_t value) {
    lua_pushinteger(L, value);
    return 1;
}

int lsr_give_number(lua_State *L, double value) {
    lua_pushnumber(L, value);
    return 1;
}

int lsr_give_bool(lua_State *L, bool value) {
    lua_pushboolean(L, value);
    return 1;
}

int lsr_give_string(lua_State *L, const char *value) {
    lua_pushstring(L, value);
    return 1;
}

int lsr_give_bytes(lua_State *L, const void *bytes, size_t size) {
    lua_pushlstring(L, bytes, size);
    return 1;
}

int lsr_give_hex(lua_State *L, uint64_t value) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return lsr_give_string(L, text);
}

int lsr_self(lua_State *L) {
    lua_settop(L, 1);
    return 1;
}

/* ---- classes and boxes ----------------------------------------------------------------------- */

/* Sets the functions on the metatable below the top when their names begin with __, else on the
 * table on top. */
static void set_methods(lua_State *L, const luaL_Reg *methods) {
    for (const luaL_Reg *m = methods; m != NULL && m->name != NULL; m++) {
        lua_pushcfunction(L, m->func);
        lua_setfield(L, strncmp(m->name, "__", 2) == 0 ? -3 : -2, m->name);
    }
}

void lsr_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction release) {
    if (luaL_newmetatable(L, name)) {
        lua_pushcfunction(L, release);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, release);
        lua_setfield(L, -2, "__close");
        lua_newtable(L);
        set_methods(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
}

void *lsr_newbox_with(lua_State *L, size_t size, const char *type, int values) {
    void *box = lua_newuserdatauv(L, size, values);
    memset(box, 0, size);
    luaL_setmetatable(L, type);
    return box;
}

void *lsr_newbox(lua_State *L, size_t size, const char *type) {
    return lsr_newbox_with(L, size, type, 0);
}

void lsr_keep(lua_State *L, int arg, int n) {
    lua_pushvalue(L, arg);
    lua_setiuservalue(L, -2, n);
}

/* Pushes "a tensor" for "seqrun.Tensor". */
static const char *push_class(lua_State *L, const char *type) {
    char name[40];
    const char *dot = strrchr(type, '.');
    snprintf(name, sizeof name, "%s", dot != NULL ? dot + 1 : type);
    name[0] = (char)tolower((unsigned char)name[0]);
    return lua_pushfstring(L, "%s %s", strchr("aeio", name[0]) != NULL ? "an" : "a", name);
}

void *lsr_checkbox(lua_State *L, int arg, const char *type) {
    void *box = luaL_testudata(L, arg, type);
    if (box == NULL) lsr_typeerror(L, arg, push_class(L, type));
    return box;
}

void *lsr_checkobject(lua_State *L, int arg, const char *type, const char *gone) {
    void **box = lsr_checkbox(L, arg, type);
    if (*box == NULL) lsr_argerror(L, arg, gone);
    return *box;
}

#define BYTES "seqrun.core.Bytes"

LSR_RELEASE(bytes_free, BYTES, void, sr_free)

void *lsr_newbytes(lua_State *L) {
    lsr_class(L, BYTES, NULL, bytes_free);
    return lsr_newbox(L, sizeof(void *), BYTES);
}

void *lsr_scratch(lua_State *L, int64_t count, size_t size) {
    size_t bytes = 0;
    lsr_check(L, sr_mul_size(&bytes, (size_t)count, size));
    void *block = lua_newuserdatauv(L, bytes > 0 ? bytes : 1, 0);
    memset(block, 0, bytes);
    return block;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Pushes "an integer from 1 to 9", or "an integer >= 1". */
static const char *push_range(lua_State *L, int64_t least, int64_t most) {
    if (most == INT64_MAX) return lua_pushfstring(L, "an integer >= %I", (lua_Integer)least);
    return lua_pushfstring(L, "an integer from %I to %I", (lua_Integer)least, (lua_Integer)most);
}

int64_t lsr_checkrange(lua_State *L, int arg, int64_t least, int64_t most) {
    lua_Integer x = luaL_checkinteger(L, arg);
    if (x < least || x > most)
        lsr_argerror(L, arg,
                     lua_pushfstring(L, "must be %s, got %I", push_range(L, least, most), x));
    return x;
}

int64_t lsr_optrange(lua_State *L, int arg, int64_t otherwise, int64_t least, int64_t most) {
    return lua_isnoneornil(L, arg) ? otherwise : lsr_checkrange(L, arg, least, most);
}

/* Pushes "a, b, c". */
static const char *push_list(lua_State *L, const char *const names[]) {
    luaL_Buffer list;
    luaL_buffinit(L, &list);
    for (int i = 0; names[i] != NULL; i++) {
        luaL_addstring(&list, i > 0 ? ", " : "");
        luaL_addstring(&list, names[i]);
    }
    luaL_pushresult(&list);
    return lua_tostring(L, -1);
}

static int index_of(const char *name, const char *const names[]) {
    for (int i = 0; name != NULL && names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

int lsr_checkoption(lua_State *L, int arg, const char *what, const char *otherwise,
                    const char *const names[]) {
    const char *name = lua_isnoneornil(L, arg) ? otherwise : lua_tostring(L, arg);
    int i = index_of(name, names);
    if (i >= 0) return i;
    return lsr_error(L, "%s is %s; use one of: %s", what,
                     name != NULL ? name : luaL_typename(L, arg), push_list(L, names));
}

int64_t lsr_checkelement(lua_State *L, int arg, int64_t i, const char *what, int64_t least,
                         int64_t most) {
    int whole;
    lua_rawgeti(L, arg, i);
    lua_Integer x = lua_tointegerx(L, -1, &whole);
    if (!whole || x < least || x > most) {
        const char *got = luaL_tolstring(L, -1, NULL);
        lsr_error(L, "%s[%I] must be %s, got %s", what, (lua_Integer)i, push_range(L, least, most),
                  got);
    }
    lua_pop(L, 1);
    return x;
}

void *lsr_checklist(lua_State *L, int arg, int64_t *count, const char *what, int64_t least,
                    int64_t most, size_t size) {
    arg = lua_absindex(L, arg);
    luaL_checktype(L, arg, LUA_TTABLE);
    *count = (int64_t)lua_rawlen(L, arg);
    void *list = lsr_scratch(L, *count, size);
    for (int64_t i = 0; i < *count; i++) {
        int64_t x = lsr_checkelement(L, arg, i + 1, what, least, most);
        if (size == 4)
            ((uint32_t *)list)[i] = (uint32_t)x;
        else
            ((int64_t *)list)[i] = x;
    }
    return list;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Pushes "; did you mean 'NAME'?" of lua/seqrun/base/guess.lua, or the list of the names. */
static const char *push_hint(lua_State *L, const char *key, const char *const *known) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, "seqrun.base.guess") == LUA_TTABLE) {
        lua_getfield(L, -1, "hint");
        lua_pushstring(L, key);
        lua_newtable(L);
        for (int i = 0; known[i] != NULL; i++) {
            lua_pushstring(L, known[i]);
            lua_rawseti(L, -2, i + 1);
        }
        lua_call(L, 2, 1);
        if (lua_rawlen(L, -1) > 0) return lua_tostring(L, -1);
    }
    return lua_pushfstring(L, "; use %s", push_list(L, known));
}

void lsr_check_options(lua_State *L, int table, const char *what, const char *const *known) {
    if (lua_isnoneornil(L, table)) return;
    luaL_checktype(L, table, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        if (index_of(key, known) >= 0) continue;
        if (key == NULL) key = luaL_tolstring(L, -2, NULL);
        lsr_error(L, "%s: unknown option '%s'%s", what, key, push_hint(L, key, known));
    }
}

/* Pushes the field; false when it is absent. */
static bool push_field(lua_State *L, int table, const char *key) {
    if (lua_isnoneornil(L, table)) {
        lua_pushnil(L);
        return false;
    }
    luaL_checktype(L, table, LUA_TTABLE);
    return lua_getfield(L, table, key) != LUA_TNIL;
}

static void wrong_field(lua_State *L, const char *key, const char *wanted) {
    lsr_error(L, "option '%s' must be %s, got %s", key, wanted,
              lua_type(L, -1) == LUA_TNUMBER ? luaL_tolstring(L, -1, NULL) : luaL_typename(L, -1));
}

int64_t lsr_field_integer(lua_State *L, int table, const char *key, int64_t otherwise) {
    int whole = 1;
    int64_t x = otherwise;
    if (push_field(L, table, key))
        x = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : (whole = 0);
    if (!whole) wrong_field(L, key, "an integer");
    lua_pop(L, 1);
    return x;
}

int64_t lsr_field_range(lua_State *L, int table, const char *key, int64_t otherwise, int64_t least,
                        int64_t most) {
    int64_t x = lsr_field_integer(L, table, key, otherwise);
    if (x < least || x > most)
        lsr_error(L, "option '%s' must be %s, got %I", key, push_range(L, least, most),
                  (lua_Integer)x);
    return x;
}

double lsr_field_number(lua_State *L, int table, const char *key, double otherwise) {
    double x = otherwise;
    if (push_field(L, table, key)) {
        if (lua_type(L, -1) != LUA_TNUMBER) wrong_field(L, key, "a number");
        x = lua_tonumber(L, -1);
    }
    lua_pop(L, 1);
    return x;
}

bool lsr_field_bool(lua_State *L, int table, const char *key, bool otherwise) {
    bool x = otherwise;
    if (push_field(L, table, key)) {
        if (!lua_isboolean(L, -1)) wrong_field(L, key, "true or false");
        x = lua_toboolean(L, -1);
    }
    lua_pop(L, 1);
    return x;
}

const char *lsr_field_string(lua_State *L, int table, const char *key, const char *otherwise) {
    const char *x = otherwise;
    if (push_field(L, table, key)) {
        if (lua_type(L, -1) != LUA_TSTRING) wrong_field(L, key, "a string");
        x = lua_tostring(L, -1);
    }
    lua_pop(L, 1); /* the options table keeps the string alive */
    return x;
}

int lsr_field_choice(lua_State *L, int table, const char *key, const char *const *names) {
    const char *name = lsr_field_string(L, table, key, names[0]);
    int i = index_of(name, names);
    if (i >= 0) return i;
    return lsr_error(L, "option '%s' is '%s'; use one of: %s", key, name, push_list(L, names));
}

/* ---- tables of results ----------------------------------------------------------------------- */

void lsr_set_integer(lua_State *L, const char *key, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

void lsr_set_number(lua_State *L, const char *key, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

void lsr_set_bool(lua_State *L, const char *key, bool value) {
    lua_pushboolean(L, value);
    lua_setfield(L, -2, key);
}

void lsr_set_string(lua_State *L, const char *key, const char *value) {
    lua_pushstring(L, value);
    lua_setfield(L, -2, key);
}

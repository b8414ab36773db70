/* ljson.c - seqrun.core.json: JSON to Lua values and back.
 *
 * Reading is jansson's, strict: one value, no duplicate keys, valid UTF-8, bounded depth, and
 * bounded memory: MULTIPLE bytes for each byte of the text and BASE more.  Writing has stable
 * bytes: keys in byte order, numbers in the fewest digits that round-trip; the text is valid UTF-8
 * without control characters, whatever the strings hold.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/unicode/utf8.h"
#include "lua/bind/lcheck.h"

#define ARRAY "seqrun.core.Array"
#define ROOT "seqrun.core.Json"
enum { MAX_DEPTH = 64, MULTIPLE = 160, BASE = 1 << 20 };

/* A text of this many bytes stays below BASE: those of rows and records are not watched. */
enum { SHORT = BASE / MULTIPLE / 2 };

/* ---- reading --------------------------------------------------------------------------------- */

/* Owns the tree, so that an error on the way frees it. */
LSR_RELEASE(root_free, ROOT, json_t, json_decref)

static void push_value(lua_State *L, json_t *value, int depth);

static void push_object(lua_State *L, json_t *object, int depth) {
    const char *key;
    json_t *value;
    lua_createtable(L, 0, (int)json_object_size(object));
    json_object_foreach(object, key, value) {
        push_value(L, value, depth + 1);
        lua_setfield(L, -2, key);
    }
}

static void push_array(lua_State *L, json_t *array, int depth) {
    LSR_PUSH_LIST(L, json_array_size(array), i, push_value(L, json_array_get(array, i), depth + 1));
    luaL_setmetatable(L, ARRAY);
}

static void push_value(lua_State *L, json_t *value, int depth) {
    if (depth > MAX_DEPTH) luaL_error(L, "json: nested more than %d deep", MAX_DEPTH);
    luaL_checkstack(L, 4, "json");
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        push_object(L, value, depth);
        break;
    case JSON_ARRAY:
        push_array(L, value, depth);
        break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(value));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(value));
        break;
    case JSON_NULL:
        lua_pushlightuserdata(L, NULL);
        break;
    default:
        lua_pushboolean(L, json_is_true(value));
    }
}

/* Pushes the value of the tree in the box at index 1. */
static int convert(lua_State *L) {
    json_t **root = lua_touserdata(L, 1);
    push_value(L, *root, 1);
    return 1;
}

/* Parses a text into the box on top and pushes its value, or a message; nothing here raises. */
static sr_status read_tree(lua_State *L, const char *text, size_t size, size_t flags,
                           size_t *used) {
    json_t **root = lua_touserdata(L, -1);
    json_error_t error;
    sr_status st = sr_json_load(root, text, size, flags, &error);
    if (st != SR_OK) return st;
    *used = (size_t)error.position;
    lua_pushcfunction(L, convert);
    lua_pushvalue(L, -2);
    int status = lua_pcall(L, 1, 1, 0);
    if (status == LUA_OK) return SR_OK;
    return status == LUA_ERRMEM ? SR_ENOMEM : sr_fail(SR_EDATA, "%s", lua_tostring(L, -1));
}

static int decode(lua_State *L, const char *text, size_t size, size_t flags, size_t *used) {
    sr_mem_count count;
    lsr_newbox(L, sizeof(json_t *), ROOT);
    flags |= JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    if (size > SHORT) sr_mem_watch(&count, MULTIPLE * (int64_t)size + BASE);
    sr_status st = read_tree(L, text, size, flags, used);
    if (size > SHORT) sr_mem_watch_end(&count);
    if (st == SR_OK) return 1;
    if (size > SHORT && count.exceeded)
        st = sr_fail(SR_EDATA, "%zu bytes of JSON need more than %d bytes of memory for each", size,
                     MULTIPLE);
    /* Raised, as by Lua: who passes over damaged JSON must not pass over this. */
    if (st == SR_ENOMEM) return luaL_error(L, "not enough memory");
    return lsr_result(L, st);
}

/* decode(text: string) -> any value | nil, message, code
 * Reads one JSON value; a duplicate key, invalid UTF-8 or trailing text is an error.  If an
 * integer of the text exceeds 64 bits, all its numbers are floats. */
static int json_decode(lua_State *L) {
    size_t size, used;
    const char *text = luaL_checklstring(L, 1, &size);
    return decode(L, text, size, 0, &used);
}

/* decode_at(text: string, place: integer) -> any|nil value, integer|string|nil after, string? code
 * Reads the JSON value at `place`, from 1, of a text; other text may follow it.
 *   after  the place after it; the message on failure */
static int json_decode_at(lua_State *L) {
    size_t size, used = 0;
    const char *text = luaL_checklstring(L, 1, &size);
    size_t from = (size_t)lsr_checkrange(L, 2, 1, (int64_t)size + 1) - 1;
    if (decode(L, text + from, size - from, JSON_DISABLE_EOF_CHECK, &used) != 1) return 3;
    lua_pushinteger(L, (lua_Integer)(from + used) + 1);
    return 2;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* One code point, -1 for a byte that is not UTF-8.  Controls are U+0000..1F and 7F..9F. */
static void add_code_point(luaL_Buffer *b, int32_t cp, const char *bytes, size_t size) {
    char escape[8];
    if (cp >= 0x20 && cp != '"' && cp != '\\' && (cp < 0x7F || cp > 0x9F)) {
        luaL_addlstring(b, bytes, size);
        return;
    }
    if (cp == '"' || cp == '\\')
        snprintf(escape, sizeof escape, "\\%c", (char)cp);
    else if (cp == '\n')
        snprintf(escape, sizeof escape, "\\n");
    else
        snprintf(escape, sizeof escape, "\\u%04x", cp < 0 ? 0xFFFDu : (unsigned)cp & 0xFFu);
    luaL_addstring(b, escape);
}

static void add_string(lua_State *L, luaL_Buffer *b, int at) {
    size_t size;
    const char *s = lua_tolstring(L, at, &size);
    luaL_addchar(b, '"');
    for (size_t i = 0, length; i < size; i += length) {
        int32_t cp = (unsigned char)s[i];
        length = cp < 0x80 ? 1 : (size_t)sr_utf8_decode(&cp, (const uint8_t *)s + i, size - i);
        add_code_point(b, cp, s + i, length);
    }
    luaL_addchar(b, '"');
}

static void add_number(lua_State *L, luaL_Buffer *b, int at) {
    char text[40];
    if (lua_isinteger(L, at)) {
        snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(L, at));
    } else {
        double x = lua_tonumber(L, at);
        int digits = 15;
        if (!isfinite(x)) {
            luaL_addstring(b, "null");
            return;
        }
        do snprintf(text, sizeof text, "%.*g", digits, x);
        while (digits++ < 17 && strtod(text, NULL) != x);
        if (strpbrk(text, ".e") == NULL) strcat(text, ".0");
    }
    luaL_addstring(b, text);
}

/* The keys of the table at `at`, sorted, as a new table on the stack. */
static lua_Integer push_sorted_keys(lua_State *L, int at) {
    lua_Integer n = 0;
    lua_newtable(L);
    int keys = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, at)) {
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TSTRING)
            luaL_error(L, "json: a key is a %s; keys must be strings", luaL_typename(L, -1));
        lua_pushvalue(L, -1);
        lua_rawseti(L, keys, ++n);
    }
    lua_getglobal(L, "table");
    lua_getfield(L, -1, "sort");
    lua_pushvalue(L, keys);
    lua_call(L, 1, 0);
    lua_settop(L, keys);
    return n;
}

/* A buffer must stay on top of the stack: containers are built as strings of their parts. */
static void push_json(lua_State *L, int at, int depth);

static void add_array(lua_State *L, luaL_Buffer *b, int at, int depth) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, at);
    luaL_addchar(b, '[');
    for (lua_Integer i = 1; i <= n; i++) {
        if (i > 1) luaL_addchar(b, ',');
        lua_rawgeti(L, at, i);
        push_json(L, lua_gettop(L), depth + 1);
        lua_remove(L, -2);
        luaL_addvalue(b);
    }
    luaL_addchar(b, ']');
}

static void add_object(lua_State *L, luaL_Buffer *b, int at, int keys, lua_Integer n, int depth) {
    luaL_addchar(b, '{');
    for (lua_Integer i = 1; i <= n; i++) {
        if (i > 1) luaL_addchar(b, ',');
        lua_rawgeti(L, keys, i);
        push_json(L, lua_gettop(L), depth + 1);
        lua_remove(L, -2);
        luaL_addvalue(b);
        luaL_addchar(b, ':');
        lua_rawgeti(L, keys, i);
        lua_rawget(L, at);
        push_json(L, lua_gettop(L), depth + 1);
        lua_remove(L, -2);
        luaL_addvalue(b);
    }
    luaL_addchar(b, '}');
}

static void add_value(lua_State *L, luaL_Buffer *b, int at) {
    switch (lua_type(L, at)) {
    case LUA_TSTRING:
        add_string(L, b, at);
        break;
    case LUA_TNUMBER:
        add_number(L, b, at);
        break;
    case LUA_TBOOLEAN:
        luaL_addstring(b, lua_toboolean(L, at) ? "true" : "false");
        break;
    case LUA_TNIL:
        luaL_addstring(b, "null");
        break;
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, at) == NULL) {
            luaL_addstring(b, "null");
            break;
        } /* fall through */
    default:
        luaL_error(L, "json: a %s cannot be written", luaL_typename(L, at));
    }
}

/* Puts a copy in the place of a table that says by __pairs what it has, as the view of a config does. */
static void copy_view(lua_State *L, int at) {
    if (luaL_getmetafield(L, at, "__pairs") == LUA_TNIL) return;
    lua_pushvalue(L, at);
    lua_call(L, 1, 3);
    int control = lua_gettop(L), copy = control + 1;
    lua_newtable(L);
    for (;;) {
        lua_pushvalue(L, control - 2);
        lua_pushvalue(L, control - 1);
        lua_pushvalue(L, control);
        lua_call(L, 2, 2);
        if (lua_isnil(L, -2)) break;
        lua_pushvalue(L, -2);
        lua_replace(L, control);
        lua_rawset(L, copy);
    }
    lua_pushvalue(L, copy);
    lua_replace(L, at);
    lua_settop(L, control - 3);
}

static void push_json(lua_State *L, int at, int depth) {
    luaL_Buffer b;
    if (depth > MAX_DEPTH) luaL_error(L, "json: nested more than %d deep", MAX_DEPTH);
    luaL_checkstack(L, 12, "json");
    int type = lua_type(L, at);
    bool array = false;
    int keys = 0;
    lua_Integer n = 0;
    if (type == LUA_TTABLE) {
        copy_view(L, at);
        array = lua_rawlen(L, at) > 0 || luaL_getmetafield(L, at, "__json_array") != LUA_TNIL;
        lua_settop(L, array && lua_rawlen(L, at) == 0 ? lua_gettop(L) - 1 : lua_gettop(L));
        if (!array) n = push_sorted_keys(L, at), keys = lua_gettop(L);
    }
    luaL_buffinit(L, &b);
    if (array)
        add_array(L, &b, at, depth);
    else if (type == LUA_TTABLE)
        add_object(L, &b, at, keys, n, depth);
    else
        add_value(L, &b, at);
    luaL_pushresult(&b);
    if (keys > 0) lua_remove(L, keys);
}

/* encode(value: any) -> string
 * Writes a value: keys in byte order, floats in the fewest digits that round-trip, NaN and
 * infinities as null. */
static int json_encode(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    push_json(L, 1, 1);
    return 1;
}

/* array(list?: table) -> table
 * Marks a list so that it is written as an array even when it is empty. */
static int json_as_array(lua_State *L) {
    if (lua_isnoneornil(L, 1)) lua_newtable(L);
    luaL_checktype(L, -1, LUA_TTABLE);
    luaL_setmetatable(L, ARRAY);
    return 1;
}

static const luaL_Reg functions[] = {
    {"decode", json_decode},
    {"decode_at", json_decode_at},
    {"encode", json_encode},
    {"array", json_as_array},
    {NULL, NULL},
};

/* @class seqrun.core.json
 * JSON to Lua values and back, strict in reading and with stable bytes in writing.
 * @field null lightuserdata represents JSON null */
void lsr_open_json(lua_State *L) {
    lsr_class(L, ROOT, NULL, root_free);
    luaL_newmetatable(L, ARRAY);
    lsr_set_bool(L, "__json_array", true);
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
}

/* lyaml.c - seqrun.core.yaml: a strict reader of YAML over libyaml's events.
 *
 * Nodes keep their positions and scalars their text; the schema assigns types, so `no` is text for
 * a string and 1e-4 is a number for a number.  Anchors, aliases, tags, merge keys, duplicate keys
 * and second documents are rejected; all of them are reported at once.  A syntax error or an
 * exceeded limit stops the reader, as does more memory than MULTIPLE bytes for each byte of the
 * text and BASE more.
 */
#include <stdbool.h>
#include <string.h>
#include <yaml.h>

#include "core/base/limit.h"
#include "lua/bind/lcheck.h"

enum {
    MULTIPLE = 250,
    BASE = 1 << 20,
    FILE_LIMIT = 1 << 20,
    DEPTH_LIMIT = 32,
    EVENT_LIMIT = 100000,
    SCALAR_LIMIT = 64 << 10,
};

#define LSR_YAML "seqrun.core.Yaml"

/* One reading.  A userdata with __gc, since Lua errors jump. */
typedef struct reading {
    yaml_parser_t parser;
    yaml_event_t event; /* the current event; deleted before the next */
    bool parser_open, event_open;
    int events, depth;
    int problems; /* stack index of the list of problems */
} reading;

static int reading_close(lua_State *L) {
    reading *r = lsr_checkbox(L, 1, LSR_YAML);
    if (r->event_open) yaml_event_delete(&r->event);
    if (r->parser_open) yaml_parser_delete(&r->parser);
    r->event_open = r->parser_open = false;
    return 0;
}

/* ---- problems -------------------------------------------------------------------------------- */

static void set_place(lua_State *L, const yaml_mark_t *at) {
    lsr_set_integer(L, "line", at->line + 1);
    lsr_set_integer(L, "column", at->column + 1);
}

/* Adds { message, line, column } to the list; the message is on top and is popped. */
static void add_problem(lua_State *L, reading *r, const yaml_mark_t *at) {
    lua_createtable(L, 0, 3);
    lua_insert(L, -2);
    lua_setfield(L, -2, "message");
    set_place(L, at);
    lua_rawseti(L, r->problems, (lua_Integer)lua_rawlen(L, r->problems) + 1);
}

static void complain(lua_State *L, reading *r, const char *message) {
    lua_pushstring(L, message);
    add_problem(L, r, &r->event.start_mark);
}

/* Adds the error of libyaml; always false. */
static bool syntax_problem(lua_State *L, reading *r) {
    const yaml_parser_t *p = &r->parser;
    const char *what = p->problem != NULL ? p->problem : "cannot be read";
    if (p->error == YAML_MEMORY_ERROR) luaL_error(L, "not enough memory");
    if (p->context != NULL)
        lua_pushfstring(L, "YAML: %s, %s", p->context, what);
    else
        lua_pushfstring(L, "YAML: %s", what);
    add_problem(L, r, p->error == YAML_READER_ERROR ? &p->mark : &p->problem_mark);
    return false;
}

static bool too_large(lua_State *L, reading *r, const char *what, int limit) {
    lua_pushfstring(L, "YAML: %s; the limit is %d", what, limit);
    add_problem(L, r, &r->event.start_mark);
    return false;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Moves to the next event; false after a problem that ends the reading. */
static bool next_event(lua_State *L, reading *r) {
    if (r->event_open) yaml_event_delete(&r->event);
    r->event_open = false;
    if (!yaml_parser_parse(&r->parser, &r->event)) return syntax_problem(L, r);
    r->event_open = true;
    if (++r->events > EVENT_LIMIT) return too_large(L, r, "too many entries", EVENT_LIMIT);
    return true;
}

static void refuse_extras(lua_State *L, reading *r, const yaml_char_t *anchor,
                          const yaml_char_t *tag) {
    if (anchor != NULL) complain(L, r, "anchors (&name) are not supported; write the value out");
    if (tag != NULL) complain(L, r, "tags (!name) are not supported; the schema has the types");
}

static void push_node(lua_State *L, const yaml_event_t *event, const char *kind) {
    lua_createtable(L, 0, 5);
    lsr_set_string(L, "kind", kind);
    set_place(L, &event->start_mark);
}

static bool read_node(lua_State *L, reading *r);

/* Pushes { kind = "scalar", value, quoted, line, column, width }. */
static bool read_scalar(lua_State *L, reading *r) {
    const yaml_event_t *e = &r->event;
    refuse_extras(L, r, e->data.scalar.anchor, e->data.scalar.tag);
    if (e->data.scalar.length > SCALAR_LIMIT)
        return too_large(L, r, "a value is too long", SCALAR_LIMIT);
    push_node(L, e, "scalar");
    lua_pushlstring(L, (const char *)e->data.scalar.value, e->data.scalar.length);
    lua_setfield(L, -2, "value");
    lsr_set_bool(L, "quoted", e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE);
    bool one_line = e->start_mark.line == e->end_mark.line;
    lsr_set_integer(L, "width",
                    one_line ? (lua_Integer)(e->end_mark.column - e->start_mark.column) : 1);
    return true;
}

/* Pushes { kind = "list", [1] = node, ... }. */
static bool read_list(lua_State *L, reading *r) {
    refuse_extras(L, r, r->event.data.sequence_start.anchor, r->event.data.sequence_start.tag);
    push_node(L, &r->event, "list");
    for (lua_Integer i = 1;; i++) {
        if (!next_event(L, r)) return false;
        if (r->event.type == YAML_SEQUENCE_END_EVENT) return true;
        if (!read_node(L, r)) return false;
        lua_rawseti(L, -2, i);
    }
}

/* True when the key on top may name an entry; a duplicate is a problem with both lines.
 * `seen` is the stack index of key text -> line. */
static bool accept_key(lua_State *L, reading *r, int seen) {
    if (r->event.type != YAML_SCALAR_EVENT) {
        complain(L, r, "a key must be a plain name");
        return false;
    }
    lua_getfield(L, -1, "value");
    const char *key = lua_tostring(L, -1);
    if (strcmp(key, "<<") == 0)
        complain(L, r, "merge keys (<<) are not supported; write the keys out");
    lua_pushvalue(L, -1);
    if (lua_rawget(L, seen) == LUA_TNUMBER) {
        lua_pushfstring(L, "duplicate key '%s'; the first is on line %I", key,
                        lua_tointeger(L, -1));
        add_problem(L, r, &r->event.start_mark);
        lua_pop(L, 2);
        return false;
    }
    lua_pop(L, 1);
    lua_pushinteger(L, (lua_Integer)r->event.start_mark.line + 1);
    lua_rawset(L, seen);
    return true;
}

/* Pushes { kind = "map", [i] = { key = scalar, value = node } }, in the order of the file. */
static bool read_map(lua_State *L, reading *r) {
    refuse_extras(L, r, r->event.data.mapping_start.anchor, r->event.data.mapping_start.tag);
    push_node(L, &r->event, "map");
    lua_newtable(L);
    int map = lua_gettop(L) - 1, seen = map + 1;
    for (;;) {
        if (!next_event(L, r)) return false;
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        lua_createtable(L, 0, 2);
        if (!read_node(L, r)) return false;
        bool good = accept_key(L, r, seen);
        lua_setfield(L, -2, "key");
        if (!next_event(L, r) || !read_node(L, r)) return false;
        lua_setfield(L, -2, "value");
        if (good)
            lua_rawseti(L, map, (lua_Integer)lua_rawlen(L, map) + 1);
        else
            lua_pop(L, 1);
    }
    lua_settop(L, map);
    return true;
}

/* Pushes the node that begins with the current event. */
static bool read_node(lua_State *L, reading *r) {
    luaL_checkstack(L, 12, "YAML is nested too deeply");
    if (r->event.type == YAML_SCALAR_EVENT) return read_scalar(L, r);
    if (r->event.type == YAML_ALIAS_EVENT) {
        complain(L, r, "aliases (*name) are not supported; write the value out");
        push_node(L, &r->event, "alias");
        return true;
    }
    if (r->depth == DEPTH_LIMIT) return too_large(L, r, "too many levels", DEPTH_LIMIT);
    r->depth++;
    bool read = r->event.type == YAML_MAPPING_START_EVENT ? read_map(L, r) : read_list(L, r);
    r->depth--;
    return read;
}

/* Pushes the root of the only document, nil if there is none; false if reading stopped. */
static bool read_document(lua_State *L, reading *r) {
    if (!next_event(L, r) || !next_event(L, r)) return false; /* stream start */
    if (r->event.type == YAML_STREAM_END_EVENT) {
        lua_pushnil(L);
        return true;
    }
    if (!next_event(L, r) || !read_node(L, r)) return false;
    if (!next_event(L, r) || !next_event(L, r)) return false; /* document end */
    if (r->event.type != YAML_STREAM_END_EVENT)
        complain(L, r, "a second document begins here; use one document per file");
    return true;
}

static reading *reading_open(lua_State *L, const char *text, size_t size) {
    reading *r = lsr_newbox(L, sizeof *r, LSR_YAML);
    if (!yaml_parser_initialize(&r->parser)) luaL_error(L, "not enough memory");
    r->parser_open = true;
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, size);
    return r;
}

/* (reading, problems) -> root or nil, in a protected call. */
static int read_protected(lua_State *L) {
    reading *r = lua_touserdata(L, 1);
    r->problems = 2;
    if (!read_document(L, r)) lua_pushnil(L);
    return 1;
}

/* Pushes the root or nil; raises what reading raises, except that there is too little memory. */
static void read_watched(lua_State *L, reading *r, size_t size) {
    sr_mem_count count;
    lua_pushcfunction(L, read_protected);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, r->problems);
    sr_mem_watch(&count, MULTIPLE * (int64_t)size + BASE);
    int problems = r->problems, status = lua_pcall(L, 2, 1, 0);
    sr_mem_watch_end(&count);
    r->problems = problems;
    if (status == LUA_OK) return;
    if (!count.exceeded) lua_error(L);
    lua_pop(L, 1);
    too_large(L, r, "it takes too many bytes of memory for each of its bytes", MULTIPLE);
    lua_pushnil(L);
}

/* @class seqrun.core.yaml.node
 * @field kind "scalar"|"list"|"map"
 * @field line integer
 * @field column integer
 * @field value? string of a scalar, untyped
 * @field quoted? boolean */

/* parse(text: string) -> Node? root, { message: string, line: integer, column: integer }[]
 *     problems
 * Reads the only document of a text into nodes with their positions; reports all problems.
 *   root      nil if there is no document
 *   problems  empty if the text is valid */
static int yaml_parse(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    lua_settop(L, 1);
    size_t mark =
        size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* of editors on Windows */
    reading *r = reading_open(L, text + mark, size - mark);
    lua_newtable(L);
    r->problems = lua_gettop(L);
    if (size > FILE_LIMIT) {
        too_large(L, r, "the file is too long", FILE_LIMIT);
        lua_pushnil(L);
    } else {
        read_watched(L, r, size);
    }
    lua_pushvalue(L, r->problems);
    return 2;
}

static const luaL_Reg functions[] = {{"parse", yaml_parse}, {NULL, NULL}};

/* @class seqrun.core.yaml
 * Strict YAML, read event by event: no anchors, tags, aliases, duplicate keys or second documents.
 */
void lsr_open_yaml(lua_State *L) {
    lsr_class(L, LSR_YAML, NULL, reading_close);
    luaL_setfuncs(L, functions, 0);
}

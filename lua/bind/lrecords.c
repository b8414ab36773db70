/* lrecords.c - how records of JSONL are read: the option `records` of functions that read text;
 * part of seqrun.core.text. */
#include <string.h>

#include "core/base/mem.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ltext.h"

#define RECORDS "seqrun.core.Records"

/* Levels of a tree, which is read, evaluated and freed by recursion; base/condition.lua makes no
 * deeper ones. */
enum { DEPTH = 2000 };

/* What an sr_records points into. */
typedef struct records_box {
    char *field;
    sr_condition *where;
} records_box;

static int records_close(lua_State *L) {
    records_box *box = lsr_checkbox(L, 1, RECORDS);
    sr_condition_free(box->where);
    sr_free(box->field);
    *box = (records_box){0};
    return 0;
}

static const char *text_at(lua_State *L, int tree, int i) {
    lua_rawgeti(L, tree, i);
    const char *text = lua_tostring(L, -1); /* held by the tree */
    lua_pop(L, 1);
    if (text == NULL) lsr_error(L, "records: where is not a tree of base/condition.lua");
    return text;
}

static int index_of(lua_State *L, const char *const *names, const char *name) {
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0) return i;
    return lsr_error(L, "records: where has an unknown part '%s'", name);
}

static const char *const compares[] = {"=", "!=", "<", "<=", ">", ">=", "~", NULL};

/* compares(value: any, operator: string, text: string, number?: number) -> boolean
 * Whether a value compares so, as records of JSONL are compared; nil does for != only. */
static int text_compares(lua_State *L) {
    sr_condition c = {.compare = (sr_compare)index_of(L, compares, luaL_checkstring(L, 2))};
    double number = lua_tonumber(L, 1);
    int type = lua_type(L, 1);
    bool scalar = type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TBOOLEAN;
    lua_settop(L, 4);
    c.numeric = !lua_isnil(L, 4);
    c.number = luaL_optnumber(L, 4, 0);
    c.text = (char *)luaL_checkstring(L, 3);
    const char *text = scalar ? luaL_tolstring(L, 1, NULL) : NULL;
    return lsr_give_bool(L, sr_condition_compares(&c, text, type == LUA_TNUMBER ? &number : NULL));
}

/* Builds the tree at the top of the stack, into a place that its box owns. */
static void read_tree(lua_State *L, sr_condition **out, int depth) {
    static const char *const kinds[] = {"and", "or", "not", "has", "compare", NULL};
    luaL_checkstack(L, 4, "where");
    int tree = lua_gettop(L);
    if (depth > DEPTH) lsr_error(L, "records: where is a tree of more than 2,000 levels");
    if (!lua_istable(L, tree)) lsr_error(L, "records: where is not a tree of base/condition.lua");
    lsr_check(L, sr_new(out, 1));
    sr_condition *c = *out;
    c->kind = (sr_condition_kind)index_of(L, kinds, text_at(L, tree, 1));
    if (c->kind == SR_WHERE_HAS || c->kind == SR_WHERE_COMPARE)
        lsr_check(L, sr_strdup(&c->name, text_at(L, tree, 2)));
    if (c->kind == SR_WHERE_COMPARE) {
        c->compare = (sr_compare)index_of(L, compares, text_at(L, tree, 3));
        lsr_check(L, sr_strdup(&c->text, text_at(L, tree, 4)));
        lua_rawgeti(L, tree, 5);
        c->numeric = lua_isnumber(L, -1);
        c->number = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    for (int i = 2; c->name == NULL && i <= (c->kind == SR_WHERE_NOT ? 2 : 3); i++) {
        lua_rawgeti(L, tree, i);
        read_tree(L, i == 2 ? &c->left : &c->right, depth + 1);
        lua_pop(L, 1);
    }
}

sr_records lsr_pushrecords(lua_State *L, int options) {
    sr_records records = {0};
    records_box *box = lsr_newbox(L, sizeof *box, RECORDS);
    if (lua_getfield(L, options, "records") == LUA_TTABLE) {
        int at = lua_gettop(L);
        lsr_check(L, sr_strdup(&box->field, lsr_field_string(L, at, "field", "text")));
        records.field = box->field;
        records.all = lsr_field_bool(L, at, "all", false);
        if (lua_getfield(L, at, "where") != LUA_TNIL) read_tree(L, &box->where, 1);
        lua_pop(L, 1);
        records.where = box->where;
    }
    lua_pop(L, 1);
    return records;
}

void lsr_open_records(lua_State *L) {
    lsr_class(L, RECORDS, NULL, records_close);
    lua_pushcfunction(L, text_compares);
    lua_setfield(L, -2, "compares");
}

/* ltargets.c - targets as options, as facts, and as lists that a Lua function made. */
#include "lua/bind/ltargets.h"

#include <math.h>
#include <string.h>

#include "lua/bind/lcheck.h"

const char *const lsr_mean_names[] = {"token", "sequence", NULL};

static const char *const reads_names[] = {"rows", "sequences", "spans", NULL};

/* ---- options ---- */

static sr_mean read_mean(lua_State *L, int at, sr_mean otherwise) {
    if (lsr_field_string(L, at, "mean", NULL) == NULL) return otherwise;
    return (sr_mean)lsr_field_choice(L, at, "mean", lsr_mean_names);
}

static void read_fim(lua_State *L, int at, sr_fim *f) {
    if (lua_getfield(L, at, "fim") == LUA_TTABLE) {
        int own = lua_gettop(L);
        *f = (sr_fim){.rate = lsr_field_number(L, own, "rate", 0.0),
                      .spm = lsr_field_number(L, own, "spm", 0.5),
                      .characters = lsr_field_bool(L, own, "characters", false),
                      .prefix = (int32_t)lsr_field_range(L, own, "prefix", -1, -1, INT32_MAX),
                      .suffix = (int32_t)lsr_field_range(L, own, "suffix", -1, -1, INT32_MAX),
                      .middle = (int32_t)lsr_field_range(L, own, "middle", -1, -1, INT32_MAX)};
    }
    lua_pop(L, 1);
}

/* The strings are kept alive by the table at `at`. */
static void read_target(lua_State *L, int at, sr_target_opts *o, sr_mean mean) {
    static const char *const outside[] = {"cls", "ignore", NULL};
    o->name = lsr_field_string(L, at, "name", NULL);
    o->kind = lsr_field_string(L, at, "kind", NULL);
    o->column = lsr_field_string(L, at, "column", NULL);
    o->reads = lsr_field_string(L, at, "reads", NULL);
    o->type = lsr_field_string(L, at, "type", NULL);
    o->columns = (int32_t)lsr_field_range(L, at, "columns", 1, 1, SR_FIELD_SIZE);
    o->ignore = lsr_field_number(L, at, "ignore", (double)NAN);
    o->has_ignore = !isnan(o->ignore);
    o->drop_outside = lsr_field_choice(L, at, "outside", outside) == 1;
    o->causal = lsr_field_number(L, at, "causal", 0.0);
    o->fixed = lsr_field_bool(L, at, "fixed", false);
    read_fim(L, at, &o->fim);
    o->mean = read_mean(L, at, mean);
}

const sr_target_opts *lsr_readtargets(lua_State *L, int options, sr_mean mean, int *count) {
    *count = 0;
    if (lua_getfield(L, options, "targets") == LUA_TNIL) return NULL;
    int list = lua_gettop(L);
    luaL_checktype(L, list, LUA_TTABLE);
    *count = (int)lua_rawlen(L, list);
    sr_target_opts *o = lsr_scratch(L, *count, sizeof *o);
    for (int i = 0; i < *count; i++) {
        lua_rawgeti(L, list, i + 1);
        read_target(L, lua_gettop(L), &o[i], mean);
        lua_pop(L, 1);
    }
    return o;
}

/* ---- facts ---- */

void lsr_pushtarget(lua_State *L, const sr_target *t) {
    lua_createtable(L, 0, 4);
    lsr_set_string(L, "name", t->name);
    lsr_set_string(L, "reads", reads_names[t->reads]);
    lsr_set_integer(L, "count", t->count);
    lsr_set_number(L, "denominator", t->denominator);
}

/* ---- lists ---- */

static void read_labels(lua_State *L, void *out, const sr_target *t, int arg, int64_t n) {
    const char *what = lua_pushfstring(L, "target '%s': labels", t->name);
    for (int64_t i = 0; i < n; i++) {
        if (t->type == SR_LABEL_I32) {
            ((int32_t *)out)[i] =
                (int32_t)lsr_checkelement(L, arg, i + 1, what, INT32_MIN, INT32_MAX);
            continue;
        }
        int number;
        lua_rawgeti(L, arg, i + 1);
        ((float *)out)[i] = (float)lua_tonumberx(L, -1, &number);
        lua_pop(L, 1);
        if (!number) lsr_error(L, "%s[%I] must be a number", what, (lua_Integer)i + 1);
    }
    lua_pop(L, 1);
}

sr_status lsr_settarget(lua_State *L, sr_batch *b, int number, int rows, int labels) {
    const sr_target *t = &b->target[number];
    luaL_checktype(L, rows, LUA_TTABLE);
    luaL_checktype(L, labels, LUA_TTABLE);
    int64_t count = (int64_t)lua_rawlen(L, rows), values = (int64_t)lua_rawlen(L, labels);
    if (values != count * t->columns)
        lsr_error(L, "target '%s': %I rows need %I labels, got %I", t->name, (lua_Integer)count,
                  (lua_Integer)count * t->columns, (lua_Integer)values);
    int32_t *row = lsr_scratch(L, count, sizeof *row);
    int32_t *label = lsr_scratch(L, values, sizeof *label);
    for (int64_t i = 0; i < count; i++)
        row[i] = (int32_t)lsr_checkelement(L, rows, i + 1, "rows", 0, b->slots - 1);
    read_labels(L, label, t, labels, values);
    return sr_batch_set_target(b, number, count, row, label);
}

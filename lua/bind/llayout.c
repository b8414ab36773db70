/* llayout.c - layouts in Lua; part of seqrun.core.tensor. */
#include <string.h>

#include "core/base/mem.h"
#include "lua/bind/ltensor.h"

typedef struct box {
    sr_layout *layout;
} box;

static box *new_box(lua_State *L) {
    box *b = lua_newuserdatauv(L, sizeof *b, 0);
    b->layout = NULL;
    luaL_setmetatable(L, LSR_LAYOUT);
    return b;
}

sr_layout *lsr_checklayout(lua_State *L, int arg) {
    box *b = luaL_testudata(L, arg, LSR_LAYOUT);
    if (b == NULL) lsr_typeerror(L, arg, "a layout");
    if (b->layout == NULL) lsr_argerror(L, arg, "the layout was released");
    return b->layout;
}

static int push_box(lua_State *L) {
    new_box(L);
    return 1;
}

void lsr_pushlayout(lua_State *L, sr_layout *layout) {
    if (!lua_checkstack(L, 2)) {
        sr_layout_release(layout);
        lsr_error(L, "too many layouts on the stack");
    }
    lua_pushcfunction(L, push_box); /* a box may be more than memory holds */
    if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
        sr_layout_release(layout);
        lua_error(L);
    }
    box *b = lua_touserdata(L, -1);
    b->layout = layout;
}

/* The list of integers in field `name` of the table at 1, as a userdata left on the stack (nil is
 * left when the field is absent); *count is its length. */
static int32_t *list_field(lua_State *L, const char *name, int64_t *count) {
    *count = 0;
    if (lua_getfield(L, 1, name) == LUA_TNIL) return NULL;
    if (!lua_istable(L, -1)) lsr_error(L, "layout: %s must be a list of integers", name);
    int64_t n = luaL_len(L, -1);
    int32_t *list = lua_newuserdatauv(L, (size_t)(n > 0 ? n : 1) * sizeof *list, 0);
    for (int64_t i = 0; i < n; i++) {
        lua_geti(L, -2, i + 1);
        int whole;
        lua_Integer x = lua_tointegerx(L, -1, &whole);
        if (!whole || x < INT32_MIN || x > UINT32_MAX)
            lsr_error(L, "layout: %s[%I] is no 32-bit integer", name, (lua_Integer)i + 1);
        list[i] = (int32_t)(uint32_t)x;
        lua_pop(L, 1);
    }
    lua_remove(L, -2);
    *count = n;
    return list;
}

static int32_t *list_of(lua_State *L, const char *name, int64_t wanted) {
    int64_t count;
    int32_t *list = list_field(L, name, &count);
    if (list != NULL && count != wanted)
        lsr_error(L, "layout: %I lengths, but %I in %s", (lua_Integer)wanted, (lua_Integer)count,
                  name);
    return list;
}

/* A misspelled field is an error, not a default. */
static void check_fields(lua_State *L) {
    static const char *const known[] = {"lens", "starts", "uids", "epochs", "rows", "seed", NULL};
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "[1]";
        int i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0) i++;
        if (known[i] == NULL)
            lsr_error(L,
                      "layout: there is no field '%s'; use lens, starts, uids, epochs, rows, seed",
                      key);
    }
}

/* layout{ lens=, starts=, uids=, epochs=, rows=, seed= } */
static int layout_new(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    check_fields(L);
    int64_t n;
    int32_t *len = list_field(L, "lens", &n);
    if (len == NULL) return lsr_error(L, "layout: lens is missing, the list of lengths");
    int32_t *start = list_of(L, "starts", n);
    uint32_t *uid = (uint32_t *)list_of(L, "uids", n);
    uint32_t *epoch = (uint32_t *)list_of(L, "epochs", n);
    lua_getfield(L, 1, "rows");
    lua_getfield(L, 1, "seed");
    int64_t rows = luaL_optinteger(L, -2, 0);
    uint64_t seed = (uint64_t)luaL_optinteger(L, -1, 0);
    box *b = new_box(L);
    lsr_check(L, sr_layout_new(&b->layout, (int32_t)n, start, len, uid, epoch, rows, seed));
    return 1;
}

static int push_list(lua_State *L, const int32_t *list, int64_t count);

/* layout:shorten(rows) -> layout of these rows, the rows in order; rows count from 0 */
static int layout_shorten(lua_State *L) {
    sr_layout *whole = lsr_checklayout(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    uint8_t *keep = lua_newuserdatauv(L, (size_t)whole->rows + 1, 0);
    memset(keep, 0, (size_t)whole->rows);
    for (lua_Integer i = 1; i <= luaL_len(L, 2); i++) {
        lua_geti(L, 2, i);
        int whole_number;
        lua_Integer row = lua_tointegerx(L, -1, &whole_number);
        if (!whole_number || row < 0 || row >= whole->rows)
            return lsr_error(L, "shorten: row %I of %I; rows count from 0", row,
                             (lua_Integer)whole->rows);
        keep[row] = 1;
        lua_pop(L, 1);
    }
    int32_t *rows, *copy = lua_newuserdatauv(L, ((size_t)whole->rows + 1) * sizeof *copy, 0);
    box *b = new_box(L);
    lsr_check(L, sr_layout_shorten(&b->layout, &rows, whole, keep));
    memcpy(copy, rows, (size_t)b->layout->rows * sizeof *copy);
    sr_free(rows);
    push_list(L, copy, b->layout->rows);
    return 2;
}

static int layout_release(lua_State *L) {
    box *b = luaL_checkudata(L, 1, LSR_LAYOUT);
    sr_layout_release(b->layout);
    b->layout = NULL;
    return 0;
}

static int layout_rows(lua_State *L) {
    lua_pushinteger(L, lsr_checklayout(L, 1)->rows);
    return 1;
}

static int layout_sequences(lua_State *L) {
    lua_pushinteger(L, lsr_checklayout(L, 1)->sequences);
    return 1;
}

static int layout_tokens(lua_State *L) {
    lua_pushinteger(L, lsr_checklayout(L, 1)->tokens);
    return 1;
}

static int layout_squares(lua_State *L) {
    lua_pushinteger(L, lsr_checklayout(L, 1)->squares);
    return 1;
}

static int layout_seed(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)lsr_checklayout(L, 1)->seed);
    return 1;
}

static int push_list(lua_State *L, const int32_t *list, int64_t count) {
    lua_createtable(L, (int)count, 0);
    for (int64_t i = 0; i < count; i++) {
        lua_pushinteger(L, list[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int push_keys(lua_State *L, const uint32_t *list, int64_t count) {
    lua_createtable(L, (int)count, 0);
    for (int64_t i = 0; i < count; i++) {
        lua_pushinteger(L, list[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int layout_lengths(lua_State *L) {
    const sr_layout *l = lsr_checklayout(L, 1);
    return push_list(L, l->len, l->sequences);
}

/* First rows, from 0: they are values, ready to be gathered. */
static int layout_starts(lua_State *L) {
    const sr_layout *l = lsr_checklayout(L, 1);
    return push_list(L, l->start, l->sequences);
}

static int layout_uids(lua_State *L) {
    const sr_layout *l = lsr_checklayout(L, 1);
    return push_keys(L, l->uid, l->sequences);
}

static int layout_epochs(lua_State *L) {
    const sr_layout *l = lsr_checklayout(L, 1);
    return push_keys(L, l->epoch, l->sequences);
}

static int layout_positions(lua_State *L) {
    const sr_layout *l = lsr_checklayout(L, 1);
    return push_list(L, l->position, l->rows);
}

static int layout_owners(lua_State *L) {
    const sr_layout *l = lsr_checklayout(L, 1);
    return push_list(L, l->owner, l->rows);
}

static int layout_tostring(lua_State *L) {
    const sr_layout *l = lsr_checklayout(L, 1);
    lua_pushfstring(L, "layout: %d sequences, %I tokens in %I rows, longest %d", l->sequences,
                    (lua_Integer)l->tokens, (lua_Integer)l->rows, l->longest);
    return 1;
}

static const luaL_Reg methods[] = {
    {"rows", layout_rows},       {"sequences", layout_sequences},
    {"tokens", layout_tokens},   {"squares", layout_squares},
    {"seed", layout_seed},       {"lengths", layout_lengths},
    {"starts", layout_starts},   {"uids", layout_uids},
    {"epochs", layout_epochs},   {"positions", layout_positions},
    {"owners", layout_owners},   {"shorten", layout_shorten},
    {"release", layout_release}, {NULL, NULL},
};

void lsr_open_layout(lua_State *L) {
    if (luaL_newmetatable(L, LSR_LAYOUT)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, layout_release);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, layout_tostring);
        lua_setfield(L, -2, "__tostring");
    }
    lua_getfield(L, -1, "__index");
    lua_setfield(L, -3, "layout_methods");
    lua_pop(L, 1);
    lua_pushcfunction(L, layout_new);
    lua_setfield(L, -2, "layout");
}

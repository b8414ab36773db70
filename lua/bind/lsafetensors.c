/* lsafetensors.c - safetensors files from Lua; part of seqrun.core.train. */
#include "core/store/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "lua/bind/lsafetensors.h"
#include "lua/bind/ltensor.h"
#include "lua/bind/ltrain.h"

#define FILE_CLASS "seqrun.core.Safetensors"
#define PLAN_CLASS "seqrun.core.SafetensorsPlan"

/* ---- reading --------------------------------------------------------------------------------- */

static sr_safetensors *check_file(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, FILE_CLASS, "the file was closed");
}

static const sr_st_entry *check_entry(lua_State *L, const sr_safetensors *st, int arg) {
    const char *name = luaL_checkstring(L, arg);
    const sr_st_entry *e = sr_safetensors_find(st, name);
    if (e == NULL) lsr_error(L, "safetensors: %s has no tensor '%s'", st->path, name);
    return e;
}

/* safetensors(path: string, header_limit?: integer) -> Safetensors | nil, message, code
 * Opens a safetensors file and checks its header.
 *   header_limit  bytes */
static int train_safetensors(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    size_t limit = (size_t)lsr_optrange(L, 2, 0, 1, SR_ST_HEADER_MOST);
    sr_safetensors **box = lsr_newbox(L, sizeof *box, FILE_CLASS);
    return lsr_give(L, sr_safetensors_open(box, path, limit));
}

LSR_RELEASE(file_close, FILE_CLASS, sr_safetensors, sr_safetensors_close)

/* @class seqrun.core.Safetensors
 * An open safetensors file. */

/* safetensors:entries() -> { name: string, dtype: string, shape: integer[], count: integer, bytes:
 *     integer }[]
 * The entries of the header, sorted by name. */
static int file_entries(lua_State *L) {
    sr_safetensors *st = check_file(L, 1);
    lua_createtable(L, (int)st->count, 0);
    for (int64_t i = 0; i < st->count; i++) {
        const sr_st_entry *e = &st->list[i];
        lua_createtable(L, 0, 5);
        lsr_set_string(L, "name", e->name);
        lsr_set_string(L, "dtype", sr_st_dtype_name(e->dtype));
        lsr_set_integer(L, "count", e->count);
        lsr_set_integer(L, "bytes", e->bytes);
        LSR_PUSH_LIST(L, e->ndim, d, lua_pushinteger(L, e->shape[d]));
        lua_setfield(L, -2, "shape");
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* safetensors:metadata() -> table<string, string>
 * The metadata of the header. */
static int file_metadata(lua_State *L) {
    sr_safetensors *st = check_file(L, 1);
    lua_newtable(L);
    for (int64_t i = 0; i < st->metadata_count; i++) {
        lua_pushstring(L, st->metadata[i].value);
        lua_setfield(L, -2, st->metadata[i].key);
    }
    return 1;
}

/* safetensors:read_into(tensor: Tensor, name: string, count?: integer) -> true | nil, message,
 *     code
 * The first `count` elements of a tensor of the file (default all) into the first of a contiguous
 * one. */
static int file_read_into(lua_State *L) {
    sr_safetensors *st = check_file(L, 1);
    sr_tensor *t = lsr_checktensor(L, 2);
    const sr_st_entry *e = check_entry(L, st, 3);
    int64_t most = sr_tensor_elements(t);
    if ((uint64_t)most > e->count) most = (int64_t)e->count;
    int64_t count = lsr_optrange(L, 4, (int64_t)e->count, 0, most);
    return lsr_done(L, sr_safetensors_read_tensor(st, e, t, count));
}

/* safetensors:read(name: string, dtype?: string) -> Tensor | nil, message, code
 * A tensor of the file on the current device.
 *   dtype  default: the device's compute dtype */
static int file_read(lua_State *L) {
    sr_safetensors *st = check_file(L, 1);
    const sr_st_entry *e = check_entry(L, st, 2);
    sr_device *device = lsr_device(L);
    sr_dtype dtype = lua_isnoneornil(L, 3) ? device->real : lsr_checkdtype(L, 3);
    if (e->ndim > SR_MAX_DIMS) return lsr_error(L, "safetensors: more than 6 dimensions");
    sr_tensor **out = lsr_newtensor(L);
    lsr_check(L, sr_tensor_new(out, device, dtype, e->ndim, e->shape));
    sr_status status = sr_safetensors_read_tensor(st, e, *out, (int64_t)e->count);
    return lsr_give(L, status);
}

/* safetensors:close()
 * Closes the file. */
static const luaL_Reg file_methods[] = {
    {"entries", file_entries}, {"metadata", file_metadata}, {"read_into", file_read_into},
    {"read", file_read},       {"close", file_close},       {NULL, NULL},
};

/* ---- writing ---------------------------------------------------------------------------------
 *
 * A plan box holds the items; the table of tensors is its user value, so that they and their names
 * live as long as it does.
 */

typedef struct planned {
    sr_st_plan *plan;
    sr_st_item *items;
    sr_st_pair *pairs;
} planned;

/* @class seqrun.core.SafetensorsPlan
 * A safetensors file that is planned but not written. */

/* safetensorsPlan:release()
 * Frees the plan. */
static int plan_release(lua_State *L) {
    planned *p = lsr_checkbox(L, 1, PLAN_CLASS);
    sr_st_plan_free(p->plan);
    sr_free(p->items);
    sr_free(p->pairs);
    *p = (planned){0};
    return 0;
}

static int64_t count_keys(lua_State *L, int arg) {
    int64_t n = 0;
    if (lua_isnoneornil(L, arg)) return 0;
    luaL_checktype(L, arg, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, arg) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) lsr_argerror(L, arg, "the keys must be strings");
        n++;
    }
    return n;
}

static int pair_order(const void *a, const void *b) {
    return strcmp(((const sr_st_pair *)a)->key, ((const sr_st_pair *)b)->key);
}

/* safetensors_plan(tensors: table<string, Tensor>, metadata?: table<string, string>) ->
 *     SafetensorsPlan
 * Plans a safetensors file of contiguous tensors; the same tensors give the same bytes. */
static int train_plan(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    int64_t count = count_keys(L, 1), pairs = count_keys(L, 2), i = 0;
    lua_settop(L, 2);
    planned *p = lsr_newbox_with(L, sizeof *p, PLAN_CLASS, 2);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, 3, 1);
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, 3, 2);
    lsr_check(L, sr_new(&p->items, count));
    lsr_check(L, sr_new(&p->pairs, pairs));
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
        p->items[i].name = lua_tostring(L, -2);
        p->items[i++].tensor = lsr_checktensor(L, lua_gettop(L));
    }
    i = 0;
    if (pairs > 0)
        for (lua_pushnil(L); lua_next(L, 2) != 0; lua_pop(L, 1)) {
            if (lua_type(L, -1) != LUA_TSTRING) lsr_argerror(L, 2, "the values must be strings");
            p->pairs[i].key = (char *)lua_tostring(L, -2);
            p->pairs[i++].value = (char *)lua_tostring(L, -1);
        }
    if (pairs > 1) qsort(p->pairs, (size_t)pairs, sizeof *p->pairs, pair_order);
    return lsr_made(L, sr_st_plan_new(&p->plan, p->items, count, p->pairs, pairs));
}

const sr_st_plan *lsr_checkplan(lua_State *L, int arg) {
    planned *p = lsr_checkbox(L, arg, PLAN_CLASS);
    if (p->plan == NULL) lsr_argerror(L, arg, "the plan was released");
    return p->plan;
}

/* safetensorsPlan:bytes() -> integer
 * The size of the file to be written. */
static int plan_bytes(lua_State *L) {
    return lsr_give_integer(L, (lua_Integer)lsr_checkplan(L, 1)->total_bytes);
}

typedef struct target {
    int fd;
    const char *path;
} target;

static sr_status write_piece(void *context, const void *bytes, size_t size) {
    target *t = context;
    return sr_file_write(t->fd, bytes, size, t->path);
}

/* safetensorsPlan:write(path: string) -> true | nil, message, code
 * Writes the file atomically. */
static int plan_write(lua_State *L) {
    const sr_st_plan *plan = lsr_checkplan(L, 1);
    const char *path = luaL_checkstring(L, 2);
    sr_draft draft = {.fd = -1};
    sr_status st = sr_draft_open(&draft, path);
    target to = {.fd = draft.fd, .path = path};
    if (st == SR_OK) st = sr_st_plan_write(plan, write_piece, &to);
    if (st == SR_OK)
        st = sr_draft_commit(&draft);
    else
        sr_draft_drop(&draft);
    return lsr_done(L, st);
}

static const luaL_Reg plan_methods[] = {
    {"bytes", plan_bytes},
    {"write", plan_write},
    {"release", plan_release},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"safetensors", train_safetensors},
    {"safetensors_plan", train_plan},
    {NULL, NULL},
};

void lsr_open_safetensors(lua_State *L) {
    lsr_class(L, FILE_CLASS, file_methods, file_close);
    lsr_class(L, PLAN_CLASS, plan_methods, plan_release);
    luaL_setfuncs(L, functions, 0);
}

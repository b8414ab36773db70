/* lbatch.c - updates and their batches, as seqrun.core.batch hands them out. */
#include "lua/bind/lbatch.h"

#include <string.h>

#include "lua/bind/lcheck.h"
#include "lua/bind/ltensor.h"

sr_update **lsr_newupdate(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_update *), LSR_UPDATE);
}

void lsr_account_update(lua_State *L, const sr_update *u) {
    int64_t kilobytes = (u->slots * 20 + u->masked * 12 + u->sequences * 48) >> 10;
    lua_gc(L, LUA_GCSTEP, (int)(kilobytes < INT32_MAX ? kilobytes + 1 : INT32_MAX));
}

void lsr_pushcursor(lua_State *L, const sr_cursor *c) {
    lua_createtable(L, 0, 5);
    lsr_set_integer(L, "epoch", c->epoch);
    lsr_set_integer(L, "pack", c->pack);
    lsr_set_integer(L, "update", c->update);
    lsr_set_integer(L, "sequences", c->sequences);
    lsr_set_integer(L, "packs", c->packs);
}

static const sr_update *check_update(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_UPDATE, "the update was released");
}

LSR_RELEASE(update_gc, LSR_UPDATE, sr_update, sr_update_free)

/* update:info() -> table */
static int update_info(lua_State *L) {
    const sr_update *u = check_update(L, 1);
    lua_newtable(L);
    lsr_set_integer(L, "index", u->index);
    lsr_set_integer(L, "batches", u->batches);
    lsr_set_integer(L, "packs", u->packs);
    lsr_set_integer(L, "sequences", u->sequences);
    lsr_set_integer(L, "tokens", u->tokens);
    lsr_set_integer(L, "slots", u->slots);
    lsr_set_integer(L, "masked", u->masked);
    lsr_set_number(L, "imbalance", u->imbalance);
    lsr_pushcursor(L, &u->begin);
    lua_setfield(L, -2, "from");
    lsr_pushcursor(L, &u->end);
    lua_setfield(L, -2, "upto");
    return 1;
}

static const sr_batch *check_batch(lua_State *L) {
    const sr_update *u = check_update(L, 1);
    return u->batch[lsr_checkrange(L, 2, 1, u->batches) - 1];
}

/* update:batch(i) -> table of tallies and the names of the targets */
static int update_batch(lua_State *L) {
    const sr_batch *b = check_batch(L);
    lua_newtable(L);
    lsr_set_integer(L, "sequences", b->sequences);
    lsr_set_integer(L, "tokens", b->tokens);
    lsr_set_integer(L, "slots", b->slots);
    lsr_set_integer(L, "masked", b->masked);
    lsr_set_integer(L, "epoch", b->layout->epoch[0]);
    lua_newtable(L);
    for (int i = 0; i < b->targets; i++) {
        lua_pushstring(L, b->target[i].name);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "heads");
    return 1;
}

/* update:layout(i) -> layout */
static int update_layout(lua_State *L) {
    const sr_batch *b = check_batch(L);
    lsr_pushlayout(L, sr_layout_retain(b->layout));
    return 1;
}

/* A tensor of n numbers on the current device, in the open scope. */
static void push_array(lua_State *L, const void *host, int64_t n, sr_dtype dtype) {
    sr_device *device = lsr_device(L);
    sr_tensor **box = lsr_newtensor(L);
    sr_dtype stored = dtype == SR_I32 ? SR_I32 : device->real;
    lsr_check(L, sr_tensor_new(box, device, stored, 1, &n));
    if (n > 0) lsr_check(L, sr_tensor_write(*box, host, dtype));
}

/* update:ids(i), update:types(i) -> tensor (T) i32 */
static int update_ids(lua_State *L) {
    const sr_batch *b = check_batch(L);
    push_array(L, b->ids, b->slots, SR_I32);
    return 1;
}

static int update_types(lua_State *L) {
    const sr_batch *b = check_batch(L);
    push_array(L, b->types, b->slots, SR_I32);
    return 1;
}

/* update:last(i) -> layout and rows of what the targets need | nil */
static int update_last(lua_State *L) {
    const sr_batch *b = check_batch(L);
    if (b->last == NULL) return 0;
    lsr_pushlayout(L, sr_layout_retain(b->last));
    push_array(L, b->last_rows, b->last->rows, SR_I32);
    return 2;
}

/* update:target(i, name) -> rows, labels, weights, places | nil */
static int update_target(lua_State *L) {
    const sr_batch *b = check_batch(L);
    const char *name = luaL_checkstring(L, 3);
    for (int i = 0; i < b->targets; i++) {
        const sr_target *t = &b->target[i];
        if (strcmp(t->name, name) != 0) continue;
        push_array(L, t->rows, t->count, SR_I32);
        push_array(L, t->labels, t->count, SR_I32);
        push_array(L, t->weights, t->count, SR_F32);
        push_array(L, t->places, t->count, SR_I32);
        return 4;
    }
    lua_pushnil(L);
    return 1;
}

static const luaL_Reg update_methods[] = {
    {"info", update_info},     {"batch", update_batch},
    {"layout", update_layout}, {"ids", update_ids},
    {"types", update_types},   {"target", update_target},
    {"last", update_last},     {NULL, NULL},
};

void lsr_open_updates(lua_State *L) {
    lsr_class(L, LSR_UPDATE, update_methods, update_gc);
}

/* lbatch.c - updates and their batches, as seqrun.core.batch hands them out. */
#include "lua/bind/lbatch.h"

#include "lua/bind/lcheck.h"
#include "lua/bind/ltargets.h"
#include "lua/bind/ltensor.h"

sr_update **lsr_newupdate(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_update *), LSR_UPDATE);
}

void lsr_account_update(lua_State *L, const sr_update *u) {
    int64_t kilobytes = (u->slots * 20 + u->masked * 12 + u->sequences * 48) >> 10;
    lua_gc(L, LUA_GCSTEP, (int)(kilobytes < INT32_MAX ? kilobytes + 1 : INT32_MAX));
}

void lsr_pushcursor(lua_State *L, const sr_cursor *c) {
    lua_createtable(L, 0, 8);
    lsr_set_integer(L, "epoch", c->epoch);
    lsr_set_integer(L, "position", c->position);
    lsr_set_integer(L, "stage", c->stage + 1);
    lsr_set_integer(L, "packs", c->packs);
    lsr_set_integer(L, "update", c->drawn.updates);
    lsr_set_integer(L, "sequences", c->drawn.sequences);
    lsr_set_integer(L, "raw_tokens", c->drawn.raw_tokens);
    lsr_set_integer(L, "real_tokens", c->drawn.real_tokens);
    lsr_set_integer(L, "masked_tokens", c->drawn.masked_tokens);
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
    lsr_set_integer(L, "shares", u->shares);
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

/* update:batch(i) -> table of tallies, and of facts about each target */
static int update_batch(lua_State *L) {
    const sr_batch *b = check_batch(L);
    lua_newtable(L);
    lsr_set_integer(L, "sequences", b->sequences);
    lsr_set_integer(L, "tokens", b->tokens);
    lsr_set_integer(L, "slots", b->slots);
    lsr_set_integer(L, "masked", b->masked);
    lsr_set_integer(L, "epoch", b->layout->epoch[0]);
    lsr_set_integer(L, "share", b->share + 1);
    lua_createtable(L, b->targets, 0);
    for (int i = 0; i < b->targets; i++) {
        lsr_pushtarget(L, &b->target[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "facts");
    return 1;
}

/* update:layout(i) -> layout */
static int update_layout(lua_State *L) {
    const sr_batch *b = check_batch(L);
    lsr_pushlayout(L, sr_layout_retain(b->layout));
    return 1;
}

/* A tensor of n (n x columns, when columns > 1) numbers on the current device, in the open scope.
 */
static void push_array(lua_State *L, const void *host, int64_t n, int columns, sr_dtype dtype) {
    sr_device *device = lsr_device(L);
    sr_tensor **box = lsr_newtensor(L);
    sr_dtype stored = dtype == SR_I32 ? SR_I32 : device->real;
    int64_t shape[] = {n, columns};
    lsr_check(L, sr_tensor_new(box, device, stored, columns > 1 ? 2 : 1, shape));
    if (n > 0) lsr_check(L, sr_tensor_write(*box, host, dtype));
}

/* update:ids(i), update:types(i) -> tensor (T) i32 */
static int update_ids(lua_State *L) {
    const sr_batch *b = check_batch(L);
    push_array(L, b->ids, b->slots, 1, SR_I32);
    return 1;
}

static int update_types(lua_State *L) {
    const sr_batch *b = check_batch(L);
    push_array(L, b->types, b->slots, 1, SR_I32);
    return 1;
}

/* update:last(i) -> layout and rows of what the targets need | nil */
static int update_last(lua_State *L) {
    const sr_batch *b = check_batch(L);
    if (b->last == NULL) return 0;
    lsr_pushlayout(L, sr_layout_retain(b->last));
    push_array(L, b->last_rows, b->last->rows, 1, SR_I32);
    return 2;
}

/* update:original_ids(i) -> tensor (T) i32 | nil */
static int update_original_ids(lua_State *L) {
    const sr_batch *b = check_batch(L);
    if (b->original_ids == NULL) return 0;
    push_array(L, b->original_ids, b->slots, 1, SR_I32);
    return 1;
}

static const sr_target *check_target(lua_State *L, const sr_batch *b) {
    return &b->target[lsr_checkrange(L, 3, 1, b->targets) - 1];
}

/* update:target(i, number) -> rows, labels, weights, places */
static int update_target(lua_State *L) {
    const sr_target *t = check_target(L, check_batch(L));
    int each = sr_rows_each(t->reads);
    push_array(L, t->rows, t->count, each, SR_I32);
    push_array(L, t->labels, t->count, t->columns, t->type == SR_LABEL_F32 ? SR_F32 : SR_I32);
    push_array(L, t->weights, t->count, 1, SR_F32);
    push_array(L, t->places, t->count, each, SR_I32);
    return 4;
}

/* update:set_target(i, number, rows, labels): lists of a late target */
static int update_set_target(lua_State *L) {
    const sr_update *u = check_update(L, 1);
    sr_batch *b = u->batch[lsr_checkrange(L, 2, 1, u->batches) - 1];
    int number = (int)lsr_checkrange(L, 3, 1, b->targets) - 1;
    lsr_check(L, lsr_settarget(L, b, number, 4, 5));
    return 0;
}

/* update:finish(): late targets are all set */
static int update_finish(lua_State *L) {
    check_update(L, 1);
    lsr_check(L, sr_update_finish(*(sr_update **)lua_touserdata(L, 1)));
    return 0;
}

/* update:host(i, "ids" | "types" | "original_ids") -> { numbers } | nil */
static int update_host(lua_State *L) {
    static const char *const names[] = {"ids", "types", "original_ids", NULL};
    const sr_batch *b = check_batch(L);
    const int32_t *const all[] = {b->ids, b->types, b->original_ids};
    const int32_t *array = all[lsr_checkoption(L, 3, "host", NULL, names)];
    if (array == NULL) return 0;
    lua_createtable(L, (int)b->slots, 0);
    for (int64_t i = 0; i < b->slots; i++) {
        lua_pushinteger(L, array[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static const luaL_Reg update_methods[] = {
    {"info", update_info},
    {"batch", update_batch},
    {"layout", update_layout},
    {"ids", update_ids},
    {"types", update_types},
    {"target", update_target},
    {"last", update_last},
    {"original_ids", update_original_ids},
    {"set_target", update_set_target},
    {"finish", update_finish},
    {"host", update_host},
    {NULL, NULL},
};

void lsr_open_updates(lua_State *L) {
    lsr_class(L, LSR_UPDATE, update_methods, update_gc);
}

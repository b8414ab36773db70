/* llog.c - files that grow during a run; part of seqrun.core.train. */
#include "core/store/alarm.h"
#include "core/store/append.h"
#include "core/store/events.h"
#include "lua/bind/ltrain.h"

#define APPEND "seqrun.core.Append"
#define EVENTS "seqrun.core.Events"
#define ALARM "seqrun.core.Alarm"

/* ---- lines ----------------------------------------------------------------------------------- */

static sr_append *check_append(lua_State *L) {
    return lsr_checkobject(L, 1, APPEND, "the file was closed");
}

/* append(path: string, size?: integer) -> Append | nil, message, code
 * Opens a file that grows by whole records, truncated to `size` bytes if it is longer. */
static int train_append(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    uint64_t size = UINT64_MAX;
    if (!lua_isnoneornil(L, 2)) size = (uint64_t)lsr_checkrange(L, 2, 0, INT64_MAX);
    sr_append **box = lsr_newbox_with(L, sizeof *box, APPEND, 1); /* its alarm */
    return lsr_give(L, sr_append_open(box, path, size));
}

/* @class seqrun.core.Append
 * A file that grows by whole records. */

/* append:write(record: string) -> true | nil, message, code
 * Appends a record, whole or not at all. */
static int append_write(lua_State *L) {
    size_t size;
    const char *bytes = luaL_checklstring(L, 2, &size);
    return lsr_done(L, sr_append_write(check_append(L), bytes, size));
}

/* append:sync() -> true | nil, message, code
 * Syncs the file: its records survive a power cut. */
static int append_sync(lua_State *L) {
    return lsr_done(L, sr_append_sync(check_append(L)));
}

/* append:size() -> integer bytes
 * The length of the whole records. */
static int append_size(lua_State *L) {
    return lsr_give_integer(L, (lua_Integer)check_append(L)->size);
}

/* @class seqrun.core.Alarm
 * Tells of work that does not end, while it does not. */

/* alarm:close()
 * Ends it. */
static int alarm_close(lua_State *L);

/* append:close()
 * Closes the file. */
static int append_close(lua_State *L) {
    sr_append **box = lsr_checkbox(L, 1, APPEND);
    sr_append *file = *box;
    lua_settop(L, 1);
    if (lua_getiuservalue(L, 1, 1) == LUA_TUSERDATA) {
        lua_pushcfunction(L, alarm_close);
        lua_insert(L, 2);
        lua_call(L, 1, 0);
    }
    *box = NULL;
    sr_append_close(file);
    return 0;
}

/* ---- alarms ---------------------------------------------------------------------------------- */

/* alarm(file: Append) -> Alarm | nil, message, code
 * An alarm that writes its records to a file of append(); it is closed with the file at the
 * latest. */
static int train_alarm(lua_State *L) {
    sr_append *file = check_append(L);
    lua_settop(L, 1);
    if (lua_getiuservalue(L, 1, 1) == LUA_TUSERDATA && *(sr_alarm **)lua_touserdata(L, 2) != NULL)
        lsr_argerror(L, 1, "the file has an alarm already");
    sr_alarm **box = lsr_newbox_with(L, sizeof *box, ALARM, 1);
    lsr_keep(L, 1, 1); /* the file lives as long, */
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, 1); /* and knows what is to be closed before it */
    return lsr_give(L, sr_alarm_new(box, file));
}

static sr_alarm *check_alarm(lua_State *L) {
    return lsr_checkobject(L, 1, ALARM, "the alarm was closed");
}

/* alarm:arm(seconds: number, warning: string, record: string, command?: string) -> true | nil,
 *     message, code
 * Tells in some seconds, if it is not armed again or disarmed before.
 *   warning  for standard error
 *   record   for the file
 *   command  for sh */
static int alarm_arm(lua_State *L) {
    sr_alarm *a = check_alarm(L);
    return lsr_done(L, sr_alarm_arm(a, luaL_checknumber(L, 2), luaL_checkstring(L, 3),
                                    luaL_checkstring(L, 4), luaL_optstring(L, 5, NULL)));
}

/* alarm:disarm() -> boolean
 * Whether it has told since it was armed; it is armed no more. */
static int alarm_disarm(lua_State *L) {
    return lsr_give_bool(L, sr_alarm_disarm(check_alarm(L)));
}

LSR_RELEASE(alarm_close, ALARM, sr_alarm, sr_alarm_free)

static const luaL_Reg alarm_methods[] = {
    {"arm", alarm_arm},
    {"disarm", alarm_disarm},
    {"close", alarm_close},
    {NULL, NULL},
};

static const luaL_Reg append_methods[] = {
    {"write", append_write}, {"sync", append_sync}, {"size", append_size},
    {"close", append_close}, {NULL, NULL},
};

/* ---- events ---------------------------------------------------------------------------------- */

static sr_events *check_events(lua_State *L) {
    return lsr_checkobject(L, 1, EVENTS, "the events were closed");
}

/* events(folder: string, wall: number, first_step?: integer) -> Events | nil, message, code
 * Creates a TensorBoard event file in a directory.
 *   wall        seconds since 1970
 *   first_step  of a resumed run */
static int train_events(lua_State *L) {
    const char *folder = luaL_checkstring(L, 1);
    double wall = luaL_checknumber(L, 2);
    int64_t first = luaL_optinteger(L, 3, -1);
    sr_events **box = lsr_newbox(L, sizeof *box, EVENTS);
    return lsr_give(L, sr_events_open(box, folder, wall, first));
}

/* @class seqrun.core.Events
 * A TensorBoard event file. */

/* events:scalars(wall: number, step: integer, scalars: table<string, number>) -> true | nil,
 *     message, code
 * One record with some scalars, at most 64. */
static int events_scalars(lua_State *L) {
    enum { MOST = 64 };
    const char *tags[MOST];
    double values[MOST];
    size_t count = 0;
    sr_events *e = check_events(L);
    double wall = luaL_checknumber(L, 2);
    int64_t step = luaL_checkinteger(L, 3);
    luaL_checktype(L, 4, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, 4) != 0; lua_pop(L, 1)) {
        if (count == MOST || lua_type(L, -2) != LUA_TSTRING)
            lsr_argerror(L, 4, "the maximum is 64 tags, with strings as keys");
        tags[count] = lua_tostring(L, -2);
        values[count++] = luaL_checknumber(L, -1);
    }
    return lsr_done(L, sr_events_scalars(e, wall, step, tags, values, count));
}

/* events:text(wall: number, step: integer, tag: string, text: string) -> true | nil, message, code
 * One record with a text. */
static int events_text(lua_State *L) {
    sr_events *e = check_events(L);
    return lsr_done(L, sr_events_text(e, luaL_checknumber(L, 2), luaL_checkinteger(L, 3),
                                      luaL_checkstring(L, 4), luaL_checkstring(L, 5)));
}

LSR_RELEASE(events_close, EVENTS, sr_events, sr_events_close)

/* events:close()
 * Closes the file. */
static const luaL_Reg events_methods[] = {
    {"scalars", events_scalars},
    {"text", events_text},
    {"close", events_close},
    {NULL, NULL},
};

/* crc32c(bytes: string) -> integer
 * CRC-32C (Castagnoli). */
static int train_crc32c(lua_State *L) {
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    return lsr_give_integer(L, sr_crc32c(bytes, size));
}

static const luaL_Reg functions[] = {
    {"append", train_append}, {"alarm", train_alarm}, {"events", train_events},
    {"crc32c", train_crc32c}, {NULL, NULL},
};

void lsr_open_log(lua_State *L) {
    lsr_class(L, APPEND, append_methods, append_close);
    lsr_class(L, ALARM, alarm_methods, alarm_close);
    lsr_class(L, EVENTS, events_methods, events_close);
    luaL_setfuncs(L, functions, 0);
}

/* lrandom.c - random numbers, keyed or from the session; part of seqrun.core.ops.
 *
 * A draw with a seed or a uid is a function of both: the same key, the same numbers.  A draw with
 * neither uses the next key of the session: (seed of the session, number of the draw), in
 * epochs that no keyed draw uses.
 */
#include <string.h>

#include "core/tensor/ops.h"
#include "lua/bind/ltensor.h"

typedef struct session {
    uint64_t seed, draws;
} session;

static const char session_key;

static session *the_session(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &session_key);
    session *s = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (s != NULL) return s;
    s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = (session){0};
    lua_rawsetp(L, LUA_REGISTRYINDEX, &session_key);
    return s;
}

/* manual_seed(seed: integer)
 * Starts the session's random numbers again from this seed; at the start of a program the seed is
 * 0.  Draws with a `seed` or `uid` of their own, initialisation, masking and dropout do not depend
 * on it.  A run starts them from its seed, and keeps them in its checkpoints. */
static int manual_seed(lua_State *L) {
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 1);
    *the_session(L) = (session){.seed = seed};
    return 0;
}

/* random_state(seed?: integer, draws?: integer) -> integer seed, integer draws
 * The seed of the session's random numbers and how many were drawn; sets both if given. */
static int random_state(lua_State *L) {
    session *s = the_session(L);
    session before = *s;
    if (!lua_isnoneornil(L, 1))
        *s = (session){.seed = (uint64_t)luaL_checkinteger(L, 1),
                       .draws = (uint64_t)luaL_checkinteger(L, 2)};
    lua_pushinteger(L, (lua_Integer)before.seed);
    lua_pushinteger(L, (lua_Integer)before.draws);
    return 2;
}

/* math_random_state(state?: string) -> string | nil
 * The state of Lua's math.random, four words of 64 bits in the upvalue that it shares with
 * math.randomseed; sets it if given.  nil where math.random is another function. */
static int math_random_state(lua_State *L) {
    size_t given = 0, size = 4 * sizeof(uint64_t);
    const char *bytes = luaL_optlstring(L, 1, NULL, &given);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, "math");
    bool is_lua = lua_istable(L, -1) && lua_getfield(L, -1, "random") == LUA_TFUNCTION &&
                  lua_iscfunction(L, -1) && lua_getupvalue(L, -1, 1) != NULL;
    if (!is_lua || lua_type(L, -1) != LUA_TUSERDATA || lua_rawlen(L, -1) != size) {
        lua_pushnil(L);
        return 1;
    }
    void *state = lua_touserdata(L, -1);
    lua_pushlstring(L, state, size);
    if (given == size) memcpy(state, bytes, size);
    return 1;
}

typedef struct key {
    uint64_t seed;
    uint32_t uid, epoch;
} key;

static bool has_field(lua_State *L, int table, const char *name) {
    bool has = lua_istable(L, table) && lua_getfield(L, table, name) != LUA_TNIL;
    lua_settop(L, table);
    return has;
}

/* The key that the options at `table`, the last argument, name; else the session's next. */
static key next_key(lua_State *L, int table) {
    lua_settop(L, table);
    if (has_field(L, table, "seed") || has_field(L, table, "uid"))
        return (key){(uint64_t)lsr_field_integer(L, table, "seed", 0),
                     (uint32_t)lsr_field_range(L, table, "uid", 0, 0, UINT32_MAX), 0};
    session *s = the_session(L);
    uint64_t draw = s->draws++;
    return (key){s->seed, (uint32_t)draw, 1 + (uint32_t)(draw >> 32)};
}

/* Fills the tensor at 1; the parameters of the distribution start at `arg`, options follow. */
static int fill(lua_State *L, sr_random kind, int arg) {
    sr_tensor *y = lsr_checktensor(L, 1);
    double a = luaL_optnumber(L, arg, 0), b = luaL_optnumber(L, arg + 1, 1);
    key k = next_key(L, arg + 2);
    lsr_check(L, sr_op_random_in_place(y, kind, k.seed, SR_PURPOSE_TENSOR, k.uid, k.epoch, a, b));
    return lsr_self(L);
}

/* random_(t: Tensor, kind: "uniform"|"normal"|"truncated_normal", a?: number, b?: number,
 *     options?: { seed?: integer, uid?: integer }) -> Tensor
 * Fills with random numbers: uniform in [a, b), or normal with mean a and deviation b
 * (truncated_normal: within two deviations).  With a seed or a uid a function of both, else the
 * session's next draw.
 *   a  default 0
 *   b  default 1 */
static int random_(lua_State *L) {
    static const char *const kinds[] = {"uniform", "normal", "truncated_normal", NULL};
    return fill(L, (sr_random)luaL_checkoption(L, 2, NULL, kinds), 3);
}

static int fill_method(lua_State *L, sr_random kind, const char *name) {
    static const char *const known[] = {"seed", "uid", NULL};
    lsr_check_options(L, 4, name, known);
    return fill(L, kind, 2);
}

/* tensor:uniform_(a?: number, b?: number, options?: { seed?: integer, uid?: integer }) -> Tensor
 * Fills with uniform numbers in [a, b), keyed by seed and uid, else with a new key for each call;
 * returns self. */
static int tensor_uniform(lua_State *L) {
    return fill_method(L, SR_UNIFORM, "uniform_");
}

/* tensor:normal_(mean?: number, deviation?: number, options?: { seed?: integer, uid?: integer })
 *     -> Tensor
 * Fills with normal numbers, keyed by seed and uid, else with a new key for each call; returns
 * self. */
static int tensor_normal(lua_State *L) {
    return fill_method(L, SR_NORMAL, "normal_");
}

static const luaL_Reg functions[] = {
    {"random_", random_},
    {"manual_seed", manual_seed},
    {"random_state", random_state},
    {"math_random_state", math_random_state},
    {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"uniform_", tensor_uniform},
    {"normal_", tensor_normal},
    {NULL, NULL},
};

void lsr_open_random(lua_State *L) {
    lsr_tensor_methods(L, methods);
    luaL_setfuncs(L, functions, 0);
}

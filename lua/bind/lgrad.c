/* lgrad.c - backward, and ops whose way back is a Lua function; part of seqrun.core.ops. */
#include "core/base/mem.h"
#include "core/tensor/grad.h"
#include "core/tensor/ops.h"
#include "lua/bind/lops.h"
#include "lua/bind/ltensor.h"

/* tensor:backward([gradient [, retain]]) */
static int tensor_backward(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1), *seed = lsr_opttensor(L, 2);
    sr_backward pass = {.retain = lua_toboolean(L, 3), .host = L};
    lsr_check(L, sr_grad_backward(1, &t, seed != NULL ? &seed : NULL, &pass));
    return 0;
}

/* ---- ops written in Lua -----------------------------------------------------------------------
 */

/* A function in the registry. */
typedef struct closure {
    lua_State *L; /* the main thread: it lives as long as the registry */
    int ref;
} closure;

static void closure_free(void *p) {
    closure *c = p;
    luaL_unref(c->L, LUA_REGISTRYINDEX, c->ref);
    sr_free(c);
}

/* Runs under pcall: node and dx are light userdata 1 and 2; the function's results, tensors or nil,
 * go into dx. */
static int call_back(lua_State *L) {
    sr_node *node = lua_touserdata(L, 1);
    sr_tensor **dx = lua_touserdata(L, 2);
    const closure *c = node->closure;
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->ref);
    luaL_checkstack(L, node->outputs + node->inputs, "too many tensors");
    for (int k = 0; k < node->outputs; k++) {
        if (node->dy[k] == NULL)
            lua_pushnil(L);
        else
            lsr_pushtensor(L, sr_tensor_retain(node->dy[k]));
    }
    lua_call(L, node->outputs, node->inputs);
    for (int i = 0; i < node->inputs; i++) {
        sr_tensor *g = lsr_opttensor(L, i - node->inputs);
        if (g != NULL && sr_node_wants(node, i)) dx[i] = sr_tensor_retain(g);
    }
    return 0;
}

static sr_status custom_back(sr_node *node, sr_tensor **dx, sr_backward *pass) {
    lua_State *L = pass->host;
    if (L == NULL) return sr_fail(SR_EINVAL, "custom: an op written in Lua needs Lua to go back");
    lua_pushcfunction(L, call_back);
    lua_pushlightuserdata(L, node);
    lua_pushlightuserdata(L, dx);
    if (lua_pcall(L, 2, 0, 0) == LUA_OK) return SR_OK;
    const char *why = lua_tostring(L, -1);
    sr_status st = sr_fail(SR_EINVAL, "%s", why != NULL ? why : "custom: backward failed");
    lua_pop(L, 1);
    return st;
}
static const sr_rule custom_rule = {"custom", custom_back};

static int check_list(lua_State *L, int arg, sr_tensor **list, int most) {
    luaL_checktype(L, arg, LUA_TTABLE);
    lua_Integer n = luaL_len(L, arg);
    if (n < 1 || n > most) luaL_argerror(L, arg, lua_pushfstring(L, "1 to %d tensors", most));
    for (int i = 0; i < (int)n; i++) {
        lua_geti(L, arg, i + 1); /* the table keeps it alive */
        list[i] = lsr_checktensor(L, -1);
        lua_pop(L, 1);
    }
    return (int)n;
}

/* record(outputs, inputs, backward): the outputs, which must have no history of their own, came
 * from the inputs; backward(dy...) returns one gradient, or nil, an input. */
static int record(lua_State *L) {
    sr_tensor *outputs[SR_NODE_OUTPUTS], *inputs[SR_NODE_INPUTS];
    int n_out = check_list(L, 1, outputs, SR_NODE_OUTPUTS);
    int n_in = check_list(L, 2, inputs, SR_NODE_INPUTS);
    luaL_checktype(L, 3, LUA_TFUNCTION);
    for (int k = 0; k < n_out; k++)
        if (sr_grad_tracks(outputs[k]))
            return luaL_error(L, "custom: output %d already has a history; detach() it", k + 1);
    if (!sr_grad_wanted(n_in, inputs)) return 0;
    closure *c;
    lsr_check(L, sr_new(&c, 1));
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    c->L = lua_tothread(L, -1);
    c->ref = LUA_NOREF;
    sr_node *node;
    sr_status st = sr_node_new(&node, &custom_rule, outputs[0]->storage->device, n_in, inputs);
    if (st != SR_OK) {
        sr_free(c);
        lsr_check(L, st);
    }
    node->closure = c;
    node->free_closure = closure_free;
    for (int k = 0; k < n_out; k++) sr_node_attach(node, outputs[k], k);
    sr_node_release(node); /* the outputs hold it from here, so an error leaks nothing */
    lua_pushvalue(L, 3);
    c->ref = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

static const luaL_Reg functions[] = {{"record", record}, {NULL, NULL}};
static const luaL_Reg methods[] = {{"backward", tensor_backward}, {NULL, NULL}};

void lsr_open_grad(lua_State *L) {
    luaL_setfuncs(L, functions, 0);
}

void lsr_open_grad_methods(lua_State *L) {
    luaL_setfuncs(L, methods, 0);
}

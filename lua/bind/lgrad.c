/* lgrad.c - backward, and ops whose backward is a Lua function; part of seqrun.core.ops. */

#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/grad.h"
#include "lua/bind/ltensor.h"

/* ---- backward -------------------------------------------------------------------------------- */

static bool retain_option(lua_State *L, int arg) {
    static const char *const known[] = {"retain", NULL};
    lsr_check_options(L, arg, "backward", known);
    return lsr_field_bool(L, arg, "retain", false);
}

/* tensor:backward(gradient?: Tensor|table, options?: { retain?: boolean })
 * Adds the gradient of this scalar (or of its product with `gradient`) to grad() of every leaf
 * that it depends on. */
static int tensor_backward(lua_State *L) {
    sr_tensor *root = lsr_checktensor(L, 1), *seed = NULL;
    bool options_first = lua_istable(L, 2);
    if (!options_first) seed = lsr_opttensor(L, 2);
    sr_backward pass = {.retain = retain_option(L, options_first ? 2 : 3), .host = L};
    return lsr_nothing(L, sr_grad_backward(1, &root, &seed, &pass));
}

/* backward(roots: Tensor[], gradients: Tensor[], options?: { retain?: boolean })
 * Backpropagates from several tensors at once. */
static int backward(lua_State *L) {
    int64_t roots, seeds;
    lua_settop(L, 3);
    sr_tensor **root = lsr_checktensors(L, 1, &roots), **seed = lsr_checktensors(L, 2, &seeds);
    if (roots != seeds)
        return lsr_error(L, "backward: %I tensors but %I gradients", (lua_Integer)roots,
                         (lua_Integer)seeds);
    sr_backward pass = {.retain = retain_option(L, 3), .host = L};
    return lsr_nothing(L, sr_grad_backward((int)roots, root, seed, &pass));
}

/* ---- rules in Lua ---------------------------------------------------------------------------- */

/* A Lua function kept by the registry while its node lives. */
typedef struct closure {
    lua_State *main;
    int ref;
} closure;

static void free_closure(void *p) {
    closure *c = p;
    luaL_unref(c->main, LUA_REGISTRYINDEX, c->ref);
    sr_free(c);
}

typedef struct call {
    sr_node *node;
    sr_tensor **dx;
} call;

/* Takes result number i of the function, at stack index `at`, as dx[i]. */
static void take_gradient(lua_State *L, call *c, int i, int at) {
    if (lua_isnil(L, at) || !sr_node_wants(c->node, i)) return;
    sr_tensor *g = lsr_totensor(L, at);
    const sr_edge *e = &c->node->edge[i];
    bool fits = g != NULL && g->ndim == e->ndim && sr_dtype_is_real(g->dtype) &&
                g->storage->device == c->node->device &&
                memcmp(g->shape, e->shape, (size_t)e->ndim * sizeof *e->shape) == 0;
    if (!fits)
        lsr_error(L, "%s: gradient %d must be real and have the shape and device of input %d",
                  c->node->rule->name, i + 1, i + 1);
    c->dx[i] = sr_tensor_retain(g);
}

/* Runs under pcall: pushing and checking may raise, with C frames below. */
static int call_back(lua_State *L) {
    call *c = lua_touserdata(L, 1);
    closure *f = c->node->closure;
    luaL_checkstack(L, c->node->outputs + c->node->inputs + 4, "backward");
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->ref);
    for (int k = 0; k < c->node->outputs; k++) {
        if (c->node->dy[k] == NULL)
            lua_pushnil(L);
        else
            lsr_pushtensor(L, sr_tensor_retain(c->node->dy[k]));
    }
    lua_call(L, c->node->outputs, c->node->inputs);
    for (int i = 0; i < c->node->inputs; i++) take_gradient(L, c, i, i + 2);
    return 0;
}

static sr_status lua_back(sr_node *node, sr_tensor **dx) {
    lua_State *L = node->pass->host;
    if (L == NULL || !lua_checkstack(L, 4))
        return sr_fail(SR_EINTERNAL, "%s: backward was not called from Lua", node->rule->name);
    call c = {node, dx};
    lua_pushcfunction(L, call_back);
    lua_pushlightuserdata(L, &c);
    if (lua_pcall(L, 1, 0, 0) == LUA_OK) return SR_OK;
    const char *message = lua_tostring(L, -1);
    sr_status st = sr_fail(SR_EINVAL, "%s", message != NULL ? message : "an error in backward");
    lua_pop(L, 1);
    return st;
}
static const sr_rule custom_rule = {"a custom op", lua_back};
static const sr_rule recompute_rule = {"recompute", lua_back};

/* A node whose backward is a Lua function, set later. */
static sr_status new_node(lua_State *L, sr_node **out, const sr_rule *rule, sr_device *device,
                          sr_tensor **input, int inputs) {
    closure *c = NULL;
    SR_TRY(sr_new(&c, 1));
    sr_status st = sr_node_new(out, rule, device, inputs, input);
    if (st != SR_OK) {
        sr_free(c);
        return st;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    c->main = lua_tothread(L, -1);
    lua_pop(L, 1);
    c->ref = LUA_NOREF;
    (*out)->closure = c;
    (*out)->free_closure = free_closure;
    return SR_OK;
}

/* Pushes a list of the outputs as new tensors without history; also puts them in `made`.
 */
static void push_outputs(lua_State *L, sr_tensor **made, sr_tensor **y, int count) {
    lua_createtable(L, count, 0);
    for (int k = 0; k < count; k++) {
        sr_tensor **box = lsr_newtensor(L);
        lsr_check(L, sr_tensor_alias(box, y[k]));
        made[k] = *box;
        lua_rawseti(L, -2, k + 1);
    }
}

/* record(outputs: Tensor[], inputs: Tensor[], backward: fun(...: Tensor): Tensor?, force?:
 *     boolean) -> Tensor[]
 * The outputs with a history: backward(dy, ...) gives a gradient, or nil, for each input.
 *   backward  ... */
static int record(lua_State *L) {
    int64_t outputs, inputs;
    lua_settop(L, 4);
    bool force = lua_toboolean(L, 4);
    luaL_checktype(L, 3, LUA_TFUNCTION);
    sr_tensor **y = lsr_checktensors(L, 1, &outputs), **x = lsr_checktensors(L, 2, &inputs);
    if (outputs < 1 || outputs > SR_NODE_OUTPUTS)
        return lsr_error(L, "record: the op returned %I tensors; expected 1 to %d",
                         (lua_Integer)outputs, SR_NODE_OUTPUTS);
    for (int64_t k = 0; k < outputs; k++) lsr_check(L, sr_tensor_check("record", y[k]));
    for (int64_t i = 0; i < inputs; i++)
        if (sr_grad_tracks(x[i]) && x[i]->storage->device != y[0]->storage->device)
            return lsr_error(
                L, "record: input %I is on %s, the result on %s; move it with to() first",
                (lua_Integer)i + 1, x[i]->storage->device->name, y[0]->storage->device->name);
    sr_tensor *made[SR_NODE_OUTPUTS];
    push_outputs(L, made, y, (int)outputs);
    if (!sr_grad_recording() || !(force || sr_grad_wanted((int)inputs, x))) return 1;

    sr_node *node = NULL;
    lsr_check(L, new_node(L, &node, force ? &recompute_rule : &custom_rule, y[0]->storage->device,
                          x, (int)inputs));
    for (int k = 0; k < (int)outputs; k++) /* from here on the outputs hold the node */
        if (sr_dtype_is_real(made[k]->dtype)) sr_node_attach(node, made[k], k);
    bool attached = node->refs > 1;
    sr_node_release(node);
    if (attached) {
        lua_pushvalue(L, 3);
        ((closure *)node->closure)->ref = luaL_ref(L, LUA_REGISTRYINDEX);
    }
    return 1;
}

static const luaL_Reg methods[] = {{"backward", tensor_backward}, {NULL, NULL}};
static const luaL_Reg functions[] = {{"backward", backward}, {"record", record}, {NULL, NULL}};

void lsr_open_grad(lua_State *L) {
    lsr_tensor_methods(L, methods);
    luaL_setfuncs(L, functions, 0);
}

/* lfunction.c - functions on tensors that plug-ins added; part of seqrun.core.ops. */
#include "core/tensor/function.h"
#include "lua/bind/ltensor.h"

/* call(name: string, outputs: Tensor[], inputs: Tensor[], numbers?: number[])
 * Runs a function that a plug-in added; it writes the outputs. */
static int call(lua_State *L) {
    int64_t outputs, inputs;
    double number[SR_FUNCTION_TENSORS];
    const char *name = luaL_checkstring(L, 1);
    lua_settop(L, 4);
    if (lua_isnil(L, 4)) {
        lua_newtable(L);
        lua_replace(L, 4);
    }
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_Unsigned numbers = lua_rawlen(L, 4);
    sr_tensor **y = lsr_checktensors(L, 2, &outputs), **x = lsr_checktensors(L, 3, &inputs);
    if (outputs < 1 || outputs > SR_FUNCTION_TENSORS || inputs > SR_FUNCTION_TENSORS ||
        numbers > SR_FUNCTION_TENSORS)
        return lsr_error(L, "call: expected 1 to %d outputs and at most %d inputs and numbers",
                         SR_FUNCTION_TENSORS, SR_FUNCTION_TENSORS);
    for (lua_Unsigned i = 0; i < numbers; i++) {
        lua_rawgeti(L, 4, (lua_Integer)i + 1);
        number[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    return lsr_nothing(
        L, sr_function_call(name, y, (int)outputs, x, (int)inputs, number, (int)numbers));
}

void lsr_open_functions(lua_State *L) {
    lua_pushcfunction(L, call);
    lua_setfield(L, -2, "call");
}

/* lvalues.c - values from Lua to tensors and back; part of seqrun.core.tensor. */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/ops.h"
#include "lua/bind/ltensor.h"

static sr_dtype opt_dtype(lua_State *L, int arg, sr_dtype otherwise) {
    return lua_isnoneornil(L, arg) ? otherwise : lsr_checkdtype(L, arg);
}

/* empty(sizes: integer[], dtype?: string, device?: string) -> Tensor
 * An uninitialised tensor. */
static int empty(lua_State *L) {
    int64_t shape[SR_MAX_DIMS];
    luaL_checktype(L, 1, LUA_TTABLE);
    int ndim = lsr_checksizes(L, 1, shape);
    sr_device *device = lsr_optdevice(L, 3);
    sr_dtype dtype = opt_dtype(L, 2, device->real);
    sr_tensor **out = lsr_newtensor(L);
    return lsr_made(L, sr_tensor_new(out, device, dtype, ndim, shape));
}

/* full(sizes: integer[], value: number|boolean, dtype?: string, device?: string) -> Tensor
 * A tensor of one value. */
static int full(lua_State *L) {
    int64_t shape[SR_MAX_DIMS];
    luaL_checktype(L, 1, LUA_TTABLE);
    int ndim = lsr_checksizes(L, 1, shape);
    double value = lua_isboolean(L, 2) ? lua_toboolean(L, 2) : luaL_checknumber(L, 2);
    sr_device *device = lsr_optdevice(L, 4);
    sr_dtype dtype = opt_dtype(L, 3, device->real);
    lsr_checkfits(L, dtype, value, "full: the value");
    sr_tensor **out = lsr_newtensor(L);
    return lsr_made(L, sr_tensor_full(out, device, dtype, ndim, shape, value));
}

/* ---- nested tables --------------------------------------------------------------------------- */

/* The shape implied by the first elements of the table at `arg`. */
static int shape_of_table(lua_State *L, int arg, int64_t shape[SR_MAX_DIMS]) {
    int ndim = 0, top = lua_gettop(L);
    lua_pushvalue(L, arg);
    while (lua_istable(L, -1)) {
        if (ndim == SR_MAX_DIMS) lsr_argerror(L, arg, "nested deeper than 6 dimensions");
        shape[ndim++] = luaL_len(L, -1);
        lua_geti(L, -1, 1);
    }
    if (lua_isnil(L, -1) && (ndim == 0 || shape[ndim - 1] > 0))
        lsr_argerror(L, arg, "expected a number or nested lists of numbers");
    lua_settop(L, top);
    return ndim;
}

typedef struct reading {
    const int64_t *shape;
    int ndim;
    double *next;
    bool truth; /* only booleans so far */
} reading;

static void read_element(lua_State *L, reading *r) {
    if (lua_isboolean(L, -1)) {
        *r->next++ = lua_toboolean(L, -1);
    } else if (lua_type(L, -1) == LUA_TNUMBER) {
        *r->next++ = lua_tonumber(L, -1);
        r->truth = false;
    } else {
        lsr_error(L, "tensor: elements must be numbers, got %s", luaL_typename(L, -1));
    }
}

/* Reads the table on top of the stack, at `depth`. */
static void read_level(lua_State *L, reading *r, int depth) {
    if (depth == r->ndim) {
        read_element(L, r);
        return;
    }
    if (!lua_istable(L, -1) || luaL_len(L, -1) != r->shape[depth])
        lsr_error(L, "tensor: lists of dimension %d differ in length; the first has %I", depth + 1,
                  (lua_Integer)r->shape[depth]);
    luaL_checkstack(L, 2, "nested too deeply");
    for (int64_t i = 1; i <= r->shape[depth]; i++) {
        lua_geti(L, -1, i);
        read_level(L, r, depth + 1);
        lua_pop(L, 1);
    }
}

/* Raises unless all numbers can be elements of i32, with the place of the first one that cannot:
 * "tensor: element [2][1]". */
static void check_whole(lua_State *L, const reading *r, const double *host, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (lsr_is_i32(host[i])) continue;
        lua_pushliteral(L, "");
        size_t rest = i;
        for (int dim = r->ndim - 1; dim >= 0; dim--) {
            lua_pushfstring(L, "[%I]%s", (lua_Integer)(rest % (size_t)r->shape[dim]) + 1,
                            lua_tostring(L, -1));
            lua_replace(L, -2);
            rest /= (size_t)r->shape[dim];
        }
        const char *place = lua_tostring(L, -1);
        lsr_checkfits(L, SR_I32, host[i],
                      r->ndim > 0 ? lua_pushfstring(L, "tensor: element %s", place)
                                  : "tensor: the value");
    }
}

/* from_table(values: number|boolean|table, dtype?: string, device?: string) -> Tensor
 * A tensor of a number or nested lists. */
static int from_table(lua_State *L) {
    int64_t shape[SR_MAX_DIMS];
    luaL_checkany(L, 1);
    lua_settop(L, 3);
    sr_device *device = lsr_optdevice(L, 3);
    int ndim = shape_of_table(L, 1, shape);
    size_t n = 1, bytes;
    for (int i = 0; i < ndim; i++) lsr_check(L, sr_mul_size(&n, n, (size_t)shape[i]));
    lsr_check(L, sr_mul_size(&bytes, n, sizeof(double)));
    double *host = lua_newuserdatauv(L, bytes > 0 ? bytes : 1, 0);
    reading r = {shape, ndim, host, n > 0};
    lua_pushvalue(L, 1);
    read_level(L, &r, 0);
    sr_dtype dtype = opt_dtype(L, 2, r.truth ? SR_BOOL : device->real);
    if (dtype == SR_I32) check_whole(L, &r, host, n);
    sr_tensor **out = lsr_newtensor(L);
    lsr_check(L, sr_tensor_new(out, device, dtype, ndim, shape));
    return lsr_made(L, sr_tensor_write(*out, host, SR_F64));
}

/* from_string(bytes: string, sizes: integer[], dtype: string, device?: string) -> Tensor
 * A tensor from bytes, little-endian. */
static int from_string(lua_State *L) {
    int64_t shape[SR_MAX_DIMS];
    size_t given, wanted;
    const char *bytes = luaL_checklstring(L, 1, &given);
    luaL_checktype(L, 2, LUA_TTABLE);
    int ndim = lsr_checksizes(L, 2, shape);
    sr_dtype dtype = lsr_checkdtype(L, 3);
    sr_device *device = lsr_optdevice(L, 4);
    sr_tensor **out = lsr_newtensor(L);
    lsr_check(L, sr_tensor_new(out, device, dtype, ndim, shape));
    wanted = (*out)->storage->bytes;
    if (given != wanted)
        return lsr_error(L, "from_string: got %I bytes; the tensor needs %I", (lua_Integer)given,
                         (lua_Integer)wanted);
    return lsr_made(L, sr_tensor_write(*out, bytes, dtype));
}

/* ---- back to Lua ----------------------------------------------------------------------------- */

/* All elements of the tensor at `arg` as `dtype`, in a userdata left on the stack. */
static void *read_all(lua_State *L, int arg, sr_dtype dtype) {
    sr_tensor *t = lsr_checktensor(L, arg);
    sr_tensor **flat = lsr_newtensor(L);
    lsr_check(L, sr_op_contiguous(flat, t));
    size_t bytes = (size_t)sr_tensor_elements(t) * sr_dtype_size(dtype);
    void *host = lua_newuserdatauv(L, bytes > 0 ? bytes : 1, 0);
    lsr_check(L, sr_tensor_read(*flat, host, dtype));
    return host;
}

static void push_element(lua_State *L, sr_dtype dtype, double x) {
    if (dtype == SR_BOOL)
        lua_pushboolean(L, x != 0);
    else if (dtype == SR_I32)
        lua_pushinteger(L, (lua_Integer)x);
    else
        lua_pushnumber(L, x);
}

/* Pushes the elements from *at on, nested from `depth`. */
static void push_level(lua_State *L, const sr_tensor *t, const double **at, int depth) {
    if (depth == t->ndim) {
        push_element(L, t->dtype, *(*at)++);
        return;
    }
    luaL_checkstack(L, 3, "nested too deeply");
    lua_createtable(L, (int)t->shape[depth], 0);
    for (int64_t i = 1; i <= t->shape[depth]; i++) {
        push_level(L, t, at, depth + 1);
        lua_rawseti(L, -2, i);
    }
}

/* tensor:totable() -> table|number|boolean
 * The elements as nested lists. */
static int totable(lua_State *L) {
    const double *host = read_all(L, 1, SR_F64);
    push_level(L, lsr_checktensor(L, 1), &host, 0);
    return 1;
}

/* tensor:item() -> number|integer|boolean
 * The value of a tensor of one element. */
static int item(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    char text[160];
    if (sr_tensor_elements(t) != 1)
        return lsr_error(L, "item: %s is not a single number; use totable()",
                         sr_tensor_describe(t, text, sizeof text));
    const double *host = read_all(L, 1, SR_F64);
    push_element(L, t->dtype, host[0]);
    return 1;
}

/* tensor:tostring_bytes() -> string
 * The elements as bytes, little-endian. */
static int tostring_bytes(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    size_t bytes = (size_t)sr_tensor_elements(t) * sr_dtype_size(t->dtype);
    const char *host = read_all(L, 1, t->dtype);
    return lsr_give_bytes(L, host, bytes);
}

/* summary(t: Tensor) -> { mean?: number, deviation?: number, min?: number, max?: number, nan:
 *     integer, inf: integer }
 * Statistics of the finite elements, and the counts of the others. */
static int summary(lua_State *L) {
    int64_t n = sr_tensor_elements(lsr_checktensor(L, 1)), nan = 0, inf = 0, finite = 0;
    const double *x = read_all(L, 1, SR_F64);
    double mean = 0, squares = 0, least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            if (isnan(x[i]))
                nan++;
            else
                inf++;
            continue;
        }
        double away = x[i] - mean;
        mean += away / (double)++finite;
        squares += away * (x[i] - mean);
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    lua_createtable(L, 0, 6);
    lsr_set_integer(L, "nan", nan);
    lsr_set_integer(L, "inf", inf);
    if (finite == 0) return 1;
    lsr_set_number(L, "mean", mean);
    lsr_set_number(L, "deviation", sqrt(squares / (double)finite));
    lsr_set_number(L, "min", least);
    lsr_set_number(L, "max", most);
    return 1;
}

static const luaL_Reg functions[] = {
    {"empty", empty},     {"full", full}, {"from_table", from_table}, {"from_string", from_string},
    {"summary", summary}, {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"totable", totable},
    {"item", item},
    {"tostring_bytes", tostring_bytes},
    {NULL, NULL},
};

void lsr_open_values(lua_State *L) {
    luaL_setfuncs(L, functions, 0);
    lsr_tensor_methods(L, methods);
}

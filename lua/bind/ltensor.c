/* ltensor.c - seqrun.core.tensor: the handle of a tensor, and its properties. */
#include "lua/bind/ltensor.h"

#include <string.h>

#include "core/tensor/grad.h"
#include "core/tensor/ops.h"
#include "core/tensor/scope.h"

/* ---- boxes ----------------------------------------------------------------------------------- */

sr_tensor *lsr_totensor(lua_State *L, int arg) {
    sr_tensor **box = luaL_testudata(L, arg, LSR_TENSOR);
    return box != NULL ? *box : NULL;
}

sr_tensor *lsr_checktensor(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_TENSOR, "the tensor was released");
}

sr_tensor *lsr_opttensor(lua_State *L, int arg) {
    return lua_isnoneornil(L, arg) ? NULL : lsr_checktensor(L, arg);
}

/* The collector sees boxes of a few bytes, not the memory they hold.  Outside scopes it alone frees
 * tensors: a collection runs when more memory was allocated since the last one than is in use (and
 * 16 MiB).  Inside a scope, where dead tensors would wait for its end, a collection runs for every
 * 256 MiB, or a quarter of what is in use. */
static bool is_pressed(const sr_device *device) {
    size_t used = device->bytes_used, outside = (size_t)16 << 20, scoped = (size_t)256 << 20;
    if (used > outside) outside = used;
    if (used / 4 > scoped) scoped = used / 4;
    return device->bytes_made >= outside || device->bytes_scoped >= scoped;
}

static void press_collector(lua_State *L) {
    bool pressed = false;
    sr_device *const *devices = lsr_devices(L);
    for (int i = 0; i < LSR_DEVICES; i++) {
        if (devices[i] == NULL || !is_pressed(devices[i])) continue;
        devices[i]->bytes_made = devices[i]->bytes_scoped = 0;
        pressed = true;
    }
    if (pressed) lua_gc(L, LUA_GCCOLLECT);
}

sr_tensor **lsr_newtensor(lua_State *L) {
    press_collector(L);
    return lsr_newbox(L, sizeof(sr_tensor *), LSR_TENSOR);
}

LSR_PUSH(lsr_pushtensor, sr_tensor, lsr_newtensor, sr_tensor_release, "tensors")

/* The dtype of a number beside a tensor: whole numbers stay whole beside whole tensors. */
static sr_dtype number_dtype(lua_State *L, int arg, const sr_tensor *like, sr_dtype real) {
    if (lua_isboolean(L, arg)) return SR_BOOL;
    int whole;
    lua_Integer n = lua_tointegerx(L, arg, &whole);
    if (like == NULL || sr_dtype_is_real(like->dtype)) return real;
    return whole && n >= INT32_MIN && n <= INT32_MAX ? SR_I32 : real;
}

void lsr_checkfits(lua_State *L, sr_dtype dtype, double value, const char *what) {
    if (dtype != SR_I32 || lsr_is_i32(value)) return;
    lsr_error(L,
              "%s is %f, but i32 has whole numbers from -2147483648 to 2147483647; round it with "
              "math.floor, or use another dtype",
              what, value);
}

sr_tensor *lsr_checkoperand(lua_State *L, int arg, const sr_tensor *like) {
    sr_tensor *t = lsr_totensor(L, arg);
    if (t != NULL) return t;
    bool number = lua_type(L, arg) == LUA_TNUMBER, truth = lua_isboolean(L, arg);
    if (!number && !truth) lsr_typeerror(L, arg, "a live tensor or number");
    sr_device *device = like != NULL ? like->storage->device : lsr_device(L);
    double value = truth ? lua_toboolean(L, arg) : lua_tonumber(L, arg);
    sr_dtype dtype = number_dtype(L, arg, like, device->real);
    sr_tensor **box = lsr_newtensor(L);
    lsr_check(L, sr_tensor_scalar(box, device, dtype, value));
    lua_replace(L, arg);
    return *box;
}

/* Raw: a value made by a metamethod could be collected while it is in use. */
sr_tensor **lsr_checktensors(lua_State *L, int arg, int64_t *count) {
    luaL_checktype(L, arg, LUA_TTABLE);
    *count = (int64_t)lua_rawlen(L, arg);
    sr_tensor **list = lsr_scratch(L, *count, sizeof *list);
    for (int64_t i = 0; i < *count; i++) {
        lua_rawgeti(L, arg, i + 1);
        list[i] = lsr_totensor(L, -1);
        if (list[i] == NULL)
            lsr_argerror(L, arg,
                         lua_pushfstring(L, "element %I of the list is a %s; expected live tensors",
                                         (lua_Integer)i + 1, luaL_typename(L, -1)));
        lua_pop(L, 1);
    }
    return list;
}

int lsr_checkdim(lua_State *L, int arg, int ndim) {
    int64_t dim = luaL_checkinteger(L, arg);
    if (dim < -ndim || dim > ndim || dim == 0)
        lsr_argerror(
            L, arg,
            lua_pushfstring(
                L,
                "dimension %I is out of range; the tensor has %d, numbered from 1, -1 is the last",
                (lua_Integer)dim, ndim));
    return (int)(dim < 0 ? dim + ndim : dim - 1);
}

int64_t lsr_position(const sr_tensor *t, int dim, int64_t i) {
    if (i < 0 && i >= -t->shape[dim]) return i + t->shape[dim];
    return i > INT64_MIN ? i - 1 : i; /* out of range, it is reported as it was given */
}

int lsr_optdim(lua_State *L, int arg, int ndim, int otherwise) {
    return lua_isnoneornil(L, arg) ? otherwise : lsr_checkdim(L, arg, ndim);
}

static int sizes_of_table(lua_State *L, int arg, int64_t sizes[SR_MAX_DIMS]) {
    lua_Integer n = luaL_len(L, arg);
    if (n > SR_MAX_DIMS) lsr_argerror(L, arg, "at most 6 dimensions are supported");
    for (int i = 0; i < (int)n; i++) {
        lua_geti(L, arg, i + 1);
        int whole;
        sizes[i] = lua_tointegerx(L, -1, &whole);
        if (!whole) lsr_argerror(L, arg, "sizes must be integers");
        lua_pop(L, 1);
    }
    return (int)n;
}

int lsr_checksizes(lua_State *L, int arg, int64_t sizes[SR_MAX_DIMS]) {
    if (lua_istable(L, arg)) return sizes_of_table(L, arg, sizes);
    int n = lua_gettop(L) - arg + 1;
    if (n < 0) n = 0;
    if (n > SR_MAX_DIMS) lsr_argerror(L, arg, "at most 6 dimensions are supported");
    for (int i = 0; i < n; i++) sizes[i] = luaL_checkinteger(L, arg + i);
    return n;
}

sr_dtype lsr_checkdtype(lua_State *L, int arg) {
    sr_dtype dtype;
    const char *name = luaL_checkstring(L, arg);
    if (!sr_dtype_parse(&dtype, name))
        lsr_argerror(
            L, arg,
            lua_pushfstring(L, "unknown dtype '%s'; use f64, f32, bf16, i32 or bool", name));
    return dtype;
}

/* ---- properties ----------------------------------------------------------------------------- */

/* @class seqrun.Tensor
 * A handle of a tensor: dtype, shape and strides over a storage of a device.
 * @operator add(Tensor|number): Tensor
 * @operator sub(Tensor|number): Tensor
 * @operator mul(Tensor|number): Tensor
 * @operator div(Tensor|number): Tensor
 * @operator pow(Tensor|number): Tensor
 * @operator unm: Tensor */

/* tensor:shape() -> integer[]
 * The sizes as a list. */
static int tensor_shape(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    LSR_PUSH_LIST(L, t->ndim, i, lua_pushinteger(L, t->shape[i]));
    return 1;
}

/* tensor:size(dim?: integer) -> integer ...
 * The size of one dimension, or all sizes. */
static int tensor_size(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    if (!lua_isnoneornil(L, 2)) return lsr_give_integer(L, t->shape[lsr_checkdim(L, 2, t->ndim)]);
    for (int i = 0; i < t->ndim; i++) lua_pushinteger(L, t->shape[i]);
    return t->ndim;
}

/* tensor:dim() -> integer
 * The number of dimensions. */
static int tensor_dim(lua_State *L) {
    return lsr_give_integer(L, lsr_checktensor(L, 1)->ndim);
}

/* tensor:numel() -> integer
 * The number of elements. */
static int tensor_numel(lua_State *L) {
    return lsr_give_integer(L, sr_tensor_elements(lsr_checktensor(L, 1)));
}

/* tensor:dtype() -> string
 * Its dtype: f64, f32, bf16, i32 or bool. */
static int tensor_dtype(lua_State *L) {
    return lsr_give_string(L, sr_dtype_name(lsr_checktensor(L, 1)->dtype));
}

/* tensor:device() -> string
 * Its device. */
static int tensor_device(lua_State *L) {
    return lsr_give_string(L, lsr_checktensor(L, 1)->storage->device->name);
}

/* tensor:is_live() -> boolean
 * False once its scope was closed or it was released. */
static int tensor_is_live(lua_State *L) {
    sr_tensor **box = lsr_checkbox(L, 1, LSR_TENSOR);
    return lsr_give_bool(L, *box != NULL && (*box)->storage->data != NULL);
}

/* tensor:is_contiguous() -> boolean
 * Whether the elements are stored row-major without gaps. */
static int tensor_is_contiguous(lua_State *L) {
    return lsr_give_bool(L, sr_tensor_is_contiguous(lsr_checktensor(L, 1)));
}

/* tensor:version() -> integer
 * A counter that every write to its storage increments. */
static int tensor_version(lua_State *L) {
    return lsr_give_integer(L, (lua_Integer)lsr_checktensor(L, 1)->storage->version);
}

/* tensor:same_storage(other: Tensor) -> boolean
 * Whether both are views of the same storage. */
static int tensor_same_storage(lua_State *L) {
    return lsr_give_bool(L, lsr_checktensor(L, 1)->storage == lsr_checktensor(L, 2)->storage);
}

/* tensor:describe() -> string
 * Such as "(3, 4) f32 on cpu". */
static int tensor_describe(lua_State *L) {
    char text[200];
    sr_tensor **box = lsr_checkbox(L, 1, LSR_TENSOR);
    return lsr_give_string(L,
                           *box != NULL ? sr_tensor_describe(*box, text, sizeof text) : "released");
}

/* ---- lifetime -------------------------------------------------------------------------------- */

/* tensor:keep() -> Tensor
 * Exempts its storage from scopes; returns self. */
static int tensor_keep(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    lsr_check(L, sr_tensor_check("keep", t));
    sr_storage_move(t->storage, t->storage->device->outside);
    return lsr_self(L);
}

/* tensor:hand_up() -> Tensor
 * Moves its storage to the scope around the innermost one; returns self. */
static int tensor_hand_up(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    lsr_check(L, sr_tensor_check("hand_up", t));
    sr_device *device = t->storage->device;
    if (t->storage->scope == device->scope && device->scope->parent != NULL)
        sr_storage_move(t->storage, device->scope->parent);
    return lsr_self(L);
}

/* tensor:release()
 * Releases the tensor at once, without waiting for the collector; twice is allowed. */
LSR_RELEASE(tensor_release, LSR_TENSOR, sr_tensor, sr_tensor_release)

/* ---- gradients ------------------------------------------------------------------------------- */

/* tensor:requires_grad() -> boolean
 * Whether ops on this tensor are recorded. */
static int tensor_requires_grad(lua_State *L) {
    return lsr_give_bool(L, sr_grad_tracks(lsr_checktensor(L, 1)));
}

/* tensor:requires_grad_(on?: boolean) -> Tensor
 * Makes it a leaf that requires a gradient; returns self. */
static int tensor_set_requires_grad(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    bool on = lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
    if (on && !sr_device_computes(t->storage->device, t->dtype))
        return lsr_error(L, "requires_grad_: a tensor of %s; gradients flow through %s on %s",
                         sr_dtype_name(t->dtype), sr_dtype_name(t->storage->device->real),
                         t->storage->device->name);
    if (t->node != NULL)
        return lsr_error(L, "requires_grad_: only leaf tensors can be changed; detach() it first");
    t->requires_grad = on;
    return lsr_self(L);
}

/* tensor:grad() -> Tensor|nil
 * The gradient accumulated at this leaf; that of a bf16 leaf is f32. */
static int tensor_grad(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    if (t->grad == NULL) {
        lua_pushnil(L);
        return 1;
    }
    sr_tensor **box = lsr_newtensor(L);
    *box = sr_tensor_retain(t->grad);
    return 1;
}

/* tensor:set_grad(gradient?: Tensor)
 * Makes a tensor of this shape the accumulator of the gradient; nil drops it. */
static int tensor_set_grad(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1), *g = lsr_opttensor(L, 2);
    return lsr_nothing(L, sr_grad_set(t, g));
}

/* tensor:zero_grad() -> Tensor
 * Sets the gradient to 0; returns self. */
static int tensor_zero_grad(lua_State *L) {
    sr_tensor *t = lsr_checktensor(L, 1);
    if (t->grad != NULL) lsr_check(L, sr_op_fill_in_place(t->grad, 0.0));
    return lsr_self(L);
}

/* ---- module ---------------------------------------------------------------------------------- */

static const luaL_Reg methods[] = {
    {"shape", tensor_shape},
    {"size", tensor_size},
    {"dim", tensor_dim},
    {"numel", tensor_numel},
    {"dtype", tensor_dtype},
    {"device", tensor_device},
    {"is_live", tensor_is_live},
    {"is_contiguous", tensor_is_contiguous},
    {"version", tensor_version},
    {"same_storage", tensor_same_storage},
    {"describe", tensor_describe},
    {"keep", tensor_keep},
    {"hand_up", tensor_hand_up},
    {"release", tensor_release},
    {"requires_grad", tensor_requires_grad},
    {"requires_grad_", tensor_set_requires_grad},
    {"grad", tensor_grad},
    {"set_grad", tensor_set_grad},
    {"zero_grad", tensor_zero_grad},
    {NULL, NULL},
};

/* t[i] is select(1, i); any other key is a method.  Upvalue 1: the methods. */
static int tensor_index(lua_State *L) {
    if (lua_type(L, 2) != LUA_TNUMBER) {
        lua_pushvalue(L, 2);
        lua_gettable(L, lua_upvalueindex(1));
        return 1;
    }
    sr_tensor *t = lsr_checktensor(L, 1);
    int whole;
    int64_t i = lua_tointegerx(L, 2, &whole);
    if (!whole)
        return lsr_error(L, "a tensor's index must be an integer, got %f", lua_tonumber(L, 2));
    if (t->ndim > 0) i = lsr_position(t, 0, i);
    sr_tensor **out = lsr_newtensor(L);
    return lsr_made(L, sr_op_select(out, t, 0, i));
}

/* The metatable, made once per state; leaves the table of methods on the stack. */
static void push_methods(lua_State *L) {
    if (!luaL_newmetatable(L, LSR_TENSOR)) {
        lua_getfield(L, -1, "methods");
        lua_remove(L, -2);
        return;
    }
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods");
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, tensor_index, 1);
    lua_setfield(L, -3, "__index");
    lua_pushcfunction(L, tensor_release);
    lua_setfield(L, -3, "__gc");
    lua_pushcfunction(L, tensor_release);
    lua_setfield(L, -3, "__close");
    lua_remove(L, -2);
}

void lsr_tensor_methods(lua_State *L, const luaL_Reg *more) {
    luaL_getmetatable(L, LSR_TENSOR);
    lua_getfield(L, -1, "methods");
    luaL_setfuncs(L, more, 0);
    lua_pop(L, 2);
}

/* @class seqrun.core.tensor
 * Handles of tensors, their devices and scopes.
 * @field methods table<string, function> of every tensor
 * @field layout_methods table<string, function> of every layout
 * @field metatable table of every tensor */
void lsr_open_tensor(lua_State *L) {
    push_methods(L);
    lua_setfield(L, -2, "methods");
    luaL_getmetatable(L, LSR_TENSOR);
    lua_setfield(L, -2, "metatable");
}

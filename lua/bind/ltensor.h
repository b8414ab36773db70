/* ltensor.h - tensors, layouts and devices as other bindings see them.
 *
 * A Lua tensor is a box that holds one reference on a sr_tensor; its storage belongs to the scope
 * that was open when it was made (core/tensor/scope.h).
 */
#pragma once

#include "core/batch/layout.h"
#include "core/tensor/backend.h"
#include "core/tensor/device.h"
#include "core/tensor/plugin.h"
#include "core/tensor/tensor.h"
#include "lua/bind/lcheck.h"

#define LSR_TENSOR "seqrun.Tensor"
#define LSR_LAYOUT "seqrun.Layout"
#define LSR_SCOPE "seqrun.Scope"

/* The tensor of an argument: raises if it is not a tensor, or was released. */
sr_tensor *lsr_checktensor(lua_State *L, int arg);
sr_tensor *lsr_totensor(lua_State *L, int arg);  /* NULL if it is not a tensor */
sr_tensor *lsr_opttensor(lua_State *L, int arg); /* NULL for nil and none */

/* The tensors of a list, in a userdata left on the stack; the list, which must stay on the stack,
 * keeps them alive. */
sr_tensor **lsr_checktensors(lua_State *L, int arg, int64_t *count);

/* Defines a function that pushes a box for an object, taking over one reference; `make` pushes an
 * empty box, which may run out of memory. */
#define LSR_PUSH(name, type, make, release, plural)                                                \
    static int name##_box(lua_State *L) {                                                          \
        make(L);                                                                                   \
        return 1;                                                                                  \
    }                                                                                              \
    void name(lua_State *L, type *object) {                                                        \
        bool room = lua_checkstack(L, 2);                                                          \
        if (room) lua_pushcfunction(L, name##_box);                                                \
        if (room && lua_pcall(L, 0, 1, 0) == LUA_OK) {                                             \
            *(type **)lua_touserdata(L, -1) = object;                                              \
            return;                                                                                \
        }                                                                                          \
        release(object);                                                                           \
        if (!room) lsr_error(L, "too many " plural " on the stack");                               \
        lua_error(L);                                                                              \
    }

/* Pushes an empty box; whoever fills it gives it one reference.  May run the collector. */
sr_tensor **lsr_newtensor(lua_State *L);
/* Pushes a box for `t`, taking over one reference (released if out of memory). */
void lsr_pushtensor(lua_State *L, sr_tensor *t);

/* As lsr_checktensor; a number or boolean becomes a scalar that fits beside `like` (NULL: the
 * current device's compute dtype), in a box that replaces the argument. */
sr_tensor *lsr_checkoperand(lua_State *L, int arg, const sr_tensor *like);

/* Whether a number is an i32. */
static inline bool lsr_is_i32(double x) {
    return x >= INT32_MIN && x <= INT32_MAX && x == (int32_t)x;
}

/* Raises unless a number can be an element of a tensor: i32 has whole numbers of its range.  `what`
 * is the op and the element, as "full: the value". */
void lsr_checkfits(lua_State *L, sr_dtype dtype, double value, const char *what);

sr_layout *lsr_checklayout(lua_State *L, int arg);
/* Takes over one reference. */
void lsr_pushlayout(lua_State *L, sr_layout *layout);

enum { LSR_DEVICES = 32 };
/* The devices of a state in the order of their first use, NULL where there are no more or one is
 * not open. */
sr_device *const *lsr_devices(lua_State *L);

/* The current device, opened on first use; never NULL (raises if it cannot be opened). */
sr_device *lsr_device(lua_State *L);
/* The device of this name, such as "cuda:1", opened on first use; raises if it is not available. */
sr_device *lsr_device_named(lua_State *L, const char *name);
/* The device that an argument names, the current one for nil and none. */
sr_device *lsr_optdevice(lua_State *L, int arg);
/* Whether there are devices of this kind, usable or not. */
bool lsr_has_device(const char *name);

/* A dimension argument, 1..ndim or -ndim..-1, as 0..ndim-1; `otherwise` for nil and none. */
int lsr_checkdim(lua_State *L, int arg, int ndim);

/* A position of a dimension, from 1 or from -1 down, counted from 0. */
int64_t lsr_position(const sr_tensor *t, int dim, int64_t i);
int lsr_optdim(lua_State *L, int arg, int ndim, int otherwise);

/* Adds methods to the class of tensors. */
void lsr_tensor_methods(lua_State *L, const luaL_Reg *methods);

/* Integers from one table argument, or from the arguments `arg` to the top; returns how many. */
int lsr_checksizes(lua_State *L, int arg, int64_t sizes[SR_MAX_DIMS]);
sr_dtype lsr_checkdtype(lua_State *L, int arg);

/* ldevice.c - devices, scopes and whether ops are recorded; part of seqrun.core.tensor. */
#include <string.h>

#include "core/tensor/grad.h"
#include "core/tensor/plugin.h"
#include "core/tensor/scope.h"
#include "kernels/cpu/cpu.h"
#include "lua/bind/ldevicefind.h"
#include "lua/bind/ltensor.h"

/* The devices of a Lua state in the order of their first use.  Made before any tensor, so that the
 * collector frees it last. */
typedef struct devices {
    sr_device *open[LSR_DEVICES];
    sr_threads *threads[LSR_DEVICES];
    struct {
        int backend, number;
    } id[LSR_DEVICES];
    int count, current;
} devices;

static const char devices_key;

static int devices_gc(lua_State *L) {
    devices *all = lua_touserdata(L, 1);
    for (int i = 0; i < all->count; i++) {
        sr_device_close(all->open[i]);
        sr_threads_free(all->threads[i]);
        all->open[i] = NULL;
        all->threads[i] = NULL;
    }
    return 0;
}

static devices *registry(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &devices_key);
    devices *all = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (all != NULL) return all;
    all = lua_newuserdatauv(L, sizeof *all, 0);
    memset(all, 0, sizeof *all);
    all->id[0].backend = sr_backend_index("cpu");
    all->count = 1;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, devices_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &devices_key);
    return all;
}

/* The reference runs on the caller's thread; the others get threads. */
static sr_device *open_device(lua_State *L, devices *all, int i) {
    if (all->open[i] != NULL) return all->open[i];
    const sr_backend *backend = sr_backend_at(all->id[i].backend);
    if (all->threads[i] == NULL && backend != &sr_backend_ref)
        lsr_check(L, sr_threads_new(&all->threads[i], 0));
    lsr_check(L, sr_device_open(&all->open[i], backend, all->id[i].number, all->threads[i]));
    return all->open[i];
}

sr_device *const *lsr_devices(lua_State *L) {
    return registry(L)->open;
}

sr_device *lsr_device(lua_State *L) {
    devices *all = registry(L);
    return open_device(L, all, all->current);
}

/* ---- functions of the module ----------------------------------------------------------------- */

/* The place of a device among those of the state; raises if it is not available. */
static int place_of(lua_State *L, devices *all, const char *name) {
    int backend, number;
    lsr_check(L, lsr_device_find(L, &backend, &number, name));
    for (int i = 0; i < all->count; i++)
        if (all->id[i].backend == backend && all->id[i].number == number) return i;
    if (all->count == LSR_DEVICES)
        return lsr_error(L, "too many devices in use; the maximum is %d", LSR_DEVICES);
    all->id[all->count].backend = backend;
    all->id[all->count].number = number;
    return all->count++;
}

sr_device *lsr_device_named(lua_State *L, const char *name) {
    devices *all = registry(L);
    return open_device(L, all, place_of(L, all, name));
}

/* use(name: string, threads?: integer)
 * Makes a device the current one. */
static int use(lua_State *L) {
    devices *all = registry(L);
    int i = place_of(L, all, luaL_checkstring(L, 1));
    if (!lua_isnoneornil(L, 2)) {
        int threads = (int)lsr_checkrange(L, 2, 1, 1024);
        if (all->threads[i] == NULL || sr_threads_count(all->threads[i]) != threads) {
            sr_threads *created = NULL;
            lsr_check(L, sr_threads_new(&created, threads));
            if (all->open[i] != NULL) all->open[i]->threads = created;
            sr_threads_free(all->threads[i]);
            all->threads[i] = created;
        }
    }
    open_device(L, all, i);
    all->current = i;
    return 0;
}

/* device() -> string
 * The current device. */
static int current(lua_State *L) {
    return lsr_give_string(L, lsr_device(L)->name);
}

sr_device *lsr_optdevice(lua_State *L, int arg) {
    return lua_isnoneornil(L, arg) ? lsr_device(L) : lsr_device_named(L, luaL_checkstring(L, arg));
}

/* element_size(device?: string) -> integer
 * Bytes of an element in the dtype that the device computes in: of f64 on ref, of f32 on the
 * others. */
static int element_size(lua_State *L) {
    return lsr_give_integer(L, (lua_Integer)sr_dtype_size(lsr_optdevice(L, 1)->real));
}

/* layout_bytes(rows: integer, columns: integer) -> integer
 * Bytes that the current device keeps, besides the values, of a bf16 weight that products read
 * forward and backward. */
static int layout_bytes(lua_State *L) {
    lua_Integer rows = luaL_checkinteger(L, 1), columns = luaL_checkinteger(L, 2);
    const sr_device *device = lsr_device(L);
    bool cpu = device->backend == &sr_backend_cpu;
    return lsr_give_integer(L, cpu ? sr_cpu_weight_bytes(device->state, rows, columns) : 0);
}

/* memory(device?: string) -> { used: integer, held: integer, peak: integer, allocations: integer }
 * Bytes in live tensors (used), with the pool (held), and at the peak; blocks allocated from the
 * system. */
static int memory(lua_State *L) {
    const sr_device *device = lsr_optdevice(L, 1);
    lua_createtable(L, 0, 4);
    lsr_set_integer(L, "used", (int64_t)device->bytes_used);
    lsr_set_integer(L, "held", (int64_t)device->bytes_held);
    lsr_set_integer(L, "peak", (int64_t)device->bytes_peak);
    lsr_set_integer(L, "allocations", device->allocations);
    return 1;
}

/* trim(device?: string)
 * Returns the pool's free blocks to the system. */
static int trim(lua_State *L) {
    sr_device_trim(lsr_optdevice(L, 1));
    return 0;
}

/* poison(on: boolean, device?: string)
 * For tests: new tensors are full of NaN. */
static int poison(lua_State *L) {
    lsr_optdevice(L, 2)->poison = lua_toboolean(L, 1);
    return 0;
}

/* threads(device?: string) -> integer
 * The number of threads of the device. */
static int threads(lua_State *L) {
    sr_threads *threads = lsr_optdevice(L, 1)->threads;
    return lsr_give_integer(L, threads != NULL ? sr_threads_count(threads) : 1);
}

/* synchronize(device?: string)
 * Waits until all work given to the device is done.  Raises the first error since the last wait,
 * such as an index out of range.
 *   device  default: the current device */
static int synchronize(lua_State *L) {
    return lsr_nothing(L, sr_device_wait(lsr_optdevice(L, 1)));
}

/* transfers(device?: string) -> { waits: integer, uploads: integer }
 * How often the host waited for the device so far (to read from it, or by `synchronize`), and sent
 * memory to it. */
static int transfers(lua_State *L) {
    const sr_device *device = lsr_optdevice(L, 1);
    lua_createtable(L, 0, 2);
    lsr_set_integer(L, "waits", device->waits);
    lsr_set_integer(L, "uploads", device->uploads);
    return 1;
}

/* option(name: "tf32", on: boolean) -> true | nil, message, code
 * Turns an option of the current device on or off. */
static int option(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    sr_device *device = lsr_device(L);
    if (device->backend->option == NULL)
        return lsr_result(L, sr_fail(SR_EDEVICE, "%s has no option '%s'", device->name, name));
    return lsr_done(L, device->backend->option(device, name, lua_toboolean(L, 2)));
}

/* plugin(path: string) -> string[] devices | nil, message, code
 * Loads a plug-in, a shared library that adds devices or engines of ranks; loading it again does
 * nothing.
 *   devices  that it added */
static int plugin(lua_State *L) {
    int before = sr_backend_count();
    LSR_TRY(L, sr_plugin_load(luaL_checkstring(L, 1)));
    LSR_PUSH_LIST(L, sr_backend_count() - before, i,
                  lua_pushstring(L, sr_backend_at(before + (int)i)->name));
    return 1;
}

/* comms() -> string[]
 * The engines of ranks: "self", a world of one, then those of plug-ins. */
static int comms(lua_State *L) {
    LSR_PUSH_LIST(L, sr_comm_count(), i, lua_pushstring(L, sr_comm_at(i)->name));
    return 1;
}

/* The cpu device if it is open. */
static sr_device *open_cpu(lua_State *L) {
    devices *all = registry(L);
    for (int i = 0; i < all->count; i++)
        if (all->open[i] != NULL && all->open[i]->backend == &sr_backend_cpu) return all->open[i];
    return NULL;
}

/* instructions(set?: string) -> "plain"|"avx2"|"avx512"|"avx512_bf16"|"amx" | nil, message, code
 * The instruction set of the cpu device; results are bit-exact within one.
 *   set      makes the device use this one from now on, if the processor and SEQRUN_ISA allow it
 *   message  why each higher one is not used; or why `set` cannot be */
static int instructions(lua_State *L) {
    if (!lua_isnoneornil(L, 1)) {
        LSR_TRY(L, sr_cpu_use(lsr_device_named(L, "cpu"), luaL_checkstring(L, 1)));
    }
    const sr_device *device = open_cpu(L);
    const sr_simd *used = device != NULL ? ((sr_cpu_state *)device->state)->simd : sr_cpu_simd();
    lua_pushstring(L, used->name);
    char reason[SR_REASON];
    sr_cpu_isa_reason(reason, used);
    if (reason[0] == '\0') return 1;
    lua_pushstring(L, reason);
    return 2;
}

/* burst(rounds: integer, dtype?: "f32"|"bf16") -> number flops | nil, message, code
 * Multiply-adds in registers on all threads of the current device, which must be cpu; to be timed.
 *   rounds  12 vectors each
 *   flops   0 if the instruction set has no such probe */
static int burst(lua_State *L) {
    static const char *const names[] = {"f32", "bf16", NULL};
    lua_Integer rounds = luaL_checkinteger(L, 1);
    int bf16 = lsr_checkoption(L, 2, "burst", "f32", names);
    const sr_device *device = lsr_device(L);
    double flops;
    luaL_argcheck(L, rounds > 0, 1, "must be positive");
    if (device->backend != &sr_backend_cpu)
        return lsr_result(
            L, sr_fail(SR_EDEVICE, "burst: the current device is %s, not cpu", device->name));
    lsr_check(L, sr_cpu_burst(device, rounds, bf16 == 1, &flops));
    return lsr_give_number(L, flops);
}

/* Pushes a list of lists of seconds, of the jobs at 1; `whole` is the time of a job with that of the
 * recording. */
static int push_jobs(lua_State *L) {
    const sr_cpu_jobs *jobs = lua_touserdata(L, 1);
    lua_createtable(L, (int)jobs->job_count, 0);
    for (int64_t j = 0, t = 0; j < jobs->job_count; j++) {
        LSR_PUSH_LIST(L, jobs->ends[j] - t, i, lua_pushnumber(L, jobs->tasks[t + i]));
        t = jobs->ends[j];
        lua_pushnumber(L, jobs->whole[j]);
        lua_setfield(L, -2, "whole");
        lua_rawseti(L, -2, j + 1);
    }
    return 1;
}

/* jobs(fn: fun()) -> number[][] seconds | nil, message, code
 * Calls fn; the processor time of each task of each job that the current device, cpu with one
 * thread, ran meanwhile. `whole` of a job is its time together with that of the recording. */
static int jobs(lua_State *L) {
    const sr_device *device = lsr_device(L);
    sr_cpu_jobs record = {0};
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (device->backend != &sr_backend_cpu)
        return lsr_result(
            L, sr_fail(SR_EDEVICE, "jobs: the current device is %s, not cpu", device->name));
    LSR_TRY(L, sr_cpu_record_jobs(device, &record));
    lua_settop(L, 1);
    int failed = lua_pcall(L, 0, 0, 0);
    (void)sr_cpu_record_jobs(device, NULL);
    if (!failed) {
        lua_pushcfunction(L, push_jobs);
        lua_pushlightuserdata(L, &record);
        failed = lua_pcall(L, 1, 1, 0);
    }
    sr_cpu_jobs_clear(&record);
    return failed ? lua_error(L) : 1;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

/* scope(device?: string) -> Scope
 * Opens a scope inside the innermost one. */
static int scope_open(lua_State *L) {
    sr_device *device = lsr_optdevice(L, 1);
    sr_scope **box = lsr_newbox(L, sizeof *box, LSR_SCOPE);
    return lsr_made(L, sr_scope_open(box, device));
}

/* @class seqrun.Scope
 * Owns the tensors that are made while it is the innermost one. */

/* scope:close()
 * Expires its tensors and frees their memory; closing twice is harmless. */
static int scope_close(lua_State *L) {
    sr_scope **box = lsr_checkbox(L, 1, LSR_SCOPE);
    if (*box != NULL) sr_scope_close(*box);
    return 0;
}

/* A scope that was never closed passes its storages to the enclosing one. */
LSR_RELEASE(scope_gc, LSR_SCOPE, sr_scope, sr_scope_free)

static const luaL_Reg scope_methods[] = {
    {"close", scope_close}, {"__close", scope_close}, {NULL, NULL}};

/* ---- recording ------------------------------------------------------------------------------- */

/* recording() -> boolean
 * Whether ops are recorded. */
static int recording(lua_State *L) {
    return lsr_give_bool(L, sr_grad_recording());
}

/* set_recording(on: boolean) -> boolean before
 * Turns recording on or off; returns the previous state. */
static int set_recording(lua_State *L) {
    luaL_checktype(L, 1, LUA_TBOOLEAN);
    return lsr_give_bool(L, sr_grad_set_recording(lua_toboolean(L, 1)));
}

/* describe(name: string) -> { model?: string, arch?: string, driver?: string, runtime?: string,
 *     memory?: integer, free?: integer, reserved?: integer, problem?: string } | nil, message,
 *     code
 * What is known of a device, open or not; the table is empty where its backend reports nothing. */
/* devices() -> string[]
 * The devices of all loaded backends; others, such as "cuda", are loaded when they are named. */
static const luaL_Reg functions[] = {
    {"use", use},
    {"device", current},
    {"devices", lsr_device_names},
    {"describe", lsr_device_describe},
    {"element_size", element_size},
    {"layout_bytes", layout_bytes},
    {"memory", memory},
    {"trim", trim},
    {"poison", poison},
    {"threads", threads},
    {"synchronize", synchronize},
    {"transfers", transfers},
    {"option", option},
    {"plugin", plugin},
    {"comms", comms},
    {"instructions", instructions},
    {"burst", burst},
    {"jobs", jobs},
    {"scope", scope_open},
    {"recording", recording},
    {"set_recording", set_recording},
    {NULL, NULL},
};

void lsr_open_devices(lua_State *L) {
    registry(L);
    luaL_setfuncs(L, functions, 0);
    lsr_class(L, LSR_SCOPE, scope_methods, scope_gc);
}

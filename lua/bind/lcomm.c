/* lcomm.c - ranks: which launcher started this process, and worlds; the module seqrun.core.comm.
 *
 * Ranks count from 0, as in MPI.
 */
#include <string.h>

#include "core/tensor/comm.h"
#include "core/tensor/launch.h"
#include "lua/bind/lcomm.h"
#include "lua/bind/ltensor.h"
#include "plugins.h"

#define WORLD "seqrun.core.World"

sr_comm *lsr_checkworld(lua_State *L, int arg) {
    sr_comm *comm = lsr_checkbox(L, arg, WORLD);
    if (comm->engine == NULL) lsr_argerror(L, arg, "the world was closed");
    return comm;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void set_number(lua_State *L, const char *key, int n) {
    if (n >= 0) lsr_set_integer(L, key, n);
}

/* launch() -> { name: "mpirun"|"srun", bound: boolean, rank?: integer, ranks?: integer,
 *     local_rank?: integer, local_ranks?: integer }?
 * The launcher that started this process, by its environment; a number that it does not tell is
 * absent. */
static int launch(lua_State *L) {
    sr_launch found = sr_launch_find();
    if (found.name == NULL) return 0;
    lua_createtable(L, 0, 6);
    lsr_set_string(L, "name", found.name);
    lsr_set_bool(L, "bound", found.bound);
    set_number(L, "rank", found.rank);
    set_number(L, "ranks", found.ranks);
    set_number(L, "local_rank", found.local_rank);
    set_number(L, "local_ranks", found.local_ranks);
    return 1;
}

static sr_status without_mpi(const sr_launch *found) {
    const char *launcher = found->name;
    if (launcher == NULL)
        return sr_fail(SR_EDEVICE, "this program was built without MPI (%s)", SR_WITHOUT_MPI);
    if (strstr(SR_PLUGINS, " mpi ") != NULL)
        return sr_fail(SR_EDEVICE,
                       "%s started several processes, but seqrun_mpi.so is neither beside the "
                       "program nor in ../lib/seqrun; run make (or make install) again",
                       launcher);
    return sr_fail(SR_EDEVICE,
                   "%s started several processes, but this program was built without MPI (%s); "
                   "build it again with MPI, or start it without %s",
                   launcher, SR_WITHOUT_MPI, launcher);
}

/* The communication engine for the ranks of this launcher on a device. */
static sr_status choose(const sr_comm_engine **engine, const char *name, const sr_device *device) {
    sr_launch found = sr_launch_find();
    bool automatic = strcmp(name, "auto") == 0;
    *engine = sr_comm_at(0);
    if (automatic && (found.name == NULL || found.ranks == 1)) return SR_OK;
    if (strcmp(name, "self") == 0) return SR_OK;
    sr_status st = sr_plugin_find("mpi");
    if (st == SR_ENOENT) return without_mpi(&found);
    SR_TRY(st);
    const char *fits = strcmp(device->backend->name, "cuda") == 0 ? "nccl" : "mpi";
    *engine = sr_comm_named(automatic ? fits : name);
    if (*engine == NULL && automatic) *engine = sr_comm_named("mpi");
    if (*engine != NULL) return SR_OK;
    return sr_fail(SR_EDEVICE, "no communication engine '%s'", name);
}

/* engines() -> { name: string, facts?: string, problem?: string }[] | nil, message, code
 * The engines of the plug-in: what they are, or why one cannot be used. */
static int engines(lua_State *L) {
    sr_launch found = {.name = NULL};
    sr_status st = sr_plugin_find("mpi");
    if (st != SR_OK) return lsr_result(L, st == SR_ENOENT ? without_mpi(&found) : st);
    lua_newtable(L);
    for (int i = 1, n = 0; i < sr_comm_count(); i++) {
        const sr_comm_engine *engine = sr_comm_at(i);
        char text[256] = "";
        st = engine->describe != NULL ? engine->describe(text, sizeof text) : SR_OK;
        lua_createtable(L, 0, 2);
        lsr_set_string(L, "name", engine->name);
        lsr_set_string(L, st == SR_OK ? "facts" : "problem", st == SR_OK ? text : sr_message());
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

/* open(device: string, options?: { engine?: "auto"|"self"|"mpi"|"nccl", timeout?: number }) ->
 *     World | nil, message, code
 * Opens the world that the launcher has started, or one of this process alone. */
static int world_open(lua_State *L) {
    static const char *const known[] = {"engine", "timeout", NULL};
    sr_device *device = lsr_device_named(L, luaL_checkstring(L, 1));
    lsr_check_options(L, 2, "open", known);
    const char *name = lsr_field_string(L, 2, "engine", "auto");
    double timeout = lsr_field_number(L, 2, "timeout", 0);
    const sr_comm_engine *engine;
    sr_comm *comm = lsr_newbox(L, sizeof *comm, WORLD);
    sr_comm opened;
    sr_status st = choose(&engine, name, device);
    if (st == SR_OK) st = sr_comm_open(&opened, engine, device);
    if (st != SR_OK) return lsr_failure(L, st);
    *comm = opened;
    comm->timeout = timeout;
    return 1;
}

/* @class seqrun.core.World
 * An open world.  Calls return true, or nil, message, code when another rank failed. */

/* world:close()
 * Leaves the world. */
static int world_close(lua_State *L) {
    sr_comm_close(lsr_checkbox(L, 1, WORLD));
    return 0;
}

/* world:facts() -> string engine, integer rank, integer ranks, string device
 * The engine, this rank from 0, the number of ranks, and the device. */
static int world_facts(lua_State *L) {
    const sr_comm *comm = lsr_checkworld(L, 1);
    lua_pushstring(L, comm->engine->name);
    lua_pushinteger(L, comm->rank);
    lua_pushinteger(L, comm->ranks);
    lua_pushstring(L, comm->device->name);
    return 4;
}

/* ---- calls: errors in the program raise; nil, message, code when another rank failed --------- */

/* world:wait()
 * Waits until all calls are done. */
static int world_wait(lua_State *L) {
    return lsr_done(L, sr_comm_wait(lsr_checkworld(L, 1)));
}

/* world:barrier()
 * Waits until all ranks have come here. */
static int world_barrier(lua_State *L) {
    return lsr_done(L, sr_comm_barrier(lsr_checkworld(L, 1)));
}

static int rank_argument(lua_State *L, int arg) {
    return (int)lsr_checkrange(L, arg, 0, INT32_MAX);
}

/* world:broadcast(t: Tensor, root: integer)
 * Copies the root's tensor to all ranks. */
static int world_broadcast(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    return lsr_done(L, sr_comm_broadcast(comm, lsr_checktensor(L, 2), rank_argument(L, 3)));
}

/* world:all_reduce(t: Tensor)
 * Sets a tensor to its sum over ranks. */
static int world_all_reduce(lua_State *L) {
    return lsr_done(L, sr_comm_all_reduce(lsr_checkworld(L, 1), lsr_checktensor(L, 2)));
}

/* world:reduce(t: Tensor, root: integer)
 * Sets the root's tensor to its sum over ranks; that of the others is undefined afterwards. */
static int world_reduce(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    return lsr_done(L, sr_comm_reduce(comm, lsr_checktensor(L, 2), rank_argument(L, 3)));
}

/* world:reduce_scatter(part: Tensor, x: Tensor)
 * Sets `part` to this rank's piece of the sum of `x` over ranks. */
static int world_reduce_scatter(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    return lsr_done(L, sr_comm_reduce_scatter(comm, lsr_checktensor(L, 2), lsr_checktensor(L, 3)));
}

/* world:all_gather(x: Tensor, part: Tensor)
 * Sets `x` to the parts of all ranks. */
static int world_all_gather(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    return lsr_done(L, sr_comm_all_gather(comm, lsr_checktensor(L, 2), lsr_checktensor(L, 3)));
}

/* world:send(t: Tensor, to: integer)
 * Sends a tensor to another rank. */
static int world_send(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    return lsr_done(L, sr_comm_send(comm, lsr_checktensor(L, 2), rank_argument(L, 3)));
}

/* world:receive(t: Tensor, from: integer)
 * Receives a tensor from another rank. */
static int world_receive(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    return lsr_done(L, sr_comm_receive(comm, lsr_checktensor(L, 2), rank_argument(L, 3)));
}

/* ---- texts: in tensors of i32, so that every engine can carry them --------------------------- */

/* A tensor of `words` i32 on the world's device, in a box left on the stack. */
static sr_status new_words(lua_State *L, sr_tensor **out, const sr_comm *comm, int64_t words) {
    sr_tensor **box = lsr_newtensor(L);
    SR_TRY(sr_tensor_new_in(box, comm->device->outside, SR_I32, 1, &words));
    *out = *box;
    return SR_OK;
}

static int64_t words_of(int64_t bytes) {
    return (bytes + 3) / 4;
}

/* Pushes a buffer of `words` i32, zero at first. */
static int32_t *new_buffer(lua_State *L, int64_t words) {
    return lsr_scratch(L, words, sizeof(int32_t));
}

/* The root's words on every rank. */
static sr_status broadcast_words(lua_State *L, sr_comm *comm, int32_t *words, int64_t count,
                                 int root) {
    sr_tensor *t;
    SR_TRY(new_words(L, &t, comm, count));
    SR_TRY(sr_tensor_write(t, words, SR_I32));
    SR_TRY(sr_comm_broadcast(comm, t, root));
    SR_TRY(sr_comm_wait(comm));
    return sr_tensor_read(t, words, SR_I32);
}

static const char *check_text(lua_State *L, int arg, size_t *size) {
    const char *text = luaL_optlstring(L, arg, "", size);
    if (*size > INT32_MAX / 2) lsr_argerror(L, arg, "the text is longer than 1 GiB");
    return text;
}

/* world:broadcast_text(text: string?, root: integer) -> string
 * The root's text on every rank. */
static int world_broadcast_text(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    size_t size;
    const char *text = check_text(L, 2, &size);
    int root = rank_argument(L, 3);
    int32_t bytes = (int32_t)size;
    sr_status st = broadcast_words(L, comm, &bytes, 1, root);
    if (st != SR_OK) return lsr_result(L, st);
    int32_t *words = new_buffer(L, words_of(bytes));
    if (comm->rank == root) memcpy(words, text, size);
    if (bytes > 0) st = broadcast_words(L, comm, words, words_of(bytes), root);
    lua_pushlstring(L, (const char *)words, (size_t)bytes);
    return lsr_give(L, st);
}

/* all[ranks * count] = the `count` words of each rank. */
static sr_status gather_words(lua_State *L, sr_comm *comm, int32_t *all, const int32_t *own,
                              int64_t count) {
    sr_tensor *x, *part;
    SR_TRY(new_words(L, &part, comm, count));
    SR_TRY(new_words(L, &x, comm, count * comm->ranks));
    SR_TRY(sr_tensor_write(part, own, SR_I32));
    SR_TRY(sr_comm_all_gather(comm, x, part));
    SR_TRY(sr_comm_wait(comm));
    return sr_tensor_read(x, all, SR_I32);
}

/* world:gather_text(text: string) -> string[]
 * The texts of all ranks, rank 0 first. */
static int world_gather_text(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    size_t size;
    const char *text = check_text(L, 2, &size);
    int32_t bytes = (int32_t)size, most = 0;
    int32_t *sizes = new_buffer(L, comm->ranks);
    sr_status st = gather_words(L, comm, sizes, &bytes, 1);
    if (st != SR_OK) return lsr_result(L, st);
    for (int i = 0; i < comm->ranks; i++)
        if (sizes[i] > most) most = sizes[i];
    int64_t words = words_of(most);
    int32_t *own = new_buffer(L, words), *all = new_buffer(L, words * comm->ranks);
    memcpy(own, text, size);
    if (words > 0) st = gather_words(L, comm, all, own, words);
    LSR_PUSH_LIST(L, comm->ranks, i,
                  lua_pushlstring(L, (const char *)(all + i * words), (size_t)sizes[i]));
    return lsr_give(L, st);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* world:tell(code: string, message: string) -> boolean
 * Tells the other ranks why this one ends; true on the rank that is to print it.
 *   code  a status name */
static int world_tell(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    const char *code = luaL_checkstring(L, 2), *message = luaL_checkstring(L, 3);
    int status = SR_EINTERNAL;
    for (int s = 0; s < SR_STATUS_COUNT; s++)
        if (strcmp(code, sr_status_name((sr_status)s)) == 0) status = s;
    return lsr_give_bool(L, comm->engine->tell(comm, (sr_status)status, message));
}

/* world:abort(code: integer)
 * Ends the processes of all ranks. */
static int world_abort(lua_State *L) {
    sr_comm *comm = lsr_checkworld(L, 1);
    comm->engine->abort(comm, (int)lsr_checkrange(L, 2, 0, 255));
    return 0;
}

/* world:set_timeout(seconds: number)
 * Sets how many seconds a wait gives the other ranks; 0: no limit. */
static int world_set_timeout(lua_State *L) {
    lsr_checkworld(L, 1)->timeout = luaL_checknumber(L, 2);
    return 0;
}

static const luaL_Reg methods[] = {
    {"facts", world_facts},
    {"wait", world_wait},
    {"barrier", world_barrier},
    {"broadcast", world_broadcast},
    {"all_reduce", world_all_reduce},
    {"reduce", world_reduce},
    {"reduce_scatter", world_reduce_scatter},
    {"all_gather", world_all_gather},
    {"send", world_send},
    {"receive", world_receive},
    {"broadcast_text", world_broadcast_text},
    {"gather_text", world_gather_text},
    {"tell", world_tell},
    {"abort", world_abort},
    {"set_timeout", world_set_timeout},
    {"close", world_close},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"launch", launch}, {"engines", engines}, {"open", world_open}, {NULL, NULL}};

void lsr_open_comm(lua_State *L) {
    lsr_class(L, WORLD, methods, world_close);
    luaL_setfuncs(L, functions, 0);
}

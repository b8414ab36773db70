/* nccl.c - ranks over NCCL, one GPU each: the table of comm.h.
 *
 * MPI bootstraps it: rank 0's id is broadcast, and barriers, notes and failure detection go through
 * MPI.  Calls go to a stream of their own, which overlaps with later kernels: it waits for the
 * kernels queued before a call, and those queued after sr_comm_wait() wait for it; the host does
 * not. While the host waits for the device, watch() looks for NCCL errors and failed ranks.  Sends
 * and receives between two waits form a group, as two ranks that each send first would otherwise
 * deadlock; a group ends at sr_comm_engine.progress, or where a later call uses its results.
 *
 * SEQRUN_NCCL names another library, for tests: such a library may work on host memory.
 * SEQRUN_CUDA_DRIVER names another CUDA driver.
 */
#include "kernels/comm/nccl.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/tensor/backend.h"
#include "kernels/comm/mpi.h"

enum { STREAM_BUSY = 600 };                        /* CUDA_ERROR_NOT_READY */
enum { APART = 1, UNTIMED = 2, GROUP_USES = 256 }; /* flags of streams and events */
static const double LOOK_SECONDS = 0.05;

typedef struct nccl_world {
    sr_comm mpi; /* the same ranks */
    nccl_comm *comm;
    void *stream, *event; /* NULL: calls go to the stream of the device, if it has one */
    bool grouped, broken;
    mpi_use use[GROUP_USES]; /* of the open group */
    int64_t uses;
} nccl_world;

static nccl_library nccl;

/* ---- the library ----------------------------------------------------------------------------- */

static sr_status find(void *function, const char *name) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "nccl%s", name);
    void *found = dlsym(nccl.handle, symbol);
    *(void **)function = found;
    return found != NULL ? SR_OK : sr_fail(SR_EDEVICE, "nccl: the library has no %s", symbol);
}

static sr_status check(const char *call, int result) {
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) return SR_OK;
    return sr_fail(SR_EDEVICE, "%s: NCCL failed: %s; set NCCL_DEBUG=WARN for details", call,
                   nccl.GetErrorString(result));
}

static sr_status check_version(void) {
    SR_TRY(check("open", nccl.GetVersion(&nccl.version)));
    if (nccl.version >= NCCL_OLDEST && nccl.version < NCCL_NEXT_MAJOR) return SR_OK;
    return sr_fail(SR_EDEVICE, "nccl: version %d is not supported; install 2.10 or a later 2.x",
                   nccl.version);
}

static void load_driver(void) {
    const char *path = getenv("SEQRUN_CUDA_DRIVER");
    void *driver = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) return;
    *(void **)&nccl.stream_create = dlsym(driver, "cuStreamCreate");
    *(void **)&nccl.stream_destroy = dlsym(driver, "cuStreamDestroy_v2");
    *(void **)&nccl.stream_query = dlsym(driver, "cuStreamQuery");
    *(void **)&nccl.stream_wait = dlsym(driver, "cuStreamWaitEvent");
    *(void **)&nccl.event_create = dlsym(driver, "cuEventCreate");
    *(void **)&nccl.event_destroy = dlsym(driver, "cuEventDestroy_v2");
    *(void **)&nccl.event_record = dlsym(driver, "cuEventRecord");
}

static bool has_streams(void) {
    return nccl.stream_create != NULL && nccl.stream_destroy != NULL && nccl.stream_query != NULL &&
           nccl.stream_wait != NULL && nccl.event_create != NULL && nccl.event_destroy != NULL &&
           nccl.event_record != NULL;
}

static sr_status load_functions(void) {
    SR_TRY(find(&nccl.GetErrorString, "GetErrorString"));
#define NCCL_LOAD(name, arguments) SR_TRY(find(&nccl.name, #name));
    NCCL_FUNCTIONS(NCCL_LOAD)
#undef NCCL_LOAD
    load_driver();
    return check_version();
}

static sr_status load(void) {
    if (nccl.handle != NULL) return SR_OK;
    const char *path = getenv("SEQRUN_NCCL");
    nccl.handle = dlopen(path != NULL ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (nccl.handle == NULL)
        return sr_fail(SR_EDEVICE,
                       "nccl: cannot load the library (%s); install libnccl2, or set "
                       "ranks.engine=mpi, which copies through host memory",
                       dlerror());
    sr_status st = load_functions();
    if (st != SR_OK) nccl.handle = NULL;
    return st;
}

static sr_status nccl_describe(char *text, size_t size) {
    SR_TRY(load());
    int v = nccl.version;
    snprintf(text, size, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return SR_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int type_of(const sr_tensor *x) {
    static const int types[SR_DTYPE_COUNT] = {
        [SR_F64] = NCCL_FLOAT64, [SR_F32] = NCCL_FLOAT32, [SR_BF16] = NCCL_BFLOAT16,
        [SR_I32] = NCCL_INT32,   [SR_BOOL] = NCCL_UINT8,
    };
    return types[x->dtype];
}

static void *device_stream(const sr_comm *comm) {
    const sr_backend *backend = comm->device->backend;
    return backend->queue != NULL ? backend->queue(comm->device) : NULL;
}

static void *stream_of(const sr_comm *comm) {
    const nccl_world *w = comm->state;
    return w->stream != NULL ? w->stream : device_stream(comm);
}

static sr_status driver(const char *call, int result) {
    return result == 0 ? SR_OK
                       : sr_fail(SR_EDEVICE, "%s: the CUDA driver failed: %d", call, result);
}

/* What comes next on this stream runs after the kernels queued so far. */
static sr_status after_kernels(sr_comm *comm) {
    nccl_world *w = comm->state;
    if (w->stream == NULL) return SR_OK;
    SR_TRY(driver("event", nccl.event_record(w->event, device_stream(comm))));
    return driver("event", nccl.stream_wait(w->stream, w->event, 0));
}

static sr_status end_group(sr_comm *comm) {
    nccl_world *w = comm->state;
    if (!w->grouped) return SR_OK;
    w->grouped = false;
    w->uses = 0;
    SR_TRY(after_kernels(comm)); /* NCCL starts a group's calls when it ends */
    return check("send and receive", nccl.GroupEnd());
}

/* Before a collective call. */
static sr_status begin(sr_comm *comm) {
    SR_TRY(end_group(comm));
    return after_kernels(comm);
}

/* A send or receive joins the open group, unless it depends on the group's results. */
static sr_status join_group(sr_comm *comm, const sr_tensor *x, bool written) {
    nccl_world *w = comm->state;
    mpi_use use = {.from = (uintptr_t)sr_tensor_data(x), .written = written};
    use.to = use.from + (size_t)sr_tensor_elements(x) * sr_dtype_size(x->dtype);
    if (w->uses == GROUP_USES || comm_conflicts(w->use, w->uses, use.from, use.to, written))
        SR_TRY(end_group(comm));
    if (!w->grouped) SR_TRY(check("send and receive", nccl.GroupStart()));
    w->grouped = true;
    w->use[w->uses++] = use;
    return SR_OK;
}

static sr_status nccl_send(sr_comm *comm, const sr_tensor *x, int to) {
    nccl_world *w = comm->state;
    SR_TRY(join_group(comm, x, false));
    return check("send", nccl.Send(sr_tensor_data(x), (size_t)sr_tensor_elements(x), type_of(x), to,
                                   w->comm, stream_of(comm)));
}

static sr_status nccl_receive(sr_comm *comm, sr_tensor *x, int from) {
    nccl_world *w = comm->state;
    SR_TRY(join_group(comm, x, true));
    return check("receive", nccl.Recv(sr_tensor_data(x), (size_t)sr_tensor_elements(x), type_of(x),
                                      from, w->comm, stream_of(comm)));
}

static sr_status nccl_broadcast(sr_comm *comm, sr_tensor *x, int root) {
    nccl_world *w = comm->state;
    void *data = sr_tensor_data(x);
    SR_TRY(begin(comm));
    return check("broadcast", nccl.Broadcast(data, data, (size_t)sr_tensor_elements(x), type_of(x),
                                             root, w->comm, stream_of(comm)));
}

static sr_status nccl_all_reduce(sr_comm *comm, sr_tensor *x) {
    nccl_world *w = comm->state;
    void *data = sr_tensor_data(x);
    SR_TRY(begin(comm));
    return check("all_reduce", nccl.AllReduce(data, data, (size_t)sr_tensor_elements(x), type_of(x),
                                              NCCL_SUM, w->comm, stream_of(comm)));
}

static sr_status nccl_reduce(sr_comm *comm, sr_tensor *x, int root) {
    nccl_world *w = comm->state;
    void *data = sr_tensor_data(x);
    SR_TRY(begin(comm));
    return check("reduce", nccl.Reduce(data, data, (size_t)sr_tensor_elements(x), type_of(x),
                                       NCCL_SUM, root, w->comm, stream_of(comm)));
}

static sr_status nccl_reduce_scatter(sr_comm *comm, sr_tensor *part, const sr_tensor *x) {
    nccl_world *w = comm->state;
    SR_TRY(begin(comm));
    return check("reduce_scatter", nccl.ReduceScatter(sr_tensor_data(x), sr_tensor_data(part),
                                                      (size_t)sr_tensor_elements(part), type_of(x),
                                                      NCCL_SUM, w->comm, stream_of(comm)));
}

static sr_status nccl_all_gather(sr_comm *comm, sr_tensor *x, const sr_tensor *part) {
    nccl_world *w = comm->state;
    SR_TRY(begin(comm));
    return check("all_gather", nccl.AllGather(sr_tensor_data(part), sr_tensor_data(x),
                                              (size_t)sr_tensor_elements(part), type_of(x), w->comm,
                                              stream_of(comm)));
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Whether the stream is empty.  Any other answer than done and busy is a failure: the stream will
 * never be empty. */
static sr_status look(bool *done, sr_comm *comm) {
    void *stream = stream_of(comm);
    *done = true;
    if (stream == NULL || nccl.stream_query == NULL) return SR_OK;
    int answer = nccl.stream_query(stream);
    *done = answer != STREAM_BUSY;
    return *done ? driver("wait", answer) : SR_OK;
}

/* The failure of NCCL or of another rank, which calls would wait for without end. */
static sr_status look_around(nccl_world *w) {
    int error = NCCL_SUCCESS;
    SR_TRY(mpi_look(&w->mpi));
    SR_TRY(check("wait", nccl.CommGetAsyncError(w->comm, &error)));
    return check("wait", error);
}

/* sr_device.watch */
static sr_status watch(void *watcher, bool over) {
    nccl_world *w = watcher;
    if (over) {
        mpi_waited(&w->mpi);
        return SR_OK;
    }
    sr_status st = look_around(w);
    if (st != SR_OK) w->broken = true;
    return st;
}

/* Waits until the stream is empty. */
static sr_status poll(sr_comm *comm) {
    double looked = sr_time_monotonic();
    bool done;
    for (;;) {
        SR_TRY(look(&done, comm));
        if (done) return SR_OK;
        sched_yield();
        double now = sr_time_monotonic();
        if (now - looked < LOOK_SECONDS) continue;
        looked = now;
        SR_TRY(look_around(comm->state));
    }
}

/* The host waits until all calls are done. */
static sr_status finish(sr_comm *comm) {
    nccl_world *w = comm->state;
    w->mpi.timeout = comm->timeout;
    sr_status st = end_group(comm);
    if (st == SR_OK) st = poll(comm);
    mpi_waited(&w->mpi);
    if (st != SR_OK) w->broken = true;
    return st;
}

static sr_status nccl_wait(sr_comm *comm) {
    nccl_world *w = comm->state;
    if (w->stream == NULL) return finish(comm);
    w->mpi.timeout = comm->timeout;
    sr_status st = end_group(comm);
    if (st == SR_OK) st = driver("wait", nccl.event_record(w->event, w->stream));
    if (st == SR_OK) st = driver("wait", nccl.stream_wait(device_stream(comm), w->event, 0));
    if (st != SR_OK) w->broken = true;
    return st;
}

static sr_status nccl_progress(sr_comm *comm) {
    return end_group(comm);
}

static sr_status nccl_barrier(sr_comm *comm) {
    nccl_world *w = comm->state;
    SR_TRY(finish(comm));
    return w->mpi.engine->barrier(&w->mpi);
}

static void nccl_abort(sr_comm *comm, int code) {
    nccl_world *w = comm->state;
    w->mpi.engine->abort(&w->mpi, code);
}

static bool nccl_tell(sr_comm *comm, sr_status status, const char *message) {
    nccl_world *w = comm->state;
    w->broken = true;
    return w->mpi.engine->tell(&w->mpi, status, message);
}

/* ---- opening --------------------------------------------------------------------------------- */

static sr_status new_stream(nccl_world *w) {
    if (!has_streams()) return SR_OK;
    SR_TRY(driver("open", nccl.event_create(&w->event, UNTIMED)));
    return driver("open", nccl.stream_create(&w->stream, APART));
}

static void watch_device(sr_comm *comm) {
    comm->device->watch = watch;
    comm->device->watcher = comm->state; /* the caller may move sr_comm */
}

static void leave_device(const sr_comm *comm) {
    if (comm->device->watcher != comm->state) return;
    comm->device->watch = NULL;
    comm->device->watcher = NULL;
}

static void free_stream(nccl_world *w) {
    if (w->stream != NULL) (void)nccl.stream_destroy(w->stream);
    if (w->event != NULL) (void)nccl.event_destroy(w->event);
}

/* Rank 0 makes the id, the others receive it; all fail if rank 0 does. */
static sr_status connect(sr_comm *comm, nccl_world *w) {
    struct {
        int result;
        nccl_id id;
    } first = {.result = NCCL_SUCCESS};
    if (comm->rank == 0) first.result = nccl.GetUniqueId(&first.id);
    SR_TRY(mpi_check(
        "open", MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, ((mpi_world *)w->mpi.state)->notes)));
    SR_TRY(check("open", first.result));
    if (device_stream(comm) != NULL) SR_TRY(new_stream(w)); /* the device is now the current one */
    return check("open", nccl.CommInitRank(&w->comm, comm->ranks, first.id, comm->rank));
}

static void nccl_close(sr_comm *comm) {
    nccl_world *w = comm->state;
    leave_device(comm);
    if (!w->broken) w->broken = finish(comm) != SR_OK;
    if (w->comm != NULL) (void)(w->broken ? nccl.CommAbort(w->comm) : nccl.CommDestroy(w->comm));
    free_stream(w);
    if (w->broken) ((mpi_world *)w->mpi.state)->broken = true;
    sr_comm_close(&w->mpi);
    sr_free(w);
    comm->state = NULL;
}

static sr_status nccl_open(sr_comm *comm) {
    nccl_world *w;
    SR_TRY(load());
    SR_TRY(sr_new(&w, 1));
    sr_status st = sr_comm_open(&w->mpi, &comm_mpi, comm->device);
    if (st != SR_OK) {
        sr_free(w);
        return st;
    }
    comm->state = w;
    comm->rank = w->mpi.rank;
    comm->ranks = w->mpi.ranks;
    st = connect(comm, w);
    w->broken = st != SR_OK;
    if (w->broken)
        nccl_close(comm);
    else if (w->stream != NULL)
        watch_device(comm);
    return st;
}

const sr_comm_engine comm_nccl = {
    .abi = SR_ABI,
    .bytes = sizeof(sr_comm_engine),
    .name = "nccl",
    .describe = nccl_describe,
    .launched = comm_launched,
    .open = nccl_open,
    .close = nccl_close,
    .wait = nccl_wait,
    .progress = nccl_progress,
    .barrier = nccl_barrier,
    .abort = nccl_abort,
    .tell = nccl_tell,
    .broadcast = nccl_broadcast,
    .all_reduce = nccl_all_reduce,
    .reduce = nccl_reduce,
    .reduce_scatter = nccl_reduce_scatter,
    .all_gather = nccl_all_gather,
    .send = nccl_send,
    .receive = nccl_receive,
};

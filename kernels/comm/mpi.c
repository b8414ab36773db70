/* mpi.c - ranks over MPI: the table of comm.h.
 *
 * Every call starts non-blocking operations that sr_comm_wait() ends.  On a device whose memory is
 * not the host's, they work on copies.
 *
 * MPI's counts are int: larger calls are cut into pieces.  SEQRUN_MPI_COUNT sets the largest
 * piece, for tests.
 */
#include "kernels/comm/mpi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/tensor/launch.h"
#include "core/tensor/plugin.h"

/* ---- types and sums -------------------------------------------------------------------------- */

static const MPI_Datatype *types(void) {
    static MPI_Datatype list[SR_DTYPE_COUNT];
    list[SR_F64] = MPI_DOUBLE;
    list[SR_F32] = MPI_FLOAT;
    list[SR_BF16] = MPI_UINT16_T;
    list[SR_I32] = MPI_INT32_T;
    list[SR_BOOL] = MPI_UINT8_T;
    return list;
}

static MPI_Datatype type_of(const sr_tensor *x) {
    return types()[x->dtype];
}

static void add_bf16(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    const sr_bf16 *x = in;
    sr_bf16 *y = inout;
    for (int i = 0; i < *count; i++)
        y[i] = sr_bf16_from_f32(sr_bf16_to_f32(x[i]) + sr_bf16_to_f32(y[i]));
}

static MPI_Op sum_of(const mpi_world *w, const sr_tensor *x) {
    return x->dtype == SR_BF16 ? w->sum_bf16 : MPI_SUM;
}

/* ---- calls in pieces ------------------------------------------------------------------------- */

/* A piece of a call: `count` elements at `data`; `other` is the result where it is elsewhere. */
typedef struct piece {
    mpi_world *w;
    char *data, *other;
    int count;
    MPI_Datatype type;
    MPI_Op op;
    int rank; /* root or other end */
    bool owner;
} piece;

typedef int (*starter)(const piece *p, MPI_Request *request);

static int start_broadcast(const piece *p, MPI_Request *request) {
    return MPI_Ibcast(p->data, p->count, p->type, p->rank, p->w->calls, request);
}

static int start_all_reduce(const piece *p, MPI_Request *request) {
    return MPI_Iallreduce(MPI_IN_PLACE, p->data, p->count, p->type, p->op, p->w->calls, request);
}

static int start_reduce(const piece *p, MPI_Request *request) {
    return MPI_Ireduce(p->data, p->owner ? p->other : NULL, p->count, p->type, p->op, p->rank,
                       p->w->calls, request);
}

static int start_send(const piece *p, MPI_Request *request) {
    return MPI_Isend(p->data, p->count, p->type, p->rank, 0, p->w->calls, request);
}

static int start_receive(const piece *p, MPI_Request *request) {
    return MPI_Irecv(p->data, p->count, p->type, p->rank, 0, p->w->calls, request);
}

/* Starts a call over `count` elements from p.data, piece by piece. */
static sr_status start(const char *call, starter begin, piece p, int64_t count, size_t size) {
    for (int64_t at = 0; at < count; at += p.w->most) {
        MPI_Request *request;
        p.count = (int)(count - at < p.w->most ? count - at : p.w->most);
        SR_TRY(mpi_room(p.w, &request));
        SR_TRY(mpi_started(p.w, call, begin(&p, request)));
        p.data += (size_t)p.count * size;
        if (p.other != NULL) p.other += (size_t)p.count * size;
    }
    return SR_OK;
}

/* A call on one tensor. */
static sr_status call_on(sr_comm *comm, const char *call, starter begin, const sr_tensor *x,
                         int rank, bool read, bool written) {
    void *data;
    if (sr_tensor_elements(x) == 0) return SR_OK;
    SR_TRY(mpi_use_tensor(comm, &data, x, read, written));
    piece p = {.w = comm->state, .data = data, .type = type_of(x), .rank = rank};
    p.op = sum_of(p.w, x);
    return start(call, begin, p, sr_tensor_elements(x), sr_dtype_size(x->dtype));
}

static sr_status mpi_broadcast(sr_comm *comm, sr_tensor *x, int root) {
    bool sends = comm->rank == root;
    return call_on(comm, "broadcast", start_broadcast, x, root, sends, !sends);
}

static sr_status mpi_all_reduce(sr_comm *comm, sr_tensor *x) {
    return call_on(comm, "all_reduce", start_all_reduce, x, 0, true, true);
}

/* By an all-reduce: Open MPI 4's MPI_Ireduce moves 32 KiB per call into MPI, which made it 17 times
 * slower (2 M floats on 2 ranks of a loaded machine, 2026-11-22). */
static sr_status mpi_reduce(sr_comm *comm, sr_tensor *x, int root) {
    (void)root;
    return call_on(comm, "reduce", start_all_reduce, x, 0, true, true);
}

static sr_status mpi_send(sr_comm *comm, const sr_tensor *x, int to) {
    return call_on(comm, "send", start_send, x, to, true, false);
}

static sr_status mpi_receive(sr_comm *comm, sr_tensor *x, int from) {
    return call_on(comm, "receive", start_receive, x, from, false, true);
}

static sr_status mpi_reduce_scatter(sr_comm *comm, sr_tensor *part, const sr_tensor *x) {
    mpi_world *w = comm->state;
    int64_t n = sr_tensor_elements(part);
    size_t size = sr_dtype_size(x->dtype);
    void *from, *to;
    if (n == 0) return SR_OK;
    SR_TRY(mpi_use_tensor(comm, &from, x, true, false));
    SR_TRY(mpi_use_tensor(comm, &to, part, false, true));
    piece p = {.w = w, .type = type_of(x), .op = sum_of(w, x)};
    if (n <= w->most) {
        MPI_Request *request;
        SR_TRY(mpi_room(w, &request));
        return mpi_started(
            w, "reduce_scatter",
            MPI_Ireduce_scatter_block(from, to, (int)n, p.type, p.op, w->calls, request));
    }
    for (p.rank = 0; p.rank < comm->ranks; p.rank++) {
        p.data = (char *)from + (size_t)p.rank * (size_t)n * size;
        p.owner = p.rank == comm->rank;
        p.other = p.owner ? to : NULL;
        SR_TRY(start("reduce_scatter", start_reduce, p, n, size));
    }
    return SR_OK;
}

static sr_status mpi_all_gather(sr_comm *comm, sr_tensor *x, const sr_tensor *part) {
    mpi_world *w = comm->state;
    int64_t n = sr_tensor_elements(part);
    size_t size = sr_dtype_size(x->dtype), bytes = (size_t)n * size;
    void *from, *to;
    if (n == 0) return SR_OK;
    SR_TRY(mpi_use_tensor(comm, &from, part, true, false));
    SR_TRY(mpi_use_tensor(comm, &to, x, false, true));
    piece p = {.w = w, .type = type_of(x)};
    char *own = (char *)to + (size_t)comm->rank * bytes;
    if (own != from) memcpy(own, from, bytes);
    if (n <= w->most) {
        MPI_Request *request;
        SR_TRY(mpi_room(w, &request));
        return mpi_started(w, "all_gather",
                           MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, (int)n, p.type,
                                          w->calls, request));
    }
    for (p.rank = 0; p.rank < comm->ranks; p.rank++) {
        p.data = (char *)to + (size_t)p.rank * bytes;
        SR_TRY(start("all_gather", start_broadcast, p, n, size));
    }
    return SR_OK;
}

static sr_status mpi_barrier(sr_comm *comm) {
    mpi_world *w = comm->state;
    MPI_Request *request;
    SR_TRY(mpi_room(w, &request));
    SR_TRY(mpi_started(w, "barrier", MPI_Ibarrier(w->calls, request)));
    return mpi_wait(comm);
}

static void mpi_abort(sr_comm *comm, int code) {
    (void)comm;
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code); /* the launcher may be slow */
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_worlds; /* MPI is initialised with the first and finalised with the last */

static sr_status begin(void) {
    int begun = 0, ended = 0, level;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (ended) return sr_fail(SR_EDEVICE, "mpi: MPI has been finalised and cannot be opened again");
    if (begun) return SR_OK;
    return mpi_check("MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level));
}

static sr_status mpi_describe(char *text, size_t size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    snprintf(text, size, "%s", version);
    return SR_OK;
}

/* The sizes that launcher and MPI report; they differ where the launcher is of another MPI. */
static sr_status check_size(sr_comm *comm) {
    sr_launch launch = sr_launch_find();
    MPI_Comm_rank(MPI_COMM_WORLD, &comm->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &comm->ranks);
    if (launch.ranks <= 0 || launch.ranks == comm->ranks) return SR_OK;
    char version[128];
    (void)mpi_describe(version, sizeof version);
    return sr_fail(SR_EDEVICE,
                   "mpi: %s started %d processes, but MPI (%s) sees %d; use the mpirun of that "
                   "MPI, or srun --mpi=pmix",
                   launch.name, launch.ranks, version, comm->ranks);
}

static int64_t most_elements(void) {
    const char *value = getenv("SEQRUN_MPI_COUNT");
    long long n = value != NULL ? atoll(value) : 0;
    return n > 0 && n < INT_MAX ? n : 1 << 30;
}

static sr_status set_up(sr_comm *comm, mpi_world *w) {
    w->most = most_elements();
    SR_TRY(check_size(comm));
    SR_TRY(mpi_check("open", MPI_Comm_dup(MPI_COMM_WORLD, &w->calls)));
    SR_TRY(mpi_check("open", MPI_Comm_dup(MPI_COMM_WORLD, &w->notes)));
    MPI_Comm_set_errhandler(w->calls, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(w->notes, MPI_ERRORS_RETURN);
    SR_TRY(mpi_check("open", MPI_Op_create(add_bf16, 1, &w->sum_bf16)));
    return mpi_meet(comm);
}

static void mpi_close(sr_comm *comm);

static sr_status mpi_open(sr_comm *comm) {
    mpi_world *w;
    SR_TRY(sr_new(&w, 1));
    w->calls = w->notes = MPI_COMM_NULL;
    w->sum_bf16 = MPI_OP_NULL;
    sr_status st = begin();
    if (st != SR_OK) {
        sr_free(w);
        return st;
    }
    open_worlds++;
    comm->state = w;
    st = set_up(comm, w);
    w->broken = st != SR_OK;
    if (w->broken) mpi_close(comm);
    return st;
}

/* Where a rank has failed, no call that waits for all ranks may be made. */
static void leave(mpi_world *w) {
    if (w->sum_bf16 != MPI_OP_NULL) MPI_Op_free(&w->sum_bf16);
    if (w->calls != MPI_COMM_NULL) MPI_Comm_free(&w->calls);
    if (w->notes != MPI_COMM_NULL) MPI_Comm_free(&w->notes);
    if (open_worlds == 0) MPI_Finalize();
}

static void mpi_close(sr_comm *comm) {
    mpi_world *w = comm->state;
    bool whole = !w->broken && mpi_barrier(comm) == SR_OK;
    open_worlds--;
    if (whole) leave(w);
    sr_free(w->request);
    sr_free(w->use);
    sr_free(w->peer);
    sr_free(w);
    comm->state = NULL;
}

bool comm_launched(void) {
    return sr_launch_find().name != NULL;
}

const sr_comm_engine comm_mpi = {
    .abi = SR_ABI,
    .bytes = sizeof(sr_comm_engine),
    .name = "mpi",
    .describe = mpi_describe,
    .launched = comm_launched,
    .open = mpi_open,
    .close = mpi_close,
    .wait = mpi_wait,
    .progress = mpi_progress,
    .barrier = mpi_barrier,
    .abort = mpi_abort,
    .tell = mpi_tell,
    .broadcast = mpi_broadcast,
    .all_reduce = mpi_all_reduce,
    .reduce = mpi_reduce,
    .reduce_scatter = mpi_reduce_scatter,
    .all_gather = mpi_all_gather,
    .send = mpi_send,
    .receive = mpi_receive,
};

sr_status sr_plugin_init(const sr_host *host, int abi) {
    (void)abi;
    SR_TRY(host->add_comm(&comm_nccl));
    return host->add_comm(&comm_mpi);
}

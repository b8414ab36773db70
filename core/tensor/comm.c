#include "core/tensor/comm.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensor/backend.h"

/* ---- self: a world of one rank --------------------------------------------------------------- */

static bool self_launched(void) {
    return true;
}

static sr_status self_open(sr_comm *comm) {
    comm->rank = 0;
    comm->ranks = 1;
    return SR_OK;
}

static void self_close(sr_comm *comm) {
    (void)comm;
}

static sr_status self_done(sr_comm *comm) {
    (void)comm;
    return SR_OK;
}

static void self_abort(sr_comm *comm, int code) {
    (void)comm;
    _Exit(code);
}

static bool self_tell(sr_comm *comm, sr_status status, const char *message) {
    (void)comm, (void)status, (void)message;
    return true;
}

static sr_status self_reduce(sr_comm *comm, sr_tensor *x) {
    (void)comm, (void)x;
    return SR_OK;
}

static sr_status self_to_root(sr_comm *comm, sr_tensor *x, int root) {
    (void)comm, (void)x, (void)root;
    return SR_OK;
}

static sr_status self_copy(sr_comm *comm, sr_tensor *to, const sr_tensor *from) {
    return comm->device->backend->copy(to, from);
}

static sr_status self_send(sr_comm *comm, const sr_tensor *x, int to) {
    (void)comm, (void)x, (void)to;
    return SR_EINVAL; /* sr_comm_send() refuses it */
}

static sr_status self_receive(sr_comm *comm, sr_tensor *x, int from) {
    (void)comm, (void)x, (void)from;
    return SR_EINVAL;
}

static const sr_comm_engine self = {
    .abi = SR_ABI,
    .bytes = sizeof(sr_comm_engine),
    .name = "self",
    .launched = self_launched,
    .open = self_open,
    .close = self_close,
    .wait = self_done,
    .progress = self_done,
    .barrier = self_done,
    .abort = self_abort,
    .tell = self_tell,
    .broadcast = self_to_root,
    .all_reduce = self_reduce,
    .reduce = self_to_root,
    .reduce_scatter = self_copy,
    .all_gather = self_copy,
    .send = self_send,
    .receive = self_receive,
};

/* ---- the registry ---------------------------------------------------------------------------- */

enum { MOST = 8 };
static const sr_comm_engine *engines[MOST] = {&self};
static int count = 1;

int sr_comm_count(void) {
    return count;
}

const sr_comm_engine *sr_comm_at(int index) {
    return engines[index];
}

const sr_comm_engine *sr_comm_named(const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(engines[i]->name, name) == 0) return engines[i];
    return NULL;
}

static bool is_complete(const sr_comm_engine *e) {
    return e->name != NULL && e->launched != NULL && e->open != NULL && e->close != NULL &&
           e->wait != NULL && e->progress != NULL && e->barrier != NULL && e->abort != NULL &&
           e->tell != NULL && e->broadcast != NULL && e->all_reduce != NULL && e->reduce != NULL &&
           e->reduce_scatter != NULL && e->all_gather != NULL && e->send != NULL &&
           e->receive != NULL;
}

sr_status sr_comm_add(const sr_comm_engine *e) {
    if (e->abi != SR_ABI || e->bytes != sizeof *e)
        return sr_fail(SR_EDEVICE,
                       "its communication was built for interface %d (%zu bytes), this program has "
                       "%d (%zu bytes); rebuild it against the headers of this program",
                       e->abi, e->bytes, SR_ABI, sizeof *e);
    if (!is_complete(e))
        return sr_fail(SR_EDEVICE, "its communication table has no name, or lacks a function");
    for (int i = 0; i < count; i++)
        if (strcmp(engines[i]->name, e->name) == 0)
            return sr_fail(SR_EDEVICE, "duplicate communication engine '%s'", e->name);
    if (count == MOST)
        return sr_fail(SR_EDEVICE, "too many communication engines; the maximum is %d", MOST);
    engines[count++] = e;
    return SR_OK;
}

void sr_comm_truncate(int to) {
    count = to;
}

sr_status sr_comm_open(sr_comm *out, const sr_comm_engine *engine, sr_device *device) {
    *out = (sr_comm){.engine = engine, .device = device};
    return engine->open(out);
}

void sr_comm_close(sr_comm *comm) {
    if (comm->engine != NULL) comm->engine->close(comm);
    *comm = (sr_comm){.engine = NULL};
}

/* ---- calls with checked arguments ------------------------------------------------------------ */

static sr_status check_free(const sr_comm *comm, const char *call) {
    if (!comm->exchanging) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "%s: gradients are being exchanged in this loop over update:batches(); call it "
                   "after the loop, or set ranks.overlap=false",
                   call);
}

static sr_status check(const sr_comm *comm, const char *call, const sr_tensor *x) {
    char text[128];
    SR_TRY(check_free(comm, call));
    SR_TRY(sr_tensor_check(call, x));
    sr_tensor_describe(x, text, sizeof text);
    if (x->storage->device != comm->device)
        return sr_fail(SR_EINVAL, "%s: the tensor is %s, but the world was opened on %s", call,
                       text, comm->device->name);
    if (!sr_tensor_is_contiguous(x))
        return sr_fail(SR_EINVAL, "%s: the tensor %s is not contiguous", call, text);
    return SR_OK;
}

static sr_status check_rank(const sr_comm *comm, const char *call, int rank) {
    if (rank >= 0 && rank < comm->ranks) return SR_OK;
    return sr_fail(SR_EINVAL, "%s: no rank %d in a world of %d; ranks count from 0", call, rank,
                   comm->ranks);
}

static sr_status check_other(const sr_comm *comm, const char *call, int rank) {
    SR_TRY(check_rank(comm, call, rank));
    if (rank != comm->rank) return SR_OK;
    return sr_fail(SR_EINVAL, "%s: rank %d is this rank itself", call, rank);
}

/* x has the elements of `ranks` parts. */
static sr_status check_parts(const sr_comm *comm, const char *call, const sr_tensor *x,
                             const sr_tensor *part) {
    SR_TRY(check(comm, call, x));
    SR_TRY(check(comm, call, part));
    long long all = sr_tensor_elements(x), one = sr_tensor_elements(part);
    if (x->dtype != part->dtype)
        return sr_fail(SR_EINVAL, "%s: the tensors are %s and %s; they need one dtype", call,
                       sr_dtype_name(x->dtype), sr_dtype_name(part->dtype));
    if (all != one * comm->ranks)
        return sr_fail(SR_EINVAL, "%s: the whole has %lld elements, but %d parts of %lld have %lld",
                       call, all, comm->ranks, one, one * comm->ranks);
    return SR_OK;
}

static sr_status check_sum(const char *call, const sr_tensor *x) {
    if (x->dtype != SR_BOOL) return SR_OK;
    return sr_fail(SR_EINVAL, "%s: cannot sum bool; convert it to i32", call);
}

sr_status sr_comm_wait(sr_comm *comm) {
    SR_TRY(check_free(comm, "wait"));
    return comm->engine->wait(comm);
}

sr_status sr_comm_barrier(sr_comm *comm) {
    SR_TRY(check_free(comm, "barrier"));
    return comm->engine->barrier(comm);
}

sr_status sr_comm_broadcast(sr_comm *comm, sr_tensor *x, int root) {
    SR_TRY(check(comm, "broadcast", x));
    SR_TRY(check_rank(comm, "broadcast", root));
    if (comm->rank != root) sr_tensor_wrote(x);
    return comm->engine->broadcast(comm, x, root);
}

sr_status sr_comm_all_reduce(sr_comm *comm, sr_tensor *x) {
    SR_TRY(check(comm, "all_reduce", x));
    SR_TRY(check_sum("all_reduce", x));
    sr_tensor_wrote(x);
    return comm->engine->all_reduce(comm, x);
}

sr_status sr_comm_reduce(sr_comm *comm, sr_tensor *x, int root) {
    SR_TRY(check(comm, "reduce", x));
    SR_TRY(check_rank(comm, "reduce", root));
    SR_TRY(check_sum("reduce", x));
    sr_tensor_wrote(x);
    return comm->engine->reduce(comm, x, root);
}

sr_status sr_comm_reduce_scatter(sr_comm *comm, sr_tensor *part, const sr_tensor *x) {
    SR_TRY(check_parts(comm, "reduce_scatter", x, part));
    SR_TRY(check_sum("reduce_scatter", x));
    sr_tensor_wrote(part);
    return comm->engine->reduce_scatter(comm, part, x);
}

sr_status sr_comm_all_gather(sr_comm *comm, sr_tensor *x, const sr_tensor *part) {
    SR_TRY(check_parts(comm, "all_gather", x, part));
    sr_tensor_wrote(x);
    return comm->engine->all_gather(comm, x, part);
}

sr_status sr_comm_send(sr_comm *comm, const sr_tensor *x, int to) {
    SR_TRY(check(comm, "send", x));
    SR_TRY(check_other(comm, "send", to));
    return comm->engine->send(comm, x, to);
}

sr_status sr_comm_receive(sr_comm *comm, sr_tensor *x, int from) {
    SR_TRY(check(comm, "receive", x));
    SR_TRY(check_other(comm, "receive", from));
    sr_tensor_wrote(x);
    return comm->engine->receive(comm, x, from);
}
